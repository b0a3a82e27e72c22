"""What every command for assets shares: the folder, the owner's rules for it, what went wrong in words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from gamed.cli.context import CommandContext, OfflineDatabases
from gamed.cli.errors import CommandFailed, DatabaseNotFound, SetupError, warn
from gamed.cli.output import Text
from gamed.cli.paths import AUTH_DB, Paths, read_game
from gamed.config.game import GameSettings, parse_game
from gamed.database.errors import DatabaseError


class ChannelType(Text):
    """The name of a channel."""

    name = "channel"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        if not is_channel(name):
            self.fail(
                "a channel is called by 1 to 32 of a-z 0-9 - beginning with a letter, such as stable; not objects, "
                "and not like a release.",
                param,
                ctx,
            )
        return name


class ReleaseType(Text):
    """The id of a release."""

    name = "release"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        if not is_release(name):
            self.fail("a release is r and 16 of 0-9 a-f, as `gamed assets list` shows them.", param, ctx)
        return name


channel_argument = click.argument("channel", type=ChannelType())


class Assets(Struct, frozen=True):
    """The assets of a data folder, to be worked on beside the running service."""

    store: AssetStore
    game: GameSettings
    where: Paths
    _files: OfflineDatabases

    @classmethod
    def open(cls, host: CommandContext) -> "Assets":
        """NotDone for a data folder that no service has: what is published there, nobody would see."""
        where, files = host.places(), host.open_keyless()
        if not (files.data / AUTH_DB).exists():
            raise DatabaseNotFound(AUTH_DB, files.data)
        text = read_game(where)
        game = GameSettings() if text is None else parse_game(text, str(where.game))
        return cls(AssetStore(files.data / FOLDER), game, where, files)

    @property
    def keep(self) -> int:
        return self.game.assets.keep_releases

    def tell(self, command: str) -> None:
        """The service's log will say who ran it; what was done stays done when that cannot be noted."""
        try:
            self._files.auth(lambda connection: self._files.tell(connection, command, None))
        except (CommandFailed, SetupError, DatabaseError) as e:
            warn(f"the service's log will not tell of this: {e}")


@contextmanager
def refusing(folder: Path) -> Iterator[None]:
    """What the assets folder says, as one sentence."""
    try:
        yield
    except (AssetsBusy, AssetsUnreadable, NoPreviousRelease) as e:
        raise CommandFailed(f"Nothing was changed: {e}.") from None
    except AssetsFull as e:
        raise CommandFailed(
            f"Nothing was changed: {e}. Make room on the disk of {folder}, or see: gamed assets gc"
        ) from None
    except (ChannelNotFound, ReleaseNotFound) as e:
        kind = "channel" if isinstance(e, ChannelNotFound) else "release"
        raise CommandFailed(f"There is no {kind} {e}; see: gamed assets list") from None
    except AssetsDamaged as e:
        advice = "What is wrong, says: gamed assets verify"
        raise CommandFailed(f"Nothing was changed, for {folder} is damaged: {e}. {advice}") from None
