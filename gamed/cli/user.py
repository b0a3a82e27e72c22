"""Which user works here: every file in a data folder belongs to the user whose folder it is."""

import os
import pwd
import shlex
import sys
from pathlib import Path

from gamed.cli.refusal import Refusal


def ran_by() -> str:
    """Who runs this, as `uid:0`, or `uid:0/sudo:1000` for whom root did it; ask before become_owner()."""
    asked = os.environ.get("SUDO_UID", "")
    return f"uid:{os.getuid()}" + (f"/sudo:{asked}" if asked.isdecimal() and asked != str(os.getuid()) else "")


def become_owner(data: Path) -> None:
    """Root working in another user's folder becomes that user: no file there may end up as root's."""
    if (owner := _stranger(data)) is None:
        return
    try:
        os.initgroups(pwd.getpwuid(owner.st_uid).pw_name, owner.st_gid)
    except KeyError:  # a container's user that this machine has no name for
        os.setgroups([owner.st_gid])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def refuse_to_serve_others(data: Path) -> None:
    """Raise Refusal for root: a server would leave files in another user's folder that the user cannot open."""
    if (owner := _stranger(data)) is None:
        return
    try:
        name = user = pwd.getpwuid(owner.st_uid).pw_name
        groups = "--init-groups"
    except KeyError:  # a container's user that this machine has no name for
        name, user, groups = f"#{owner.st_uid}", str(owner.st_uid), "--clear-groups"
    change = ["setpriv", f"--reuid={user}", f"--regid={owner.st_gid}", groups, "--"]
    raise Refusal(
        f"{data} belongs to {name}, who could not open the files that root makes there. Make the folder root's own, or "
        "run the server as that user (User= of a unit, --user of a container), which this command does with the same "
        f"settings: {shlex.join([*change, *sys.orig_argv])}"
    )


def _stranger(data: Path) -> os.stat_result | None:
    """For root alone: the folder of another user."""
    if os.geteuid() != 0 or not data.exists():
        return None
    owner = data.stat()
    return None if owner.st_uid == 0 else owner
