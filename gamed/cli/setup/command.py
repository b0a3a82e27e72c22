"""`gamed setup` asks, shows what it will write, writes it, starts the server, and ends with doctor and an invite."""

import fcntl
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gamed.cli.completing import complete_files
from gamed.cli.context import CommandContext
from gamed.cli.errors import CommandFailed, echo
from gamed.cli.interrupt import may_change
from gamed.cli.output import counted
from gamed.cli.paths import Paths
from gamed.cli.process import harden, read_listeners
from gamed.cli.service import listen
from gamed.cli.setup import take_over as taking
from gamed.cli.setup.answers import ask, proposed, read_answers
from gamed.cli.setup.carry_out import carry_out
from gamed.cli.setup.install import OPT
from gamed.cli.setup.model import USER, Layout, Plan, Run, choose_layout
from gamed.cli.setup.plan import make_plan
from gamed.cli.setup.refusals import refuse
from gamed.cli.setup.samples import MODULE, load_without_secrets


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
    layout = choose_layout(os.environ)
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
    before = [] if source is None else [listen.describe(text) for text in read_listeners(source.data)]
    local = [each for each in before if each.kind == "tcp" and each.local]
    used = port or next((each.port for each in local), None) or listen.USUAL_PORT
    if lost := [each.text for each in before if each not in local]:  # sockets of a path, addresses of the network
        echo(f"It listened at {', '.join(lost)}; now it listens at 127.0.0.1:{used} alone.")
    plan = make_plan(layout, answers, source, text, port=used, environ=os.environ)
    refuse(plan, used)
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
        carry_out(Run(plan, plan.environment(os.environ)))


def _page(source: Paths | None) -> bool | None:
    """Return whether the owner's page of this server is on; None if there is no server, or it cannot be read now."""
    if source is None:
        return None
    words = [*MODULE, "--config", str(source.config), "--data", str(source.data)]
    done = subprocess.run([*words, "owner", "page", "status", "--json"], capture_output=True, text=True, check=False)
    return bool(json.loads(done.stdout)["on"]) if done.returncode == 0 else None


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
        verb = "delete  " if file.content is None else "replace " if file.path.exists() else "write   "
        yield f"{verb} {file.path}{kept}"
    if len(changed) < len(plan.files):
        yield f"{counted(len(plan.files) - len(changed), 'file')} already as wanted"


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
