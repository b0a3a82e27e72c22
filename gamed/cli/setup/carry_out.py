"""The steps that carry a plan out: each file is written whole or not at all.

The order is such that a run which ends at any moment leaves a server that serves as before, or none that starts; the
next run goes on from there.
"""

import json
import os
import pwd
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from stat import S_IMODE

from gamed.cli.context import read_with_key
from gamed.cli.errors import CommandFailed, echo, exit_on_error
from gamed.cli.paths import write_whole
from gamed.cli.process import switch_to_owner
from gamed.cli.setup import take_over as taking
from gamed.cli.setup.install import PUBLIC_UMASK, install
from gamed.cli.setup.model import USER, Layout, Plan, PlannedFile, Run, credential, user_id
from gamed.cli.setup.proxy import CADDYFILE
from gamed.cli.setup.samples import credential_folder
from gamed.disk import sync_folder


def carry_out(run: Run) -> None:
    plan, layout = run.plan, run.plan.layout
    if layout.root and user_id() is None:
        home, shell = str(layout.places.data), "/usr/sbin/nologin"
        run.require(["useradd", "--system", "--no-create-home", "--home-dir", home, "--shell", shell, USER])
    install(run)
    owner = _owner(layout)
    _make_folders(plan, owner)
    if plan.source is not None:
        taking.begin(layout, plan.source)
    own = [file for file in plan.files if file.path.is_relative_to(layout.places.config.parent)]
    _write(own, owner)
    if plan.source is not None:
        taking.take_over(layout, plan.source, owner, lambda: _write(own, owner))
    if not taking.is_running(layout.places.data):
        _prepare(run)
    left = _stop(run)
    _write([file for file in plan.files if file not in own], owner)
    left += [*_start(run), *plan.by_hand]
    _switch_page(run)
    _report(run, left)


def _owner(layout: Layout) -> tuple[int, int]:
    """Return user and group of the service: those of its data, else the user of this layout."""
    if not layout.root:
        return os.getuid(), os.getgid()
    data = layout.places.data
    state = data.stat() if data.exists() else None
    if state is not None and state.st_uid != 0:
        return state.st_uid, state.st_gid
    found = pwd.getpwnam(USER)
    return found.pw_uid, found.pw_gid


def _make_folders(plan: Plan, owner: tuple[int, int]) -> None:
    config, data = plan.layout.places.config.parent, plan.layout.places.data
    group = owner[1]
    os.chown(config, os.getuid(), group)
    config.chmod(0o750)
    before = os.umask(PUBLIC_UMASK)
    try:
        for folder in {file.path.parent for file in plan.files} - {config}:
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (data, plan.server.backups):
            folder.mkdir(parents=True, exist_ok=True)
            _give_empty(folder, owner)
    finally:
        os.umask(before)
    if plan.layout.root:  # the unit reads it, also while it has no secret
        credential_folder(plan.server).mkdir(mode=0o700, exist_ok=True)
    for file in plan.files:
        if file.secret:
            file.path.parent.chmod(0o700)
    sync_folder(config)


def _give_empty(folder: Path, owner: tuple[int, int]) -> None:
    """Give a folder to the service unless it has something in it; raise CommandFailed for one of a third user.

    By its descriptor, because a user who may write above it could put a link there between two steps.
    """
    descriptor = os.open(folder.resolve(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.listdir(descriptor):
            return
        if os.fstat(descriptor).st_uid not in (os.getuid(), owner[0]):
            raise CommandFailed(f"{folder} belongs to another user. Name another folder.")
        os.fchown(descriptor, *owner)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _write(files: Sequence[PlannedFile], owner: tuple[int, int]) -> None:
    for file in files:
        if file.is_written():
            continue
        if file.content is None:
            file.path.unlink(missing_ok=True)
            continue
        if file.replaces():  # the owner may have changed it
            state = file.path.stat()
            write_whole(file.kept, file.path.read_bytes(), S_IMODE(state.st_mode), state if os.getuid() == 0 else None)
        write_whole(file.path, file.content, file.mode, group=owner[1] if file.for_service else None)


def _prepare(run: Run) -> None:
    """Make or upgrade the databases in a process of their own, which becomes the user of the service."""
    from gamed.cli.service.prepare import prepare_data  # late: it is most of Twisted

    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ.clear()
            os.environ.update(run.environ)
            with exit_on_error():
                places = run.plan.layout.places
                opened = read_with_key(places, providers=False)
                switch_to_owner(places.data)
                prepare_data(opened, run.plan.server.listener.text)
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise CommandFailed("The databases could not be made. Correct the cause, then run gamed setup again.")


def _stop(run: Run) -> list[str]:
    """Let systemd stop the units whose files are deleted next; return what is left to the owner.

    A socket without its file would listen on, and take the port of the service.
    """
    layout = run.plan.layout
    names = [file.path.name for file in run.plan.files if file.content is None and file.path.exists()]
    if not names:
        return []
    command = [*layout.systemctl, "disable", "--now", *names]
    if layout.is_booted() and run.program(command) == 0:
        return []
    return [f"Run first, if systemd runs: {shlex.join(command)}"]


def _start(run: Run) -> list[str]:
    """Let systemd start the server, where it runs; return what is left to the owner."""
    layout, server = run.plan.layout, run.plan.server
    socket = ["gamed.socket"] if server.public_url else []
    commands = [
        [*layout.systemctl, "daemon-reload"],
        [*layout.systemctl, "enable", "-q", "gamed.service", "gamed-backup.timer"],
        [*layout.systemctl, "restart", *socket, "gamed.service", "gamed-backup.timer"],
    ]
    if any(file.path == CADDYFILE for file in run.plan.files):
        commands.append(["systemctl", "reload-or-restart", "caddy"])
    booted = layout.is_booted()
    left = [] if layout.root else [f"To keep the server running without you: loginctl enable-linger {os.getuid()}"]
    for number, command in enumerate(commands):
        if not booted or run.program(command) != 0:
            if not booted:
                left.append(f"systemd does not run here. Without it: {_serving(run)}")
            return [*left, "Run: " + " && ".join(map(shlex.join, commands[number:]))]
    return left


def _serving(run: Run) -> str:
    """Return the command that serves as the unit does, for a machine without systemd."""
    layout, server = run.plan.layout, run.plan.server
    words = [f"GAMED_CONFIG={layout.places.config}", f"GAMED_DATA={layout.places.data}", *run.plan.program, "serve"]
    words += ["--listen", str(server.listener.port)]
    if not layout.root:
        return shlex.join(["env", *words])
    user = pwd.getpwuid(_owner(layout)[0]).pw_name
    change = shlex.join(["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", *words])
    files = ((name, credential(server, name)) for name in server.secrets)
    return " ".join([*(f'{name}="$(cat {shlex.quote(str(file))})"' for name, file in files), change])


def _switch_page(run: Run) -> None:
    if run.plan.owner_page is None:
        return
    words = ["on", "--backups", str(run.plan.server.backups)] if run.plan.owner_page else ["off"]
    if run.command("owner", "page", *words, "--json").returncode != 0:
        raise CommandFailed("The owner's page could not be switched. Correct the cause, then run gamed setup again.")


def _report(run: Run, left: Sequence[str]) -> None:
    """Print the findings of doctor, an invite while there is no player, and what is left to do."""
    echo("")
    found = run.command("doctor")
    echo(found.stdout.rstrip("\n"))
    gamed = "gamedctl" if run.plan.layout.root else shlex.join(run.plan.program)
    listed = run.command("players", "list", "--limit", "1", "--json")
    if listed.returncode == 0 and not json.loads(listed.stdout):
        invited = run.command("players", "invite", "--json")
        if invited.returncode == 0:
            echo("\nYour own invite, valid once and for a week:")
            _show_link(json.loads(invited.stdout)["url"])
            echo(f"Create your account there, then become the owner: {gamed} owner claim NAME")
    for line in left:
        echo(f"\n{line}")
    if found.returncode != 0:
        raise CommandFailed(f"The server is set up, but has problems. Correct them, then see: {gamed} doctor")


def _show_link(url: str) -> None:
    import segno  # late: only this needs it

    echo(url)
    if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8":
        segno.make_qr(url, error="m").terminal(compact=True)
