"""The commands of `gamed`: those too that are loaded only when they are asked for, and a way to run one in a test."""

import io
import locale
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click.testing import CliRunner

from gamed.cli.commands import gamed

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


def members(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Each command of the group by its name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield name, command


def run_here(*words: str, environ: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a command that only reads arguments and files, in this process; return exit code, stdout and stderr.

    Raise AssertionError if it has changed the process: a command that opens a database makes new files private, and may
    become another user. Such a command needs a process of its own.
    """
    unset = {name: None for name in os.environ if name not in environ}
    before, kept = _state(), sys.__stderr__
    sys.__stderr__ = written = io.StringIO()  # type: ignore[misc]  # where the error that ends a command goes
    try:
        result = CliRunner(env=unset | dict(environ)).invoke(gamed, words, prog_name="gamed", catch_exceptions=False)
    finally:
        sys.__stderr__ = kept  # type: ignore[misc]
    assert _state() == before, f"start a process for this: {words}"
    return result.exit_code, result.stdout, result.stderr + written.getvalue()


def _state() -> tuple[object, ...]:
    [umask] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")]
    handlers = [signal.getsignal(number) for number in SIGNALS]
    limits, user = resource.getrlimit(resource.RLIMIT_CORE), os.getresuid()
    return handlers, umask, limits, user, os.getcwd(), locale.setlocale(locale.LC_ALL), dict(os.environ)
