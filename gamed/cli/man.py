"""`gamed man` writes the manual page, and `gamed completion` a shell's completion; both are made from the commands."""

from collections.abc import Iterator

import click
from click.shell_completion import get_completion_class

from gamed import __version__
from gamed.cli.errors import echo
from gamed.cli.examples import EXAMPLES

EXIT_CODES = {
    "0": "Success.",
    "1": "Failure, or not possible now: a database that another program holds, a full disk, a port that is taken.",
    "2": "Wrong usage.",
    "78": "The configuration must be corrected first; the reasons are on stderr.",
    "130": "Interrupted with Ctrl-C.",
}
ENVIRONMENT = {
    "GAMED_CONFIG": "The configuration file, unless --config names one.",
    "GAMED_DATA": "The data folder, unless --data names one.",
    "GAMED_PRIVATE_LISTEN": "1 is the same as --private-listen of gamed serve.",
    "CONFIGURATION_DIRECTORY, STATE_DIRECTORY": "The folders of the configuration and the data, as systemd sets them.",
    "CREDENTIALS_DIRECTORY": "The folder of systemd's credentials, where the master key and client secrets may be.",
}
FILES = {
    "authentication.json": "The configuration; the first gamed serve writes one in local mode.",
    "game.json": "The limits of saves and assets, beside the configuration; optional.",
    "auth.db, state.db": "The databases, in the data folder, unless store names PostgreSQL: accounts; saves.",
    "auth.key": "The server's key, in the data folder, in local mode without a master key. Keep a copy elsewhere.",
    "assets": "The published releases, in the data folder.",
}

SEE_ALSO = "systemd.unit(5), systemd.socket(5), nginx(8), sqlite3(1), psql(1); docs/owners/commands.md"


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the manual page, for man(1): gamed man | man -l -"""
    echo("\n".join(manual_page(context.find_root().command)))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes the commands and options of gamed in a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    echo(kind(context.find_root().command, {}, "gamed", "_GAMED_COMPLETE").source())


def manual_page(top: click.Command) -> Iterator[str]:
    """Yield the lines of the manual page, as macros of man(7)."""
    context = click.Context(top, info_name="gamed", **top.context_settings)
    yield f'.TH GAMED 1 "" "gamed {_text(__version__)}" "User Commands"'
    yield ".SH NAME"
    yield r"gamed \- a self\-hosted game server: sign\-in, saves and assets"
    yield ".SH SYNOPSIS"
    yield ".B gamed"
    yield _text(" ".join(top.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(top.help or "")
    yield ".SH OPTIONS"
    yield from _options(top, context)
    yield ".SH COMMANDS"
    for command, inner in _commands(top, context):
        usage = " ".join([inner.command_path, *command.collect_usage_pieces(inner)])
        yield f'.SS "{_text(usage)}"'
        yield from _paragraphs(command.help or "")
        yield from _options(command, inner)
        yield from _examples(inner.command_path.partition(" ")[2])
    yield ".SH EXAMPLES"
    yield from _examples("")
    for title, entries in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        yield f".SH {title}"
        for term, meaning in entries.items():
            yield from (".TP", rf"\fB{_text(term)}\fR", _text(meaning))
    yield ".SH SEE ALSO"
    yield _text(SEE_ALSO)


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield the commands of a group and of the groups in it, each with its context."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        if (inner := command.get_command(context, name)) is not None:
            inside = click.Context(inner, parent=context, info_name=name)
            yield inner, inside
            yield from _commands(inner, inside)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    for option in options:
        record = option.get_help_record(context)
        if record is not None and (context.parent is None or "--help" not in option.opts):
            yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1]))


def _examples(words: str) -> Iterator[str]:
    for example in EXAMPLES.get(words, ()):
        yield from (".PP", rf"\fB{_text(example)}\fR")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.replace("\f\n\n", "").split("\n\n"):
        yield from (".PP", _text(paragraph))


def _text(text: str) -> str:
    """Return a text on one line that roff prints as it is, with `code` in bold; a point in front is no request."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("'", r"\(aq")
    parts = [rf"\fB{part}\fR" if number % 2 else part for number, part in enumerate(plain.split("`"))]
    return r"\&" * plain.startswith(".") + "".join(parts)
