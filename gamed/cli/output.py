"""Commands share their arguments and options, counts in words, tables, confirmations and password prompts."""

import sys
from collections.abc import Callable, Iterable, Sequence
from unicodedata import combining, east_asian_width

import click

from gamed.cli.completing import complete_players
from gamed.cli.errors import CommandFailed
from gamed.cli.terminal import BAD, GOOD, WARNING, painted
from gamed.crypto import Secret
from gamed.players.errors import PlayerError
from gamed.players.names import PASSWORD_MAX, PASSWORD_MIN, parse_password
from gamed.timestamps import DurationMalformed, parse_duration

COLOURS = {
    ("STATE", "pending"): WARNING,
    ("STATE", "blocked"): BAD,
    ("STATE", "erasing"): BAD,
    ("KIND", "current"): GOOD,
    ("KIND", "conflict"): WARNING,
    ("SIZE", "damaged"): BAD,
    ("CHANNELS", "not needed"): WARNING,
}
"""The colours of cells, by the heading of their column."""
WHO = "NAME-or-ID"


def utf8(text: str) -> str:
    """Return a text argument; raise click.BadParameter for other bytes, which Python passes as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("this is not UTF-8.") from None
    return text


who_argument = click.argument("who", metavar=WHO, type=utf8, shell_complete=complete_players)
password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, one line."
)
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation.")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as `1 save` or `2 saves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns below headings; no lines without rows. `-` stands for an empty cell."""
    cells = [[value or "-" for value in row] for row in rows]
    if not cells:
        return []
    widths = [max(map(_width, column)) for column in zip(headings, *cells, strict=True)]
    return [painted(_line(headings, widths), bold=True), *(_line(row, widths, headings) for row in cells)]


def _line(row: Sequence[str], widths: Sequence[int], headings: Sequence[str] = ()) -> str:
    """Return a row of a table; with headings its states have colours, which take no columns."""
    padded = [value + " " * (width - _width(value)) for value, width in zip(row, widths, strict=True)]
    padded[-1] = padded[-1].rstrip()
    for index, (heading, value) in enumerate(zip(headings, row, strict=False)):
        if (colour := COLOURS.get((heading, value))) is not None:
            padded[index] = painted(padded[index], colour)
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return sum(0 if combining(each) else 2 if east_asian_width(each) in ("W", "F") else 1 for each in text)


def duration_seconds(text: str) -> int:
    """Return the seconds of an argument such as `24h`; raise click.BadParameter."""
    try:
        return parse_duration(text)
    except DurationMalformed:
        raise click.BadParameter("expected a duration such as 24h or 7d.") from None


def confirm(question: str, consequence: str = "This cannot be undone.", *, yes: bool) -> None:
    """Ask before something is deleted, unless the option --yes was given; raise CommandFailed if the answer is no."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("Standard input is not a terminal. Pass --yes to skip the confirmation.")
    if not click.confirm(f"{question} {consequence}"):
        raise CommandFailed("Nothing was changed.")


def password_reader(*, stdin: bool) -> Callable[[], Secret]:
    """Return a function that reads the password, from standard input or by a prompt.

    Raise click.UsageError at once if that cannot work: a prompt needs a terminal.
    """
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed. Pass the password on standard input.")
    if not stdin and not sys.stdin.isatty():
        raise click.UsageError("Standard input is not a terminal. Pass --password-stdin to read the password from it.")
    read = _read_line if stdin else prompt_password

    def chosen() -> Secret:
        try:
            return parse_password(read())
        except PlayerError as e:
            raise CommandFailed(str(e)) from None

    return chosen


def _read_line() -> str:
    try:
        line, *more = sys.stdin.read(4096).removesuffix("\n").removesuffix("\r").split("\n")
    except UnicodeDecodeError:
        raise CommandFailed("The password is not UTF-8. Pass it in that encoding.") from None
    if more:
        raise CommandFailed("The password has more than one line. Pass one line.")
    return line


def prompt_password() -> str:
    """Prompt for a password twice, without showing it; show the allowed length, which the caller checks."""
    rule = f"{PASSWORD_MIN} to {PASSWORD_MAX} characters"
    return str(click.prompt(f"Password ({rule})", hide_input=True, confirmation_prompt=True))
