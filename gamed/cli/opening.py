"""From options to Settings: every reason to refuse a start, before either store is touched."""

import os
from collections.abc import Sequence
from secrets import token_bytes
from typing import Any

from attrs import evolve, field, frozen

from gamed import __version__
from gamed.cli import exchange, files, keys, listeners
from gamed.cli.harden import forget
from gamed.cli.lock import Lock
from gamed.cli.passed import passed, refuse_deaf
from gamed.cli.places import Places
from gamed.cli.refusal import say, warn
from gamed.cli.user import refuse_to_serve_others
from gamed.clock import now_ms
from gamed.config.authentication import Judged, parse
from gamed.config.game import Game, parse_game
from gamed.config.problems import ConfigError, ConfigErrors
from gamed.config.settings import DEFAULT_LISTEN, Settings
from gamed.crypto import Keys
from gamed.ops.sd_notify import Manager, Patience
from gamed.storage.migrations import prepare_files

PRIVATE_LISTEN = "GAMED_PRIVATE_LISTEN"


@frozen
class Opened:
    """A configuration that was read and found good."""

    places: Places
    judged: Judged
    first_run: bool
    game: Game = field(factory=Game)
    """The defaults where game.json was not asked for."""


def read_all(places: Places) -> Opened:
    """Both files; what is wrong with either is said at once."""
    errors: list[ConfigError] = []
    opened, game = None, None
    try:
        opened = read(places)
    except ConfigError as e:
        errors.append(e)
    try:
        text = files.read_game(places)
        game = Game() if text is None else parse_game(text, str(places.game))
    except ConfigError as e:
        errors.append(e)
    if opened is None or game is None:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
    return evolve(opened, game=game)


def read(places: Places, *, providers: bool = True) -> Opened:
    """Read and judge; the secrets that were asked for are in no environment afterwards."""
    text = files.read_config(places)
    judged = parse(
        files.FIRST_RUN if text is None else text,
        dict(os.environ),
        files.read_file,
        str(places.config),
        providers=providers,
    )
    forget(judged.secret_names)
    for warning in judged.warnings:
        warn(warning)
    return Opened(places, judged, first_run=text is None)


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
    listeners.judge(listening, config, private=private)
    opening = [*listening, *_admins(reactor, admin, listening)]
    refuse_to_serve_others(places.data)
    if opened.first_run:
        listeners.probe(opening)
        files.write_first_config(places.config)
    files.open_data(places.data)
    lock = Lock.take(places.data)
    if (cut_off := exchange.recover(places.data)) is not None:
        say(f"a restore that was cut off is finished: the stores are those of {cut_off.origin}")
    listeners.probe(opening)
    choice = keys.choose(places.data, config.master_key, token_bytes)
    with keys.refusing(places.data / files.AUTH_DB):
        _prepare_files(places, manager)
    kept = keys.settle(places.data, choice, token_bytes, now_ms)
    lock.note([listener.reached for listener in listening])
    settings = Settings(config, places.config, places.data, texts, private, choice.key, choice.source, opened.game)
    _report(settings, opened, kept)
    return evolve(settings, admin=admin), lock


def _admins(reactor: Any, admin: str | None, others: Sequence[listeners.Listener]) -> list[listeners.Listener]:
    """The one there is, judged; none without the option."""
    if admin is None:
        return []
    listener = listeners.parse_listener(reactor, admin, "--admin")
    listeners.judge_admin(listener, others)
    return [listener]


def _prepare_files(places: Places, manager: Manager) -> None:
    """However long it takes, the manager waits while SQLite gets on."""

    def progress(text: str) -> None:
        say(text)
        manager.status(text)

    patience = Patience(manager)
    prepare_files(places.data, progress, patience.ask)


def _report(settings: Settings, opened: Opened, kept: int | None) -> None:
    fingerprint = Keys.of(settings.master_key, token_bytes).fingerprint
    say(f"gamed {__version__}, {settings.config.mode.value} mode")
    say(f"configuration {settings.config_path}{' (made just now)' if opened.first_run else ''}")
    if opened.places.game.exists():
        say(f"limits {opened.places.game}")
    say(f"data {settings.data}")
    say(f"key from the {'key file' if settings.key_source == 'file' else 'master key'}, fingerprint {fingerprint}")
    if kept is not None:
        say(f"auth.db is written with the master key now: {kept} local accounts kept, everybody signs in again")
