"""What a command asks the operator: a password to choose, a confirmation before something is deleted."""

import sys
from collections.abc import Callable

import click

from gamed.cli.refusal import NotDone
from gamed.crypto import Secret
from gamed.players.errors import PlayerError
from gamed.players.names import PASSWORD_MAX, PASSWORD_MIN, parse_password

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
        raise NotDone("Nothing was changed.")


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
            raise NotDone(str(e)) from None

    return chosen


def _line() -> str:
    try:
        line, *more = sys.stdin.read(4096).removesuffix("\n").removesuffix("\r").split("\n")
    except UnicodeDecodeError:
        raise NotDone("The password is not UTF-8.") from None
    if more:
        raise NotDone("The password is one line.")
    return line


def typed() -> str:
    """Twice the same, unseen; whether it can be one is judged afterwards."""
    rule = f"{PASSWORD_MIN} to {PASSWORD_MAX} characters"
    return str(click.prompt(f"Password ({rule})", hide_input=True, confirmation_prompt=True))
