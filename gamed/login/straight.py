"""Which browser may go to the provider without a page in between (PROTOCOL 3.2); pure."""

from hmac import compare_digest

from gamed.crypto import Index
from gamed.login.transaction import Intent, LoginTransaction


def goes_straight(login: LoginTransaction, address: Index, fetch_site: str | None) -> bool:
    """A game on this very machine opened the link itself, as far as anyone can tell.

    Everyone else, above all who was sent the link, is first shown who asks. `address` is the index of the browser's
    prefix, `fetch_site` its Sec-Fetch-Site.
    """
    return (
        login.loopback_port is not None
        and login.intent is Intent.LOGIN
        and compare_digest(login.address_index, address)
        and fetch_site in (None, "none")
    )
