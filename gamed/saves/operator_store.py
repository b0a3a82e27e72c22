"""Transactions of an operator on the saves of a player: an old version becomes current, a deleted save comes back.

The commands and the owner's page call the same functions, each within one transaction of state.db.
"""

from typing import Final

from msgspec.structs import replace

from gamed.config.game import TIB, SaveLimits
from gamed.database.connection import Connection
from gamed.saves import tables, version_tables, write_store
from gamed.saves.commands import RestoreCommand, WriteContext
from gamed.saves.errors import SaveDeleted, SaveError, VersionGone
from gamed.saves.model import Version
from gamed.saves.write_rules import Condition, ConditionKind

ALL: Final = 10**9
OPERATOR_LIMITS: Final = replace(SaveLimits(), bytes=TIB, history_bytes=TIB, slots=ALL, deleted_slots=ALL)
"""The operator may exceed the limits of a player."""


def find_restorable(connection: Connection, player_id: str, slot: str, number: int) -> Version:
    """Return a version that has bytes; raise VersionGone, or SaveDeleted if it is the mark of a delete.

    The caller checks the bytes before restore_version(), which copies none.
    """
    version = version_tables.find_version(connection, player_id, slot, number)
    if version is None:
        raise VersionGone(f"There is no version {number} of {slot}.")
    if version.blob_id is None:
        raise SaveDeleted(f"Version {number} of {slot} is a delete; version {version.parent} is what it deleted.")
    return version


def find_deleted(connection: Connection, player_id: str, slot: str) -> int:
    """Return the version that was current before the save was deleted; raise VersionGone if there is none."""
    view = tables.slot_state(connection, player_id, slot)
    if view.current is not None:
        raise VersionGone(f"{slot} is not deleted: version {view.current.version} is current.")
    if view.tombstone is None or view.tombstone.parent is None:
        gone = "is no longer stored" if view.exists else "never existed"
        raise VersionGone(f"{slot} {gone}.")
    return view.tombstone.parent


def restore_version(connection: Connection, player_id: str, slot: str, number: int, now_ms: int) -> Version:
    """Make the version current, whichever version is current now: the operator decides. Raise SaveError.

    What was current stays in the history. No error is raised after a write.
    """
    view = tables.slot_state(connection, player_id, slot)
    condition = Condition(ConditionKind.ABSENT if view.current is None else ConditionKind.PRESENT)
    entry = WriteContext(player_id, tables.find_player(connection, player_id).cursor.epoch)
    command = RestoreCommand(entry, slot, number, condition, now_ms)
    outcome = write_store.restore_version(connection, OPERATOR_LIMITS, command)
    if isinstance(outcome, SaveError):
        raise outcome
    if outcome.current is None:
        raise VersionGone(f"Version {number} of {slot} cannot be restored.")
    return outcome.current
