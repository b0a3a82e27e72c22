"""The steps of `gamed doctor` about this machine; their only change is that a key file is closed to other users."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_bytes

from gamed.assets import channel_store
from gamed.assets.errors import AssetsDamaged, AssetsUnreadable, ReleaseNotFound
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli import keys
from gamed.cli.checks.http_client import ask, ask_on, to_server
from gamed.cli.context import OpenedConfiguration, read_address
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import Paths
from gamed.cli.process import read_listeners
from gamed.cli.service.listen import describe
from gamed.clock import now_ms
from gamed.config.errors import ConfigError
from gamed.config.model import Config, Provider
from gamed.database.backup_format import stamp
from gamed.database.connection import AUTH
from gamed.database.errors import DatabaseError, MigrationError
from gamed.database.store import Store
from gamed.ops import machine_checks
from gamed.ops.findings import Finding, HttpReply, Reached, ok, problem, skipped, warning
from gamed.ops.machine import Machine, Step, database_steps, quick_steps
from gamed.ops.machine_checks import facts
from gamed.passkeys import tables as passkey_tables
from gamed.passkeys.ceremony import PasskeySite
from gamed.providers.base import ProviderFailure
from gamed.providers.discovery import known_metadata, metadata_url, validate_metadata
from gamed.stores import open_store

_COPIES = ("*.db.v*", "*.before-restore-*", "*.moved-*")
"""The names of databases that an upgrade, a restore and a move leave in the data folder."""
_COPY_MS = 30 * 86_400_000
"""For so long an owner may need them without being asked."""
_STAMP = re.compile(r"\d{8}T\d{6}Z")


def steps(places: Paths, opened: OpenedConfiguration | None, *, complete: bool) -> Sequence[Step]:
    """Return the steps in the order of the report; without a configuration those that need none.

    `complete` means that the configuration and every variable that it names can be used.
    """
    try:
        store = open_store(Config(store=read_address(places)) if opened is None else opened.config, places.data)
        databases = database_steps(store)
    except (ConfigError, SetupError, OSError):  # where they are is one of the errors in the configuration
        store, databases = open_store(Config(), places.data), []
    if opened is None:
        machine = Machine(data=places.data, store=store)
    else:
        config = opened.config
        machine = Machine(
            data=places.data,
            store=store,
            config_path=places.config,
            config=config,
            complete=complete,
            min_free_bytes=opened.game.saves.min_free_bytes,
        )
    found: list[Step] = [
        *quick_steps(machine),
        *databases,
        partial(_assets, AssetStore(places.data / FOLDER)),
        partial(_copies, places.data, store),
        lambda: [machine_checks.check_server(server(places.data))],
    ]
    if opened is None:
        return found
    offsets: list[int] = []
    return [
        *found,
        partial(_key, store, places.data, config),
        lambda: [machine_checks.check_proxies(config, local=_is_local(places.data))],
        *(partial(_provider, config, provider, offsets) for provider in config.providers.values()),
        lambda: [machine_checks.check_clock(min(offsets, key=abs) if offsets else None)],
        lambda: [machine_checks.describe_notify(config.notify)],
        partial(_passkeys, store, config),
    ]


def server(data: Path) -> Reached | None:
    """Ask the server of this folder for its health; return None if its address is not known."""
    try:
        return ask_on(to_server(data), "/healthz")
    except (CommandFailed, OSError):
        return None


def _assets(store: AssetStore) -> list[Finding]:
    """Check the channels; return no finding if nothing is published."""
    if facts(store.folder) is None:
        return []
    errors: list[str] = []
    try:
        names = store.channels()
        for channel in names:
            errors += _channel_errors(store, channel)
    except AssetsUnreadable as e:
        return [machine_checks.check_assets(0, [str(e)])]
    return [machine_checks.check_assets(len(names), errors)] if names else []


def _copies(data: Path, store: Store) -> list[Finding]:
    """Warn of old copies of the databases, which have the data of players who were erased since."""
    before_ms = now_ms() - _COPY_MS
    before = stamp(before_ms)
    files = [
        path.name
        for each in _COPIES
        for path in sorted(data.glob(each))
        # A restore and a move keep the instant of the last write, and have their own in the name.
        if path.lstat().st_mtime * 1000 < before_ms and max(_STAMP.findall(path.name), default="") < before
    ]
    try:
        stamps = {name: name.rpartition("_")[2].upper() for name in store.set_aside_names()}
        schemas = [name for name, instant in stamps.items() if _STAMP.fullmatch(instant) and instant < before]
    except (DatabaseError, MigrationError):  # a step of its own tells that
        schemas = []
    found = (
        (f"{data} has copies of databases", files, "Delete them"),
        (f"{store.describe(AUTH)} has copies beside it", schemas, f"Run DROP SCHEMA {', '.join(schemas)} CASCADE"),
    )
    why = "if all is well: players who were erased since are still in them."
    texts = [(f"{what} that are older than 30 days: {', '.join(names)}", act) for what, names, act in found if names]
    return [warning("copies", text, f"{act} {why}") for text, act in texts]


def _channel_errors(store: AssetStore, channel: str) -> list[str]:
    try:
        channel_store.check_release(store, store.pointer(channel).release)
    except ReleaseNotFound as e:
        return [f"channel {channel} points at {e}, which does not exist"]
    except AssetsDamaged as e:
        return [f"channel {channel}: {e}"]
    return []


def _key(store: Store, data: Path, config: Config) -> list[Finding]:
    name = store.name(AUTH)
    try:
        store.exists(AUTH)
    except (DatabaseError, MigrationError):
        return [skipped("key", f"{name} cannot be read")]
    try:
        choice = keys.choose(store, data, config.master_key, token_bytes, config.master_key_origin)
    except (SetupError, CommandFailed) as e:
        return [problem("key", str(e), f"Correct this first: without its key {name} is worthless.")]
    if choice.fresh:
        return [skipped("key", f"there is no {name} yet to compare it with")]
    return [ok("key", f"the {'key file' if choice.source == 'file' else 'master key'} fits {name}")]


def _passkeys(store: Store, config: Config) -> list[Finding]:
    site = PasskeySite.of(config.public_url)
    void = 0
    try:
        if site is not None and store.exists(AUTH):
            void = store.run_read(AUTH, partial(passkey_tables.count_others, rp_id=site.rp_id))
    except (DatabaseError, MigrationError):
        return [skipped("passkeys", f"{store.name(AUTH)} cannot be read")]
    return [machine_checks.check_passkeys(config.public_url, void)]


def _is_local(data: Path) -> bool | None:
    """Return whether only this machine reaches the server; None if not known, or if it listens on unix sockets only."""
    try:
        listeners = [listener for listener in map(describe, read_listeners(data)) if not listener.path]
    except (OSError, ValueError):
        return None
    return all(listener.local for listener in listeners) if listeners else None


def _provider(config: Config, provider: Provider, offsets: list[int]) -> list[Finding]:
    findings = [machine_checks.redirect_uri(config, provider.name, registered=bool(provider.client_id))]
    known = known_metadata(provider)
    where = provider.authorization_endpoint if known is None else known.authorization_endpoint
    if provider.issuer is not None and known is None:
        answer = ask(metadata_url(provider.issuer))
        _add_offset(answer, offsets)
        findings.append(machine_checks.check_provider(provider.name, "discovery", answer))
        if not isinstance(answer, HttpReply) or answer.status >= 500:
            return findings
        try:
            document, preset = answer.json(), provider.preset
            metadata = validate_metadata(document, provider.issuer, preset.algorithms, tenants=preset.tenants)
            where = metadata.authorization_endpoint
        except ProviderFailure as e:
            return [*findings, problem(f"provider {provider.name}", str(e), "Compare issuer in authentication.json.")]
    answer = ask(where or "")
    _add_offset(answer, offsets)
    return [*findings, machine_checks.check_provider(provider.name, "the sign-in page", answer)]


def _add_offset(answer: Reached, offsets: list[int]) -> None:
    date_ms = answer.date_ms() if isinstance(answer, HttpReply) else None
    if date_ms is not None:
        offsets.append(date_ms - now_ms())


def unreadable(reason: Exception) -> Iterator[Finding]:
    """Yield a problem for each line of the configuration's errors."""
    for line in str(reason).splitlines():
        advice = "Correct the configuration, then check it: gamed check config"
        if "client_secret_env" in line or "notify.url_env" in line:
            advice += " If systemd gives the service its secrets, run this with gamedctl."
        yield problem("configuration", line, advice)
