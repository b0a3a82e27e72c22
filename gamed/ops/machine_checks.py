"""Checks of this machine: files, disk, clock, databases, trusted_proxies.

See SPEC 2.1; docs/owners/proxies.md: trusted_proxies; docs/owners/configuration.md: Saves and assets.
"""

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage

from msgspec import Struct

from gamed.config.model import LOOPBACK, Checkpoints, Config, Notify
from gamed.config.settings import KEY_FILE
from gamed.database.sqlite.files import EXTERNAL_LIMIT_BYTES
from gamed.database.store import ServerFacts, Store
from gamed.open_files import RESERVED_FILES
from gamed.ops.findings import FailureCause, Finding, HttpFailure, Level, Reached, ok, problem, skipped, warning
from gamed.passkeys.ceremony import PasskeySite
from gamed.readable import size

OTHERS = 0o077
WRITTEN_BY_ALL = 0o002
SKEW_SECONDS = 120
"""The clock skew that ID token checks accept."""
DRIFT_SECONDS = 10
WIDE = {4: 8, 6: 16}
"""The shortest network prefixes, by IP version, that a proxy may have."""


class FileFacts(Struct, frozen=True):
    """The mode and the owner of a file that exists."""

    mode: int
    """Permission bits."""
    uid: int


def facts(path: Path) -> FileFacts | None:
    """Return mode and owner of a file or folder; None if it does not exist; raise OSError if it may not be read."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return FileFacts(state.st_mode & 0o777, state.st_uid)


def check_files(data: Path, store: Store) -> list[Finding]:
    """Check the data folder, and the databases, their locks and the key file in it, if they exist."""
    folder = facts(data)
    findings = [check_folder(str(data), folder, os.geteuid())]
    for path in (*store.files, data / KEY_FILE):
        found = facts(path)
        if folder is not None and found is not None and not path.is_dir():  # the check of the database reports it
            findings.append(check_file(path.name, str(path), found, folder.uid, secret=path.name == KEY_FILE))
    locks = [(path, facts(path)) for path in store.lock_files]
    checked = [check_file(path.name, str(path), found, folder.uid) for path, found in locks if folder and found]
    return [*findings, *(finding for finding in checked if finding.level is not Level.OK)]


def check_checkpoints(config: Config, store: Store) -> list[Finding]:
    """Check that the program that makes the checkpoints runs; return no finding if gamed makes them."""
    if config.checkpoints is Checkpoints.OWN:
        return []
    logs = [path.with_name(f"{path.name}-wal") for path in store.files]
    largest = max((path.stat().st_size for path in logs if path.exists()), default=0)
    text = f"another program makes them, and the largest write-ahead log has {size(largest)}"
    if largest > EXTERNAL_LIMIT_BYTES:
        return [warning("checkpoints", text, "Start that program, or remove the member checkpoints.")]
    return [ok("checkpoints", text)]


def check_free(data: Path, min_free_bytes: int) -> Finding:
    """Check the free space of the disk of the data folder."""
    try:
        return check_disk(disk_usage(data).free, min_free_bytes)
    except OSError as e:
        return skipped("disk", f"{data}: {e.strerror}")


def check_limit(config: Config) -> Finding:
    """Check how many files this process may open."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.limits.connections + RESERVED_FILES
    return check_open_files(wanted if hard == resource.RLIM_INFINITY else hard, wanted)


def check_config_file(path: str, facts: FileFacts) -> Finding:
    """Check that other users cannot write the file; they may read it, since it has no secret."""
    if facts.mode & WRITTEN_BY_ALL:
        return problem("configuration", f"every user of this machine can write {path}", f"Run: chmod o-w {path}")
    return ok("configuration", f"{path} is valid")


def check_folder(path: str, facts: FileFacts | None, uid: int) -> Finding:
    """Check the data folder as the user `uid`."""
    if facts is None:
        return problem(
            "data", f"there is no folder {path}", "Start the service once (gamed serve), or name --data DIR."
        )
    if facts.uid != uid:
        return problem("data", f"{path} belongs to uid {facts.uid}, and this is uid {uid}", "Run this as that user.")
    if facts.mode & OTHERS:
        return warning("data", f"other users can read {path}", f"Run: chmod 700 {path}")
    return ok("data", f"{path} is closed to other users")


def check_file(name: str, path: str, facts: FileFacts, owner: int, *, secret: bool = False) -> Finding:
    """Check a file of the data folder, which belongs to `owner`."""
    if facts.uid != owner:
        text = f"{path} belongs to uid {facts.uid}, and its folder to uid {owner}"
        return problem(name, text, f"Run as root: chown {owner} {path}")
    if facts.mode & OTHERS:
        text = f"other users can use {path} (mode {facts.mode:o})"
        if secret:
            return problem(
                name, text, f"Run: chmod 600 {path}. If other people use this machine, assume that it leaked."
            )
        return warning(name, text, f"Run: chmod 600 {path}")
    return ok(name, f"{path} is closed to other users")


def check_disk(free_bytes: int, min_free_bytes: int) -> Finding:
    """Check the free space; below `min_free_bytes` saves are refused.

    See docs/owners/configuration.md: Saves and assets.
    """
    text = f"{size(free_bytes)} free, and min_free_bytes is {size(min_free_bytes)}"
    if free_bytes < min_free_bytes:
        return problem("disk", f"{text}: saves are refused", "Free space on this disk, or move the data folder.")
    if free_bytes < 2 * min_free_bytes:
        return warning("disk", f"{text}: soon saves are refused", "Free space on this disk, or move the data folder.")
    return ok("disk", text)


def check_clock(offset_ms: int | None) -> Finding:
    """Check the clock; `offset_ms` is how far a provider's clock is ahead, None if no provider sent a date."""
    if offset_ms is None:
        return skipped("clock", "there is no provider to compare it with")
    seconds = abs(offset_ms) // 1000
    text = f"{seconds} s {'behind' if offset_ms > 0 else 'ahead of'} a provider's clock"
    advice = "Let this machine set its clock from the network: timedatectl set-ntp true"
    if seconds > SKEW_SECONDS:
        return problem("clock", f"{text}: sign-ins fail", advice)
    return warning("clock", text, advice) if seconds > DRIFT_SECONDS else ok("clock", f"within {seconds + 1} s")


def check_store(name: str, schema: int, errors: Sequence[str]) -> Finding:
    """Check a database that could be opened; `errors` are those of SQLite's quick_check."""
    if errors:
        return problem(name, f"damaged: {errors[0]}", "Run gamed check data to list all damage, then restore a backup.")
    return ok(name, f"opens, schema {schema}, passes a quick check")


def check_database_server(facts: ServerFacts) -> list[Finding]:
    """Check a database server that accepts connections: only one with fsync and full_page_writes does."""
    promises = "fsync, full_page_writes and synchronous_commit are on"
    encrypted = "encrypted" if facts.encrypted else "not encrypted, on this machine"
    findings = [ok("store", f"PostgreSQL {facts.version} answers; {promises}; the connection is {encrypted}")]
    used = f"{facts.connections} of {facts.max_connections} connections are used"
    if facts.connections * 10 > facts.max_connections * 9:
        advice = "Raise max_connections: each gamed process needs seven, and each command two."
        findings.append(warning("connections", used, advice))
    else:
        findings.append(ok("connections", used))
    if facts.skew_ms > DRIFT_SECONDS * 1000:
        text = f"the clock of the database server differs by {facts.skew_ms // 1000} s; gamed refuses more than 30 s"
        findings.append(warning("database clock", text, "Set both clocks by the same time server."))
    kind = "synchronous, each write waits for one" if facts.synchronous else "asynchronous"
    standbys = f"{facts.standbys} standbys ({kind})" if facts.standbys else "no standby; a backup is the only copy"
    findings.append(ok("replication", standbys))
    if not facts.checksums:
        advice = "Stop PostgreSQL, then run: pg_checksums --enable"
        findings.append(warning("checksums", "PostgreSQL does not recognize damaged pages", advice))
    if not facts.autovacuum:
        findings.append(warning("autovacuum", "it is off, so deleted rows fill the disk", "Set autovacuum = on."))
    return findings


def check_assets(channels: int, errors: Sequence[str]) -> Finding:
    """Check where channels point; `errors` are those found without reading every file."""
    if errors:
        return problem("assets", errors[0], "Run gamed assets verify to list all errors, and what to do.")
    return ok("assets", f"{channels} channels point at releases that exist")


def check_open_files(most: int, wanted: int) -> Finding:
    """Compare the limit of open files with what `limits.connections` needs."""
    if most < wanted:
        text = f"this shell allows {most} open files; limits.connections needs {wanted}"
        advice = f"Raise that limit (LimitNOFILE={wanted} of a unit, ulimit -n {wanted}), or lower limits.connections."
        return warning("open files", text, advice)
    return ok("open files", f"this shell allows {wanted} open files")


def check_server(answer: Reached | None) -> Finding:
    """Check the reply to GET /healthz of this data folder's server; None if no server was ever started."""
    start = "Start it: gamed serve, or systemctl start gamed"
    if answer is None:
        return warning("server", "no server has been started on this data folder yet", start)
    if isinstance(answer, HttpFailure):
        text = f"the server of this data folder does not answer ({answer.detail})"
        if answer.cause is FailureCause.TIMEOUT:
            return problem("server", text, "Read the service's log, then restart it.")
        return warning("server", text, start)
    if answer.status != 200 or answer.body != b"ok" or "gamed-instance" not in answer.headers:
        return problem(
            "server", f"it is not healthy: {answer.status}", "Read the service's log, then run gamed check data."
        )
    return ok("server", f"answers, instance {answer.headers['gamed-instance']}")


def check_proxies(config: Config, *, local: bool | None) -> Finding:
    """Check that limits can count each player; `local` means that only this machine reaches the tcp listeners.

    `local` is None if that is not known, or if there are none: unix sockets are always trusted.
    """
    name, trusted = "trusted_proxies", config.trusted_proxies
    wide = [network for network in trusted if network.prefixlen < WIDE[network.version]]
    if wide:
        return warning(
            name, f"{wide[0]} is wide: every machine in it may claim any address", "Name only the proxy's address."
        )
    if not (config.public_url or "").startswith("https:") or local is None:
        return ok(name, "no error found")
    here = any(network.overlaps(home) for network in trusted for home in LOOPBACK if network.version == home.version)
    if local and not here:
        text = "only this machine reaches the server, and no address of this machine is trusted: all share one limit"
        return warning(name, text, "Leave trusted_proxies out, or add 127.0.0.0/8 to it.")
    if not local and trusted == LOOPBACK:
        text = "other machines reach the server, and only this machine is trusted: players behind a proxy share a limit"
        return warning(name, text, "If the proxy is elsewhere (or across a container's bridge), name its address.")
    return ok(name, "they fit the server's listeners")


def check_provider(name: str, what: str, answer: Reached) -> Finding:
    """Check that an address of a provider responds; the request has nothing that the provider could accept."""
    check = f"provider {name}"
    if isinstance(answer, HttpFailure):
        return problem(check, f"{what} does not answer ({answer.detail})", "Check this machine's network and DNS.")
    if answer.status >= 500:
        return warning(check, f"{what} answers {answer.status}", "Try again later.")
    return ok(check, f"{what} answers")


def describe_notify(notify: Notify | None) -> Finding:
    """Report whether the server sends messages to its owner; nothing is sent, so the webhook itself is not tried."""
    if notify is None:
        return skipped("notify", "authentication.json has no notify", "Add it to hear of waiting players and problems.")
    return ok(
        "notify", f"messages to the owner go out in the format {notify.format.value}; gamed notify test sends one"
    )


def check_passkeys(public_url: str | None, void: int) -> Finding:
    """Report whether players can have passkeys; `void` are those of another host."""
    site, name = PasskeySite.of(public_url), "passkeys"
    if site is None:
        why = "browsers allow no passkeys at this address"
        return skipped(name, why, "They need a public_url with https and a host name, or http://localhost.")
    if void:
        text = f"{void} of another host than {site.rp_id} cannot sign in any more"
        ways = "another way, such as with a recovery code, or by gamed players reset-link"
        return warning(name, text, f"Players sign in {ways}, and add new ones.")
    return ok(name, f"players can add passkeys of {site.rp_id}")


def redirect_uri(config: Config, name: str, *, registered: bool = True) -> Finding:
    """Report the redirect URI that must be registered at the provider, letter by letter (SPEC 4)."""
    uri = f"{config.public_url}/auth/{name}/callback"
    if not registered:
        return ok(f"provider {name}", f"nothing is registered there; browsers return to {uri}")
    return ok(f"provider {name}", f"the redirect URI to register there is {uri}")
