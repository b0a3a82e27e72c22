"""What commands do to a player's saves, each step small enough that the service goes on beside it."""

from secrets import token_bytes
from sqlite3 import Connection

from msgspec.structs import replace

from gamed.cli.host import Files
from gamed.cli.host_shelves import HostShelves
from gamed.cli.people import report
from gamed.cli.refusal import NotDone
from gamed.clock import now_ms
from gamed.config.game import TIB
from gamed.saves.condition import Condition, Wants
from gamed.saves.cursor import new_epoch
from gamed.saves.errors import SaveError
from gamed.saves.limits import SaveLimits
from gamed.saves.orders import Entry, RestoreOrder
from gamed.saves.save_info import save_info
from gamed.saves.version import Version
from gamed.storage import parts
from gamed.storage.state import erasing, restoring, shelves, slots, versions
from gamed.store import BlobCorrupt, BlobGone

UNLIMITED = replace(SaveLimits(), bytes=TIB, history_bytes=TIB, slots=10**9)
"""The owner may go beyond what the player may."""


def bring_back(files: Files, player_id: str, slot: str, number: int, command: str, *, as_json: bool) -> None:
    old = files.look_at_state(lambda connection: _good(connection, player_id, slot, number))
    now = files.state(lambda connection: _restored(connection, player_id, slot, number))
    files.auth(lambda connection: files.tell(connection, command, player_id))
    text = f"{slot} is version {now.version} now, with the {old.size} bytes of version {number}"
    report({"player": player_id, **save_info(now)}, text, as_json=as_json)


def _good(connection: Connection, player_id: str, slot: str, number: int) -> Version:
    """The version, once its bytes gave their hash."""
    version = versions.find(connection, player_id, slot, number)
    if version is None:
        raise NotDone(f"There is no version {number} of {slot}; see: gamed saves versions {player_id} {slot}")
    if version.blob_id is None:
        raise NotDone(f"Version {number} of {slot} is a delete; version {version.parent} is what it deleted.")
    try:
        parts.check(connection, version.blob_id)
    except (BlobCorrupt, BlobGone) as e:
        raise NotDone(f"Version {number} of {slot} cannot be brought back. {e}") from None
    return version


def _restored(connection: Connection, player_id: str, slot: str, number: int) -> Version:
    """Whatever is current now: the owner decides."""
    view = slots.view(connection, player_id, slot)
    condition = Condition(Wants.ABSENT if view.head is None else Wants.PRESENT)
    entry = Entry(player_id, shelves.find(connection, player_id).cursor.epoch)
    outcome = restoring.restore(connection, UNLIMITED, RestoreOrder(entry, slot, number, condition, now_ms()))
    if isinstance(outcome, SaveError) or outcome.current is None:
        raise NotDone(str(outcome))
    return outcome.current


def erase_saves(files: Files, player_id: str) -> None:
    """The log is told once it has begun: what is broken off then is finished by the service."""
    epoch = new_epoch(token_bytes)
    files.state(lambda connection: erasing.begin(connection, player_id, epoch, now_ms()))
    files.auth(lambda connection: files.tell(connection, "saves erase", player_id))
    HostShelves(files).finish(player_id)
