"""The refusals of a set-up, before it changes anything: folders of others, servers that run, a port in use."""

import os
from contextlib import suppress
from pathlib import Path
from stat import S_IXOTH, S_IXUSR

from gamed.cli.data.move_note import notes, parts_of
from gamed.cli.errors import CommandFailed
from gamed.cli.service import listen
from gamed.cli.service.other_server import is_server
from gamed.cli.setup import take_over as taking
from gamed.cli.setup.install import OPT
from gamed.cli.setup.model import USER, Plan, Run, user_id
from gamed.cli.setup.samples import UNITS
from gamed.config.game import FILE_NAME as GAME

OWN = ("auth.", "state.", "database.", "gamed.", ".gamed", ".auth", "lost+found")
"""How the names begin that an interrupted first start leaves in a data folder."""


def refuse(plan: Plan, port: int) -> None:
    """Raise CommandFailed or SetupError before anything is changed."""
    layout = plan.layout
    served = is_server(layout.places.data)  # also while an interrupted run has not removed its note yet
    _refuse_folders(plan, user_id() if layout.root else os.getuid(), served=served)
    if plan.source is not None and taking.is_running(plan.source.data):
        raise CommandFailed(f"The server in {plan.source.data} runs. Stop it, then run gamed setup again.")
    if plan.checkout is not None and taking.is_running(layout.places.data):
        raise CommandFailed(
            f"The server runs, and another gamed must be installed in {OPT}. Stop it, then run gamed setup again."
        )
    if not taking.is_running(layout.places.data) and not _is_own_socket(plan):
        try:
            listen.probe([plan.server.listener])
        except CommandFailed:
            raise CommandFailed(
                f"Port {port} is used by another program (ss -ltnp names it). Stop that, or choose another: --port 8090"
            ) from None


def _refuse_folders(plan: Plan, owner: int | None, *, served: bool) -> None:
    """Raise CommandFailed for folders that have other things in them, or belong to another user.

    `owner` is the user of the service; None if that user does not exist yet. `served` means that the data folder has
    the server.
    """
    layout, backups, source = plan.layout, plan.server.backups, plan.source
    data = layout.places.data
    known = ["lost+found"]
    if source is not None and data.is_symlink():
        raise CommandFailed(
            f"{data} is a link, and a server is moved to a folder itself. Mount the disk there instead."
        )
    if source is not None and source.data != data and source.data.is_relative_to(data):
        if source.data.parent != data:
            raise CommandFailed(f"{source.data} is deep in {data}. Move it out of there first, with gamed move-data.")
        known = [source.data.name, source.config.name, notes(source)[1].name, GAME]
        known += [path.name for path in parts_of(notes(source)[1])]
    if backups.resolve().is_relative_to(layout.places.data.resolve()):
        raise CommandFailed(f"{backups} is in the data folder: both would be lost together. Name another folder.")
    if layout.root and (closed := _closed_above(backups.resolve(), owner)) is not None:
        raise CommandFailed(
            f"The user of the service cannot enter {closed}, so not reach {backups}. Name another folder, or open that "
            f"one: chmod o+x {closed}"
        )
    if layout.root and served and layout.places.data.stat().st_uid == 0:
        raise CommandFailed(f"{data} belongs to root. Give it to the service's user first: chown -R {USER}: {data}")
    for folder in [backups, *([] if served else [layout.places.data])]:
        if not folder.exists():
            continue
        if not folder.is_dir():
            raise CommandFailed(f"{folder} is not a folder. Move it away, or name another.")
        begun = OWN if source is None else ()
        names = sorted(
            name for name in os.listdir(folder) if folder == backups or not (name in known or name.startswith(begun))
        )
        if names and (folder != backups or folder.stat().st_uid != owner):
            whose = "belongs to another user and has" if folder == backups else "has no server, but"
            raise CommandFailed(f"{folder} {whose} {names[0]}. Name a folder below it, or move that away.")
        if not layout.root and not os.access(folder, os.W_OK | os.X_OK):
            raise CommandFailed(f"This user cannot write to {folder}. Name another folder.")


def _closed_above(folder: Path, owner: int | None) -> Path | None:
    """Return a folder above this one which the user of the service cannot enter; None if there is none."""
    for each in folder.parents:
        with suppress(FileNotFoundError):
            state = each.stat()
            if not state.st_mode & S_IXOTH and not (state.st_uid == owner and state.st_mode & S_IXUSR):
                return each
    return None


def _is_own_socket(plan: Plan) -> bool:
    """Return whether systemd listens at the server's address for the service, which need not run."""
    layout = plan.layout
    try:
        text = (layout.units / UNITS["socket"]).read_text("utf-8")
    except FileNotFoundError:
        return False
    command = [*layout.systemctl, "is-active", "-q", UNITS["socket"]]
    ours = f"ListenStream={plan.server.address}\n" in text
    return ours and layout.is_booted() and Run(plan, plan.environment(os.environ)).program(command) == 0
