"""The player's browser as a program: it signs in at the page of a link, and follows the return to the game."""

import sys

from clients.conformance.tests.helpers import CLIENTS

sys.path.append(str(CLIENTS / "conformance"))

from gamed_conformance.browser import Browser, fetched

PASSWORD = "correct horse battery"


def sign_in(url: str, name: str) -> str:
    """Sign in as `name`, with a new account the first time; return the code, or the address of the game."""
    port = int(url.split("/")[2].split(":")[1])
    page = Browser(port).sign_in(url, name, PASSWORD)
    if "/local" in "".join(action for action, _ in page["forms"]):
        page = Browser(port).sign_in(url, name, PASSWORD, create=True)
    back = str(page["return"] or page["code"])
    if back.startswith("http://127.0.0.1"):
        fetched(back)
    return back


if __name__ == "__main__":
    print(sign_in(*sys.argv[1:]))
