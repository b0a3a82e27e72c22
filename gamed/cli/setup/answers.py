"""The answers of `gamed setup`: asked at a terminal, or read from a file (docs/owners/owner-guide.md: The answers).

Each answer has one validator for both, so that a file of answers means what a person would type.
"""

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import click
from msgspec import Struct

from gamed.cli import paths
from gamed.cli.errors import SetupError, echo
from gamed.config.errors import ConfigError, InvalidValue
from gamed.config.json_reader import JsonSyntaxError, decode, read_object
from gamed.config.model import Config, Registration
from gamed.config.validators import choice, flag, parse_public_url, plain_text

T = TypeVar("T")
EXAMPLE = '{"server_name": "Rose Street 7"}'
HOME_ADDRESS = "https://gamed.home.arpa"
MOST_CHARACTERS = 1024
_name = plain_text(64)


class Players(StrEnum):
    """From where players reach the server."""

    MACHINE = "machine"
    HOME = "home"
    INTERNET = "internet"


class Join(StrEnum):
    """How a new player is admitted, in the owner's words."""

    INVITED = "invited"
    APPROVAL = "approval"
    EVERYONE = "everyone"

    @property
    def registration(self) -> Registration:
        return REGISTRATIONS[self]


REGISTRATIONS = {
    Join.INVITED: Registration.CLOSED,
    Join.APPROVAL: Registration.APPROVAL,
    Join.EVERYONE: Registration.OPEN,
}


class Answers(Struct, frozen=True):
    """A complete set of answers."""

    server_name: str
    players: Players
    address: str | None
    """An https address; None while all players are on this machine."""
    join: Join
    backups: Path
    owner_page: bool | None
    """Whether the owner looks after players on a page, too; None leaves that as it is."""

    def text(self) -> str:
        """Return the file of these answers, which `--answers` reads."""
        members = {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) is not None}
        return json.dumps(members, indent=2, ensure_ascii=False, default=str) + "\n"


def address(value: object) -> str:
    """Return the address that players enter, canonical; a name without a scheme means https."""
    text = value.strip() if isinstance(value, str) else ""
    url = parse_public_url(text if "://" in text else f"https://{text}")
    if url.scheme != "https":
        raise InvalidValue('expected an https address such as "https://play.example.org"')
    return str(url)


def folder(value: object) -> Path:
    """Return the absolute path of a folder."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.startswith("/") or not text.isprintable() or len(text) > MOST_CHARACTERS:
        raise InvalidValue('expected the absolute path of a folder, such as "/mnt/backups"')
    return Path(text)


def read_answers(path: Path) -> Answers:
    """Read a file of answers; raise ConfigError with all its errors, SetupError if it cannot be read."""
    try:
        text = decode(paths.read_file(str(path)))
    except OSError as e:
        raise SetupError(f"{path} cannot be read ({e.strerror}). Name the file of answers.") from None
    except JsonSyntaxError as e:
        raise ConfigError(str(path), [e.problem]) from None
    with read_object(text, str(path), EXAMPLE) as top:
        top.reject_unknown(Answers.__struct_fields__)
        players = top.required("players", choice(Players), 'missing; expected "machine" or "home" or "internet"')
        url = top.value("address", address, None)
        if players is Players.MACHINE and "address" in top:
            top.problem("address", 'leave it out: players on this "machine" need none')
        if players not in (Players.MACHINE, None) and "address" not in top:
            top.problem("address", 'missing; expected an https address such as "https://play.example.org"')
        name = top.required("server_name", _name, "missing; expected the name that players see")
        join = top.required("join", choice(Join), 'missing; expected "invited" or "approval" or "everyone"')
        backups = top.required("backups", folder, "missing; expected the absolute path of a folder")
        page = top.value("owner_page", flag, None)
    # read_object() has raised unless each of them is there.
    return Answers(name or "", players or Players.MACHINE, url, join or Join.INVITED, backups or Path("/"), page)


def proposed(stored: Path, config: Config | None, backups: Path, *, page: bool | None) -> Answers:
    """Return what the questions propose: the settings of the server that is there, and what the last run adds to them.

    The settings come first, because their owner may have edited them since. `page` is whether the owner's page is on,
    None if that is not known.
    """
    try:
        last = read_answers(stored)
    except (SetupError, ConfigError):
        last = Answers("gamed", Players.MACHINE, None, Join.INVITED, backups, True)
    if config is None:
        return last
    join = next(join for join, registration in REGISTRATIONS.items() if registration is config.login.registration)
    url = config.public_url if (config.public_url or "").startswith("https:") else None
    where = Players.MACHINE if url is None else Players.HOME if url.endswith(".home.arpa") else Players.INTERNET
    if url == last.address:
        where = last.players
    known = last.owner_page if page is None else page
    return Answers(config.server_name or "gamed", where, url, join, last.backups, known)


def ask(before: Answers) -> Answers:
    """Ask the questions at the terminal; each proposes an answer in brackets, and is repeated until it is valid.

    On this machine alone the address is known, so that question is left out.
    """
    name = _ask("1. The name of the server, which players see", _name, before.server_name)
    echo("   machine: this machine alone; home: your home network; internet: anywhere")
    players = _ask("2. Where do players play from", choice(Players), before.players.value)
    url = None
    if players is not Players.MACHINE:
        known = before.address or (HOME_ADDRESS if players is Players.HOME else None)
        url = _ask("3. The address that players enter, such as play.example.org", address, known)
    echo("   invited: with an invite of yours; approval: you approve each; everyone")
    join = _ask("4. Who may join", choice(Join), before.join.value)
    backups = _ask("5. The folder for backups", folder, str(before.backups))
    page = click.confirm("6. Do you want to manage players in a browser, too", default=before.owner_page is not False)
    return Answers(name, players, url, join, backups, page)


def _ask(question: str, convert: Callable[[object], T], default: str | None) -> T:
    def validate(text: str) -> T:
        try:
            return convert(text.encode().decode())
        except InvalidValue as e:
            raise click.BadParameter(f"{e}.") from None
        except UnicodeEncodeError:
            raise click.BadParameter("this is not UTF-8.") from None

    return click.prompt(question, default=default, value_proc=validate)
