"""Both configuration files, read and judged; what commands need of them too, so nothing here knows the network."""

import os

from msgspec import Struct, field
from msgspec.structs import replace

from gamed.cli import files
from gamed.cli.harden import forget
from gamed.cli.places import Places
from gamed.cli.refusal import warn
from gamed.config.authentication import Judged, parse
from gamed.config.game import Game, parse_game
from gamed.config.problems import ConfigError, ConfigErrors


class Opened(Struct, frozen=True):
    """A configuration that was read and found good."""

    places: Places
    judged: Judged
    first_run: bool
    game: Game = field(default_factory=Game)
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
    return replace(opened, game=game)


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
