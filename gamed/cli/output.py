"""How a command says numbers to a person.

Progress of long work, for whoever watches a terminal; a script sees nothing of it.

What command lines are made of: words that a store takes, the player meant, JSON for scripts.

What a command asks the operator: a password to choose, a confirmation before something is deleted.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import click

from gamed.cli.errors import CommandFailed
from gamed.crypto import Secret
from gamed.players.errors import PlayerError
from gamed.players.names import PASSWORD_MAX, PASSWORD_MIN, parse_password


def counted(count: int, noun: str) -> str:
    """`1 save`, `2 saves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


T = TypeVar("T")


def progress(steps: Iterable[T], label: str, length: int | None = None) -> AbstractContextManager[Iterable[T]]:
    """The steps, shown on stderr while they are gone through; `length` where they do not know it."""
    if not sys.stderr.isatty():
        return nullcontext(steps)
    bar = click.progressbar(steps, length=length, label=label, file=sys.stderr)
    return cast(AbstractContextManager[Iterable[T]], bar)


@contextmanager
def growing(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """For work that is measured: what is called with how much of `length` is done by now."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=max(length, 1), label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(max(0, min(done, length) - bar.pos))
        bar.update(max(0, bar.length - bar.pos) if bar.length else 0)


WHO = "NAME-or-ID"


class Text(click.ParamType[str]):
    """Bytes that are no UTF-8 come from a shell as lone surrogates, which no store takes."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            self.fail("this is not UTF-8.", param, ctx)
        return str(value)


TEXT = Text()
who_argument = click.argument("who", metavar=WHO, type=TEXT)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, one line."
)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, consequence: str = "This cannot be undone.", *, yes: bool) -> None:
    """Ask before something is deleted, unless the option --yes was given; raise NotDone if the answer is no."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("Standard input is not a terminal. Pass --yes to skip the confirmation.")
    if not click.confirm(f"{question} {consequence}"):
        raise CommandFailed("Nothing was changed.")


def password_from(*, stdin: bool) -> Callable[[], Secret]:
    """Whether anybody can be asked is judged now, as wrong usage; the password is asked for when this is called."""
    if sys.stdin is None:  # closed by who started this
        raise click.UsageError("Standard input is closed; give the password there.")
    if not stdin and not sys.stdin.isatty():
        raise click.UsageError("Standard input is no terminal; give the password there with --password-stdin.")
    read = _line if stdin else typed

    def chosen() -> Secret:
        try:
            return parse_password(read())
        except PlayerError as e:
            raise CommandFailed(str(e)) from None

    return chosen


def _line() -> str:
    try:
        line, *more = sys.stdin.read(4096).removesuffix("\n").removesuffix("\r").split("\n")
    except UnicodeDecodeError:
        raise CommandFailed("The password is not UTF-8.") from None
    if more:
        raise CommandFailed("The password is one line.")
    return line


def typed() -> str:
    """Twice the same, unseen; whether it can be one is judged afterwards."""
    rule = f"{PASSWORD_MIN} to {PASSWORD_MAX} characters"
    return str(click.prompt(f"Password ({rule})", hide_input=True, confirmation_prompt=True))
