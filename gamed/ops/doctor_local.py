"""Findings about this machine: files, disk, clock, stores, limits, trusted_proxies (SPEC 2, PROTOCOL 3.9, 7)."""

from collections.abc import Sequence

from msgspec import Struct

from gamed.config.model import LOOPBACK, Config
from gamed.ops.doctor_findings import Finding, HttpFailure, Reached, ok, problem, skipped, warning

OTHERS = 0o077
WRITTEN_BY_ALL = 0o002
MIB = 1024 * 1024
SKEW_SECONDS = 120
"""An ID token is believed so far beside its times."""
DRIFT_SECONDS = 10
WIDE = {4: 8, 6: 16}
"""A network with a shorter prefix is no proxy's."""


class FileFacts(Struct, frozen=True):
    """Of a file that is there."""

    mode: int
    """Permission bits."""
    uid: int


def check_config_file(path: str, facts: FileFacts) -> Finding:
    """It holds no secret, so it may be read."""
    if facts.mode & WRITTEN_BY_ALL:
        return problem("configuration", f"every user of this machine can write {path}", f"Run: chmod o-w {path}")
    return ok("configuration", f"{path} is good")


def check_folder(path: str, facts: FileFacts | None, uid: int) -> Finding:
    """The data folder, seen by the user `uid`."""
    if facts is None:
        return problem(
            "data", f"there is no folder {path}", "Start the service once (gamed serve), or name --data DIR."
        )
    if facts.uid != uid:
        return problem("data", f"{path} belongs to uid {facts.uid}, and this is uid {uid}", "Run this as that user.")
    if facts.mode & OTHERS:
        return warning("data", f"others can look into {path}", f"Run: chmod 700 {path}")
    return ok("data", f"{path} is open to its owner only")


def check_file(name: str, path: str, facts: FileFacts, owner: int, *, secret: bool = False) -> Finding:
    """A file of the data folder, which belongs to `owner`."""
    if facts.uid != owner:
        said = f"{path} belongs to uid {facts.uid}, and its folder to uid {owner}"
        return problem(name, said, f"Run as root: chown {owner} {path}")
    if facts.mode & OTHERS:
        said = f"others can use {path} (mode {facts.mode:o})"
        if secret:
            return problem(name, said, f"Run: chmod 600 {path}. If somebody else was on this machine, it is leaked.")
        return warning(name, said, f"Run: chmod 600 {path}")
    return ok(name, f"{path} is open to its owner only")


def check_disk(free_bytes: int, min_free_bytes: int) -> Finding:
    """Below `min_free_bytes` no save is taken (PROTOCOL 7)."""
    said = f"{free_bytes // MIB} MiB free, and min_free_bytes is {min_free_bytes // MIB} MiB"
    if free_bytes < min_free_bytes:
        return problem("disk", f"{said}: saves are refused", "Make room on this disk, or move the data folder.")
    if free_bytes < 2 * min_free_bytes:
        return warning("disk", f"{said}: soon no save is taken", "Make room on this disk, or move the data folder.")
    return ok("disk", said)


def check_clock(offset_ms: int | None) -> Finding:
    """`offset_ms`: how far a provider's clock is ahead of this machine's; None when none told."""
    if offset_ms is None:
        return skipped("clock", "no provider is there to compare it with")
    seconds = abs(offset_ms) // 1000
    said = f"{seconds} s {'behind' if offset_ms > 0 else 'ahead of'} a provider's clock"
    advice = "Let this machine set its clock from the network: timedatectl set-ntp true"
    if seconds > SKEW_SECONDS:
        return problem("clock", f"{said}: sign-ins fail", advice)
    return warning("clock", said, advice) if seconds > DRIFT_SECONDS else ok("clock", f"within {seconds + 1} s")


def check_store(name: str, schema: int, flaws: Sequence[str]) -> Finding:
    """A store that could be opened; `flaws` as SQLite's quick_check tells them."""
    if flaws:
        return problem(name, f"damaged: {flaws[0]}", "Run gamed check data to list all damage, then restore a backup.")
    return ok(name, f"opens, schema {schema}, passes a quick check")


def check_assets(channels: int, flaws: Sequence[str]) -> Finding:
    """Where channels point; `flaws` as far as they show without reading every file."""
    if flaws:
        return problem("assets", flaws[0], "Run gamed assets verify for all of it, and what to do.")
    return ok("assets", f"{channels} channels point at releases that are there")


def check_open_files(most: int, wanted: int) -> Finding:
    """How many files a process may open here, and how many `limits.connections` asks for."""
    if most < wanted:
        said = f"a process started from here may open {most} files, and limits.connections asks for {wanted}"
        return warning("open files", said, "Start with more (LimitNOFILE= of a unit, ulimit -Hn), or lower the limit.")
    return ok("open files", f"a process started from here may open {wanted}")


def check_server(answer: Reached | None) -> Finding:
    """What GET /healthz of this data folder's server gave; None when none was ever started."""
    start = "Start it: gamed serve, or systemctl start gamed"
    if answer is None:
        return warning("server", "no server was ever started on this data folder", start)
    if isinstance(answer, HttpFailure):
        return warning("server", f"the server of this data folder does not answer ({answer.detail})", start)
    if answer.status != 200 or answer.body != b"ok" or "gamed-instance" not in answer.headers:
        return problem(
            "server", f"it is not well: {answer.status}", "Read the service's log, then run gamed check data."
        )
    return ok("server", f"answers, instance {answer.headers['gamed-instance']}")


def check_proxies(config: Config, *, local: bool | None) -> Finding:
    """Whether limits can count per player; `local`: only this machine reaches the tcp listeners.

    None when it is not known, or there are none: unix sockets are always trusted.
    """
    name, trusted = "trusted_proxies", config.trusted_proxies
    wide = [network for network in trusted if network.prefixlen < WIDE[network.version]]
    if wide:
        return warning(name, f"{wide[0]} is wide: whoever is trusted may claim any address", "Name the proxy alone.")
    if not (config.public_url or "").startswith("https:") or local is None:
        return ok(name, "nothing to say against them")
    here = any(network.overlaps(home) for network in trusted for home in LOOPBACK if network.version == home.version)
    if local and not here:
        said = "only this machine reaches the server, and no address of this machine is trusted: all share one limit"
        return warning(name, said, "Leave trusted_proxies out, or add 127.0.0.0/8 to it.")
    if not local and trusted == LOOPBACK:
        said = "other machines reach the server, and only this machine is trusted: players behind a proxy share a limit"
        return warning(name, said, "If the proxy is elsewhere (or across a container's bridge), name its address.")
    return ok(name, "they fit where the server listens")


def check_provider(name: str, what: str, answer: Reached) -> Finding:
    """Whether an address of a provider answers at all; nothing is sent that it could accept."""
    check = f"provider {name}"
    if isinstance(answer, HttpFailure):
        return problem(check, f"{what} does not answer ({answer.detail})", "Look at this machine's network and DNS.")
    if answer.status >= 500:
        return warning(check, f"{what} answers {answer.status}", "It may pass: try again later.")
    return ok(check, f"{what} answers")


def redirect_uri(config: Config, name: str) -> Finding:
    """What must be registered at the provider, to the letter (SPEC 4)."""
    uri = f"{config.public_url}/auth/{name}/callback"
    return ok(f"provider {name}", f"the redirect URI to register there is {uri}")
