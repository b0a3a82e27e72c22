"""The values of the owner's page that acts, and the ways in which an act can be refused."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gamed.database.backup_format import BackupProgress
from gamed.database.event_counts import EventCount
from gamed.players.model import CodeCheck, NamedPlayer
from gamed.players.names import SignInMethod
from gamed.saves.limits import Usage
from gamed.saves.model import SlotEntry
from gamed.sessions.browser_rules import BrowserInfo
from gamed.sessions.credentials import SessionInfo

HOME: Final = "/auth/owner"
DAY_MS: Final = 24 * 3_600_000
BY: Final = "owner:"
"""In an event, before the id of the owner who acted on the page; a command has the system's user there."""
AT_ONCE: Final = 50
"""The rows of a page of any list."""
NOTE_CHARACTERS: Final = 2000
FOUND_CHARACTERS: Final = 64
"""The longest text to look for; no name is longer."""
MOST_INVITES: Final = 500
"""The open invites that the page makes; a person never hands out so many, a script with a stolen cookie might."""


class OwnerPageError(Exception):
    """The base class of what the page refuses."""


class NotTheOwner(OwnerPageError):
    """A request while the page is off, or by another player: it is answered as an address that does not exist."""


class OwnerProtected(OwnerPageError):
    """An act on the owner's own player; `command` does it on the host (SPEC 4/18)."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


class PersonGone(OwnerPageError):
    """A player who does not exist, or is being erased."""


class DeviceGone(OwnerPageError):
    """A device that is not signed in as this player any more."""


class InviteGone(OwnerPageError):
    """An invite that was used or revoked, or has expired."""


class TooManyInvites(OwnerPageError):
    """An invite beyond MOST_INVITES that are open."""


class NoAccount(OwnerPageError):
    """A reset link for a player without a name and password, or who is blocked."""


class TextUnusable(OwnerPageError):
    """A typed text that is too long, or a number that is not on the page."""


class NotConfirmed(OwnerPageError):
    """An act that needs a code of `gamed owner confirm`; `check` says what is wrong with the typed one."""

    def __init__(self, check: CodeCheck) -> None:
        super().__init__(check.value)
        self.check = check


class NoBackupFolder(OwnerPageError):
    """A backup on a server where `gamed owner page on` named no folder for it."""


class FilesChanged(OwnerPageError):
    """A channel that points at another release than the page showed."""


class BackupRuns(OwnerPageError):
    """A backup while another one is being made."""


class Person(Struct, frozen=True):
    """A row of the list of players."""

    named: NamedPlayer
    ways: Sequence[str] = ()
    """The names of the sign-in methods."""
    devices: int = 0
    bytes: int | None = None
    """None if state.db cannot be read."""


class PeoplePage(Struct, frozen=True):
    """A page of players, by id; `more` is the last id if there are others behind it."""

    people: Sequence[Person]
    more: str | None = None
    count: int | None = None
    """The number of all players; None in a search."""


class PersonDetails(Struct, frozen=True):
    """A player with everything that the owner may decide about."""

    named: NamedPlayer
    note: str
    methods: Sequence[SignInMethod]
    devices: Sequence[SessionInfo]
    browsers: Sequence[BrowserInfo]
    activity: Sequence[EventCount]
    usage: Usage | None = None
    """None if state.db cannot be read."""


class PersonSaves(Struct, frozen=True):
    """A page of a player's saves by name; `more` is the last slot if there are others behind it."""

    named: NamedPlayer | None
    """None for saves whose player auth.db does not have."""
    player_id: str
    slots: Sequence[SlotEntry]
    more: str | None = None


class SavesTotals(Struct, frozen=True):
    """The totals of all saves, and the players with most bytes."""

    usage: Usage
    largest: Sequence[tuple[str, str | None, int]]
    """Id, name and bytes."""


class DailyFigure(Struct, frozen=True):
    """A row of the table `daily_figure`; `day` in days since the epoch."""

    day: int
    players: int
    active: int
    saves: int
    bytes: int
    requests: int
    refusals: int


class KeptBackup(Struct, frozen=True):
    """A backup in the folder, by its manifest."""

    name: str
    made_ms: int
    bytes: int


class BackupRun(Struct, frozen=True):
    """The last backup that was started on the page."""

    instance_id: str
    started_ms: int
    ended_ms: int | None
    problem: str | None


class BackupState(Struct, frozen=True):
    """The backups as the page shows them: None for a folder that is not named, or cannot be read."""

    folder: str | None
    kept: Sequence[KeptBackup] | None
    more: int = 0
    """How many older ones are not listed."""
    run: BackupRun | None = None
    running: bool = False
    progress: BackupProgress | None = None
    """None also if it cannot be read."""


def players_in(event: EventCount) -> Sequence[str]:
    """Return the ids in an event: of the player, and of the owner who acted."""
    return [each for each in (event.key.player_id, owner_of(event.values)) if each]


def owner_of(values: Mapping[str, str]) -> str:
    """Return the id of the owner who did this on the page, "" for whatever else happened."""
    by = values.get("by", "")
    return by.removeprefix(BY) if by.startswith(BY) else ""
