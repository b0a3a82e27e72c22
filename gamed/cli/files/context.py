"""Commands for assets share this: their argument types, the opened assets folder, and its errors as sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

import click
from msgspec import Struct

from gamed.assets.errors import (
    AssetsBusy,
    AssetsDamaged,
    AssetsFull,
    AssetsUnreadable,
    ChannelNotFound,
    NoPreviousRelease,
    ReleaseNotFound,
)
from gamed.assets.manifest import is_channel, is_release
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli.completing import complete_channels
from gamed.cli.context import CommandContext, OfflineDatabases, read_game_settings
from gamed.cli.errors import CommandFailed, SetupError, warn
from gamed.cli.interrupt import may_change
from gamed.cli.output import utf8
from gamed.cli.paths import Paths
from gamed.config.game import GameSettings
from gamed.database.connection import AUTH
from gamed.database.errors import DatabaseError


def channel_name(text: str) -> str:
    """Return the name of a channel; raise click.BadParameter if it is not valid."""
    if not is_channel(utf8(text)):
        raise click.BadParameter(
            "a channel's name is 1 to 32 of a-z 0-9 - beginning with a letter, such as stable; not objects, "
            "and not like the id of a release."
        )
    return text


def release_id(text: str) -> str:
    """Return the id of a release; raise click.BadParameter if it is not valid."""
    if not is_release(utf8(text)):
        raise click.BadParameter("a release is r and 16 of 0-9 a-f, as `gamed assets list` shows them.")
    return text


channel_argument = click.argument("channel", type=channel_name, shell_complete=complete_channels)


class Assets(Struct, frozen=True):
    """The assets of a data folder, which the running service may use at the same time."""

    store: AssetStore
    game: GameSettings
    places: Paths
    _files: OfflineDatabases

    @classmethod
    def open(cls, context: CommandContext) -> "Assets":
        """Open the assets; raise DatabaseNotFound if no service has used this data folder."""
        places, files = context.places(), context.open_keyless()
        files.require(AUTH)
        return cls(AssetStore(files.data / FOLDER), read_game_settings(places), places, files)

    @classmethod
    def open_to_change(cls, context: CommandContext) -> "Assets":
        may_change()
        return cls.open(context)

    @property
    def keep(self) -> int:
        return self.game.assets.keep_releases

    def record(self, command: str) -> None:
        """Record for the service's log who ran the command; only warn if that fails, since the work is done."""
        try:
            self._files.write_auth(lambda connection: self._files.record(connection, command, None))
        except (CommandFailed, SetupError, DatabaseError) as e:
            warn(f"the service's log will not show this command: {e}")


@contextmanager
def asset_errors(store: AssetStore) -> Iterator[None]:
    """Turn errors of the assets folder into CommandFailed, as sentences."""
    folder = store.folder
    try:
        yield
    except (AssetsBusy, AssetsUnreadable, NoPreviousRelease) as e:
        raise CommandFailed(f"Nothing was changed: {e}.") from None
    except AssetsFull as e:
        raise CommandFailed(
            f"Nothing was changed: {e}. Free space on the disk of {folder}, or run: gamed assets gc"
        ) from None
    except ReleaseNotFound as e:
        raise CommandFailed(f"There is no release {e}. See: gamed assets list") from None
    except ChannelNotFound as e:
        similar = get_close_matches(str(e), store.channels())
        meant = f" Did you mean {' or '.join(similar)}?" if similar else ""
        raise CommandFailed(f"There is no channel {e}.{meant} See: gamed assets list") from None
    except AssetsDamaged as e:
        advice = "To list all damage, run: gamed assets verify"
        raise CommandFailed(f"Nothing was changed: {folder} is damaged: {e}. {advice}") from None
