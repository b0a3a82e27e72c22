"""From a configuration to Settings: every reason to refuse a start, before either store is touched."""

import os
from collections.abc import Sequence
from pathlib import Path
from secrets import token_bytes
from typing import Any

from msgspec.structs import replace

from gamed import __version__
from gamed.cli import exchange, files, key_file, keys, listeners
from gamed.cli.lock import Lock, note_listeners
from gamed.cli.passed import passed, refuse_deaf
from gamed.cli.places import Places
from gamed.cli.reading import Opened
from gamed.cli.refusal import say
from gamed.cli.user import refuse_to_serve_others
from gamed.cli.words import counted
from gamed.clock import now_ms
from gamed.config.settings import DEFAULT_LISTEN, Settings
from gamed.crypto import Keys
from gamed.ops.sd_notify import Manager, Patience
from gamed.storage.migrations import check_schema, prepare_file, prepare_state

PRIVATE_LISTEN = "GAMED_PRIVATE_LISTEN"


def prepare(
    reactor: Any,
    opened: Opened,
    listen: Sequence[str],
    *,
    private: bool,
    manager: Manager,
    admin: str | None = None,
) -> tuple[Settings, Lock]:
    """Checked, locked, migrated, keyed; before any fork. The caller keeps the lock."""
    config, places = opened.judged.config, opened.places
    private = private or os.environ.get(PRIVATE_LISTEN) == "1"
    texts = tuple(listen or passed(reactor) or (DEFAULT_LISTEN,))
    listening = [listeners.parse_listener(reactor, text) for text in texts]
    refuse_deaf(reactor, listening)
    listeners.refuse_repeated(listening)
    listeners.judge(listening, config, private=private)
    opening = [*listening, *_admins(reactor, admin, listening)]
    refuse_to_serve_others(places.data)
    if opened.first_run:
        listeners.probe(opening)
    files.open_data(places.data)
    lock = Lock.take(places.data)
    if (cut_off := exchange.recover(places.data)) is not None:
        say(f"a restore that was cut off is finished: the stores are those of {cut_off.origin}")
    listeners.probe(opening)
    for name in (files.AUTH_DB, files.STATE_DB):
        with keys.refusing(places.data / name):
            check_schema(places.data / name)
    with files.removed_on_failure(_made_by_a_start(places)):  # locked, so that no other start makes them now
        if opened.first_run:
            files.write_first_config(places.config)
        choice = keys.choose(places.data, config.master_key, token_bytes, config.master_key_origin)
        _prepare_files(places, manager)
        kept = keys.settle(places.data, choice, token_bytes, now_ms)
    note_listeners(places.data, [listener.reached for listener in listening])
    settings = Settings(config, places.config, places.data, texts, private, choice.key, choice.source, opened.game)
    _report(settings, opened, kept)
    return replace(settings, admin=admin), lock


def _admins(reactor: Any, admin: str | None, others: Sequence[listeners.Listener]) -> list[listeners.Listener]:
    """The one there is, judged; none without the option."""
    if admin is None:
        return []
    listener = listeners.parse_listener(reactor, admin, "--admin")
    listeners.judge_admin(listener, others)
    return [listener]


def _made_by_a_start(places: Places) -> list[Path]:
    """Return the files that a first start makes, in the order in which a failed one may remove them.

    What SQLite keeps beside a store belongs to that store, and so does the key to auth.db: they stay with one that
    was there before.
    """
    made = []
    for name, beside in ((files.STATE_DB, []), (files.AUTH_DB, [places.data / key_file.FILE_NAME])):
        if not (places.data / name).exists():
            made += [*(places.data / f"{name}{suffix}" for suffix in exchange.BESIDE[::-1]), *beside]
    return [*made, places.config]


def _prepare_files(places: Places, manager: Manager) -> None:
    """However long it takes, the manager waits while SQLite gets on."""

    def progress(text: str) -> None:
        say(text)
        manager.status(text)

    patience = Patience(manager)
    with keys.refusing(places.data / files.AUTH_DB):
        prepare_file(places.data / files.AUTH_DB, progress, patience.ask)
    with keys.refusing(places.data / files.STATE_DB):
        prepare_state(places.data, progress, patience.ask)


def _report(settings: Settings, opened: Opened, kept: int | None) -> None:
    fingerprint = Keys.of(settings.master_key, token_bytes).fingerprint
    say(f"gamed {__version__}, {settings.config.mode.value} mode")
    say(f"configuration {settings.config_path}{' (made just now)' if opened.first_run else ''}")
    if opened.places.game.exists():
        say(f"limits {opened.places.game}")
    say(f"data {settings.data}")
    say(f"key from the {'key file' if settings.key_source == 'file' else 'master key'}, fingerprint {fingerprint}")
    if kept is not None:
        accounts = counted(kept, "local account")
        say(f"auth.db is written with the master key now: {accounts} kept, everybody signs in again")
