"""`gamed players`, all of it: the group, and the commands that other modules have."""

from gamed.cli.admission_commands import approve, block, reject, unblock
from gamed.cli.departure_commands import erase, merge
from gamed.cli.person_commands import find, note, show
from gamed.cli.player_commands import players

__all__ = ["players"]

for command in (show, find, note, approve, reject, block, unblock, merge, erase):
    players.add_command(command)
