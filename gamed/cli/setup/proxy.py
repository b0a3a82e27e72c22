"""The Caddyfile of a server with an address: planned in the place of one that is ours, else beside it."""

import socket
from contextlib import closing
from errno import EADDRINUSE
from pathlib import Path
from shutil import which

from msgspec.structs import replace

from gamed.cli.errors import CommandFailed
from gamed.cli.setup.answers import Answers, Players
from gamed.cli.setup.model import Layout, PlannedFile
from gamed.cli.setup.samples import HTTPS_PORT, PRINTED, Server, caddy_text

CADDYFILE = Path("/etc/caddy/Caddyfile")
OF_DEBIAN = [":80 {", "root * /usr/share/caddy", "file_server", "}"]
"""The lines of the Caddyfile that Debian's package installs, without comments."""


def plan_proxy(layout: Layout, server: Server, answers: Answers) -> tuple[list[PlannedFile], list[str]]:
    """Return the Caddyfile, if there is an address, and what the owner has to do about it."""
    if answers.address is None:
        return [], []
    text = caddy_text(server, internal=answers.players is Players.HOME).encode()
    if not layout.root:
        path = layout.places.config.with_name("Caddyfile")
        return [PlannedFile(path, text)], [f"As root: cp {path} {CADDYFILE} && systemctl reload caddy"]
    if which("caddy") is None:
        again = f"apt-get install caddy && {server.program or 'gamed'} setup"
        return [], [f"Caddy is not installed. Run: {again}. For nginx see: gamedctl nginx"]
    check = "Then ask the address as a player does: gamedctl doctor --public"
    if answers.players is Players.HOME:
        check = "Each device must trust this Caddy once: docs/owners/at-home.md has the steps."
    if _is_replaceable(CADDYFILE, server, text.decode()):
        busy = "Port 443 is in use. If that is not Caddy (ss -ltnp names it), stop that, or see: gamedctl nginx"
        return [PlannedFile(CADDYFILE, text)], [busy, check] if _is_in_use(HTTPS_PORT) else [check]
    beside = CADDYFILE.with_name("gamed.caddy")
    return [PlannedFile(beside, text)], [
        f"{CADDYFILE} has other sites and stays as it is. Add the two blocks of {beside} to it, then: "
        "systemctl reload caddy",
        check,
    ]


def _is_in_use(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as e:
            return e.errno == EADDRINUSE
    return False


def _is_replaceable(caddyfile: Path, server: Server, text: str) -> bool:
    """Return whether the file has no site but this server's, with its address of now or of an earlier run."""
    try:
        present = caddyfile.read_text("utf-8")
    except FileNotFoundError:
        return True
    first = present.partition("\n")[0]
    if PRINTED not in first:
        return [line.strip() for line in present.splitlines() if line.strip() and line.strip()[0] != "#"] == OF_DEBIAN
    known = _sites(text)
    try:
        known |= _sites(caddy_text(replace(server, public_url=first.removeprefix("# ").partition(", ")[0])))
    except (CommandFailed, ValueError):  # somebody else's words
        return False
    return _sites(present) <= known


def _sites(caddyfile: str) -> set[str]:
    """Return the lines outside of blocks: the addresses of sites, and whatever else stands there."""
    found, depth = set(), 0
    for line in caddyfile.splitlines():
        words = line.split()
        comment = next((number for number, word in enumerate(words) if word.startswith("#")), len(words))
        if not (words := words[:comment]):
            continue
        depth -= words[0] == "}"
        if depth == 0 and words != ["}"]:
            found.add(" ".join(words))
        depth += words[-1].endswith("{")
    return found
