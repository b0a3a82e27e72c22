"""`gamed setup` asks, shows what it will write, writes it, starts the server, and ends with doctor and an invite.

Each file is written whole or not at all, and the order is such that a run which ends at any moment leaves a server that
serves as before, or none that starts; the next run goes on from there.
"""

import fcntl
import json
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import click
from msgspec import Struct

from gamed.cli.completing import complete_files
from gamed.cli.context import CommandContext, read_with_key
from gamed.cli.errors import CommandFailed, SetupError, echo, exit_on_error
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted
from gamed.cli.paths import Paths, write_whole
from gamed.cli.process import harden, read_listeners, switch_to_owner
from gamed.cli.service import listen
from gamed.cli.service.other_server import is_server
from gamed.cli.setup import plan as planning
from gamed.cli.setup import take_over as taking
from gamed.cli.setup.answers import ask, proposed, read_answers
from gamed.cli.setup.plan import OPT, USER, Layout, Plan, PlannedFile
from gamed.cli.setup.samples import UNITS, credential_folder, load_without_secrets
from gamed.disk import sync_folder

INSTALL = (
    *("venv --clear {opt}", "pip --python {opt}/bin/python install -q --require-hashes -r etc/build-constraints.txt"),
    *("pip --python {opt}/bin/python install -q --require-hashes -r constraints.txt",),
    *("pip --python {opt}/bin/python install -q --no-deps --no-build-isolation .",),
)
"""The arguments of `python -m`, run in the checkout; gamed itself is the last one."""
DRIVER = "pip --python {opt}/bin/python install -q --require-hashes -r etc/postgresql-constraints.txt"
"""The further arguments for a store in PostgreSQL."""
PUBLIC_UMASK = 0o022
"""Programs and units are for every user to read; harden() closes all other files."""


class Run(Struct, frozen=True):
    """One run: the plan, and the environment of the commands that it starts."""

    plan: Plan
    environ: dict[str, str]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of gamed for the new server; its stderr is the operator's."""
        return subprocess.run(
            [*self.plan.program, *words], env=self.environ, stdout=subprocess.PIPE, text=True, check=False
        )

    def program(self, words: Sequence[str], cwd: Path | None = None) -> int:
        """Run another program, without a secret in its environment; return its exit code."""
        done = subprocess.run(words, cwd=cwd, env=self.environ, stdin=subprocess.DEVNULL, check=False)
        return done.returncode

    def require(self, words: Sequence[str], cwd: Path | None = None) -> None:
        """Run another program that has to succeed; raise SetupError or CommandFailed."""
        try:
            code = self.program(words, cwd)
        except FileNotFoundError:
            raise SetupError(f"{words[0]} is not installed. Install it, then run gamed setup again.") from None
        if code != 0:
            raise CommandFailed(
                f"This command failed: {shlex.join(words)}. Correct the cause, then run gamed setup again."
            )


@click.command(short_help="Set a server up that stays.")
@click.option(
    "--answers",
    "answers_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    shell_complete=complete_files,
    help="Read the answers from a JSON file, and ask nothing.",
)
@click.option("--dry-run", is_flag=True, help="Print every file with its mode and content, and change nothing.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="PORT", help="The port on this machine. [default: 8080]")
@click.pass_obj
def setup(context: CommandContext, answers_file: Path | None, dry_run: bool, port: int | None) -> None:
    """Set a server up that stays: configuration, key, units of systemd, Caddyfile and a backup every night.

    It asks six questions. As root everything is in /etc/gamed and /var/lib/gamed, else in the home folder. A server
    that is on this machine already is moved there with its players and saves. If it is interrupted, run it again.
    """
    harden()
    if answers_file is None and (sys.stdin is None or not sys.stdin.isatty()):
        raise click.UsageError("Standard input is not a terminal. Pass --answers FILE.")
    layout = planning.choose_layout(os.environ)
    source = taking.find_server(context, layout, os.environ)
    text = taking.read_present(layout, source)
    if source not in (None, layout.places):
        echo(f"There is a server in {source.data}; it is moved to {layout.places.data}, with its players and saves.")
    elif source is not None:
        echo(f"There is a server in {source.data}; it stays, and these answers are its settings.")
    else:
        for other in taking.find_of_others(layout):
            command = shlex.join(["gamed", "--config", str(other.config), "--data", str(other.data), "setup"])
            echo(f"There is a server in {other.data}, which stays apart. To move that one instead: {command}")
    config = None if text is None else load_without_secrets(source or layout.places, text)
    answers = (
        read_answers(answers_file)
        if answers_file
        else ask(proposed(layout.answers, config, layout.backups, page=_page(source)))
    )
    used = port or _port(source) or listen.USUAL_PORT
    if source is not None and (lost := _left_listeners(source)):
        echo(f"It listened at {', '.join(lost)}; now it listens at 127.0.0.1:{used} alone.")
    plan = planning.make_plan(layout, answers, source, text, port=used, environ=os.environ)
    _refuse(plan, used)
    if dry_run:
        for line in _dry_lines(plan):
            echo(line)
        return
    for line in _lines(plan):
        echo(line)
    if answers_file is None and not click.confirm("Write this?", default=True):
        raise CommandFailed("Nothing was changed.")
    may_change()
    with _alone(layout):
        # Another run may have ended between the plan and the lock.
        if (taking.find_server(context, layout, os.environ), taking.read_present(layout, source)) != (source, text):
            raise CommandFailed("Another gamed setup has changed this server. Run gamed setup again.")
        _carry_out(Run(plan, plan.environment(os.environ)))


def _page(source: Paths | None) -> bool | None:
    """Return whether the owner's page of this server is on; None if there is no server, or it cannot be read now."""
    if source is None:
        return None
    words = [sys.executable, "-P", "-m", "gamed", "--config", str(source.config), "--data", str(source.data)]
    done = subprocess.run([*words, "owner", "page", "status", "--json"], capture_output=True, text=True, check=False)
    return bool(json.loads(done.stdout)["on"]) if done.returncode == 0 else None


def _left_listeners(source: Paths) -> list[str]:
    """Return the listeners of a server that its unit has not: sockets of a path, and addresses of the network."""
    listeners = [listen.describe(text) for text in read_listeners(source.data)]
    return [each.text for each in listeners if each.kind != "tcp" or not each.local]


def _port(source: Paths | None) -> int | None:
    listeners = [listen.describe(text) for text in read_listeners(source.data)] if source else []
    return next((each.port for each in listeners if each.kind == "tcp" and each.local), None)


def _refuse(plan: Plan, port: int) -> None:
    """Raise CommandFailed or SetupError before anything is changed."""
    layout = plan.layout
    served = is_server(layout.places.data)  # also while an interrupted run has not removed its note yet
    planning.refuse_folders(plan, _user_id() if layout.root else os.getuid(), served=served)
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


def _is_own_socket(plan: Plan) -> bool:
    """Return whether systemd listens at the server's address for the service, which need not run."""
    layout = plan.layout
    try:
        text = (layout.units / UNITS["socket"]).read_text("utf-8")
    except FileNotFoundError:
        return False
    command = ["systemctl", *([] if layout.root else ["--user"]), "is-active", "-q", UNITS["socket"]]
    ours = f"ListenStream={plan.server.address}\n" in text
    return ours and _is_booted(layout) and Run(plan, plan.environment(os.environ)).program(command) == 0


def _user_id() -> int | None:
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        return None


def _lines(plan: Plan) -> Iterator[str]:
    """Yield what the run will change, for a person."""
    changed = [file for file in plan.files if not file.is_written()]
    if not plan.layout.root:
        yield "This user is not root: everything is put into the home folder, and a proxy is left to you."
    if plan.checkout is not None:
        yield f"install  {OPT}, from {plan.checkout}: the user of the service cannot read {sys.prefix}"
    if plan.source is not None:
        yield f"move     {plan.source.data} to {plan.layout.places.data}"
    for file in changed:
        kept = f", kept as {file.kept}" if file.replaces() else ""
        yield f"{_verb(file)} {file.path}{kept}"
    if len(changed) < len(plan.files):
        yield f"{counted(len(plan.files) - len(changed), 'file')} already as wanted"


def _verb(file: PlannedFile) -> str:
    return "delete  " if file.content is None else "replace " if file.path.exists() else "write   "


def _dry_lines(plan: Plan) -> Iterator[str]:
    """Yield each file with its mode and content, but for secrets."""
    yield from _lines(plan)
    for file in plan.files:
        if file.content is not None:
            owner = f"root:{USER}" if file.for_service and plan.layout.root else "root" if plan.layout.root else "yours"
            yield f"\n# {file.path} ({file.mode:04o}, {owner})"
            if file.secret or file.copied:
                yield "(a secret, not shown)" if file.secret else "(a copy, not shown)"
            else:
                yield file.content.decode().rstrip("\n")
    yield from ("\n# Left to you", *plan.by_hand) if plan.by_hand else ()


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """Make the folder of the configuration, and hold its lock: a second run at the same time would mix its files."""
    folder = layout.places.config.parent
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CommandFailed("Another gamed setup runs. Wait for its end.") from None
    finally:
        os.close(descriptor)


def _carry_out(run: Run) -> None:
    plan, layout = run.plan, run.plan.layout
    if layout.root and _user_id() is None:
        home, shell = str(layout.places.data), "/usr/sbin/nologin"
        run.require(["useradd", "--system", "--no-create-home", "--home-dir", home, "--shell", shell, USER])
    _install(run)
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


def _switch_page(run: Run) -> None:
    if run.plan.owner_page is None:
        return
    words = ["on", "--backups", str(run.plan.server.backups)] if run.plan.owner_page else ["off"]
    if run.command("owner", "page", *words, "--json").returncode != 0:
        raise CommandFailed("The owner's page could not be switched. Correct the cause, then run gamed setup again.")


def _install(run: Run) -> None:
    """Install the checkout where the service can read it; an interrupted installation begins again."""
    plan = run.plan
    if plan.checkout is None:
        return
    echo(f"installing gamed in {OPT}; this takes a minute or two")
    before = os.umask(PUBLIC_UMASK)
    try:
        for each in (*INSTALL[:-1], *([DRIVER] if plan.server.postgresql else []), INSTALL[-1]):
            words = each.format(opt=OPT).split()
            python = str(Path(sys.executable).resolve()) if words[0] == "venv" else sys.executable
            run.require([python, "-m", *words], cwd=plan.checkout)
        OPT.chmod(0o755)  # `venv --clear` keeps the mode of a folder that is there
    finally:
        os.umask(before)


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
    command = ["systemctl", *([] if layout.root else ["--user"]), "disable", "--now", *names]
    if _is_booted(layout) and run.program(command) == 0:
        return []
    return [f"Run first, if systemd runs: {shlex.join(command)}"]


def _is_booted(layout: Layout) -> bool:
    """Return whether the service manager runs that has the units of this layout."""
    return Path("/run/systemd/system" if layout.root else f"/run/user/{os.getuid()}/systemd").is_dir()


def _start(run: Run) -> list[str]:
    """Let systemd start the server, where it runs; return what is left to the owner."""
    layout, server = run.plan.layout, run.plan.server
    user = [] if layout.root else ["--user"]
    socket = ["gamed.socket"] if server.public_url else []
    commands = [
        ["systemctl", *user, "daemon-reload"],
        ["systemctl", *user, "enable", "-q", "gamed.service", "gamed-backup.timer"],
        ["systemctl", *user, "restart", *socket, "gamed.service", "gamed-backup.timer"],
    ]
    if any(file.path == planning.CADDYFILE for file in run.plan.files):
        commands.append(["systemctl", "reload-or-restart", "caddy"])
    booted = _is_booted(layout)
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
    files = ((name, planning.credential(server, name)) for name in server.secrets)
    return " ".join([*(f'{name}="$(cat {shlex.quote(str(file))})"' for name, file in files), change])


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
