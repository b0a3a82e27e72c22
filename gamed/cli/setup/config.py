"""`gamed check config` reports every error in the configuration files (SPEC 7); `gamed key` makes and names keys."""

from base64 import b64encode
from collections.abc import Iterator
from secrets import token_bytes

import click

from gamed.cli.context import CommandContext, OpenedConfiguration, read_all, reports_json
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.output import counted
from gamed.cli.process import harden
from gamed.clock import now_ms
from gamed.crypto import KEY_BYTES
from gamed.database.connection import Connection
from gamed.tickets import tables as ticket_tables
from gamed.tickets.model import KeyPeriod
from gamed.timestamps import rfc3339


@click.command("config", short_help="[key] Report every error in the configuration.")
@reports_json
def check_config(context: CommandContext) -> None:
    """Report every error in the configuration, its environment variables included; change nothing. [key]"""
    harden()
    opened = read_all(context.places())
    if opened.first_run:
        raise CommandFailed(f"There is no {opened.places.config} yet; `gamed serve` writes one.")
    catalogues = _check_languages(opened)
    context.report(_summary(opened), [*_lines(opened), *catalogues])


def _check_languages(opened: OpenedConfiguration) -> list[str]:
    """Return a line about each of the owner's texts of pages; raise SetupError with all errors in them."""
    look = opened.config.look
    chosen = None if look is None else look.language
    if not opened.catalogues and chosen is None:
        return []
    from gamed.pages.catalogue import CatalogueError  # late: these read texts, and load Twisted's log
    from gamed.pages.languages import Languages, check_catalogue

    lines, errors = [], []
    for name, raw in opened.catalogues.items():
        path = opened.places.config.with_name(name)
        try:
            count, unknown = check_catalogue(name, raw)
        except CatalogueError as e:
            errors.append(f"{path}: {e}")
        else:
            rest = f", of which the pages of this version lack {unknown}" if unknown else ""
            lines.append(f"{path} is valid: {counted(count, 'text')}{rest}")
    if chosen is not None and Languages(opened.catalogues).find(chosen) is None:
        errors.append(f"{opened.places.config}: look.language: there are no texts in {chosen}; add {chosen}.po")
    if errors:
        raise SetupError("\n".join(errors))
    return lines


def _summary(opened: OpenedConfiguration) -> dict[str, object]:
    places, config = opened.places, opened.config
    return {
        "config": str(places.config),
        "game": str(places.game) if places.game.exists() else None,
        "data": str(places.data),
        "store": config.store.url if config.store else None,
        "mode": config.mode.value,
        "public_url": config.public_url,
        "providers": list(config.providers),
        "notify": config.notify.format.value if config.notify else None,
    }


def _lines(opened: OpenedConfiguration) -> Iterator[str]:
    places, config = opened.places, opened.config
    yield f"{places.config} is valid: {config.mode.value} mode"
    yield f"address {config.public_url or 'of the first tcp listener, on this machine only'}"
    yield f"providers {', '.join(config.providers) or 'none'}"
    if config.notify is not None:
        names = "with" if config.notify.names else "without"
        yield f"notify {config.notify.format.value}, {names} names of players"
    if places.game.exists():
        yield f"{places.game} is valid"
    yield f"data {places.data}"
    if config.store is not None:
        yield f"store {config.store.url}"


@click.group()
def key() -> None:
    """Make a master key, show which one this server has, or replace the key that signs tickets."""


@key.command(short_help="Print a new master key; nothing is stored.")
@reports_json
def new(context: CommandContext) -> None:
    """Print a new master key, 32 random bytes as Base64; nothing is stored.

    Put it into the variable that master_key_env names, and keep a copy on another machine: without its key,
    nothing can read the accounts.
    """
    made = b64encode(token_bytes(KEY_BYTES)).decode()
    context.report({"key": made}, made)


@key.command(short_help="[key] Print the fingerprint of this server's key.")
@reports_json
def fingerprint(context: CommandContext) -> None:
    """Print 12 hex digits that identify this server's key without revealing it. [key]"""
    found = context.open().keys.fingerprint
    context.report({"fingerprint": found}, found)


@key.command("rotate-tickets", short_help="Begin the next key that signs tickets.")
@reports_json
def rotate_tickets(context: CommandContext) -> None:
    """Begin the next key that signs tickets for other servers.

    The server publishes it at once, and signs with it from tomorrow; the present key stays published for a day after
    that. So other servers that read the keys once a day reject no ticket.
    """
    files = context.open_keyless()

    def transaction(connection: Connection) -> KeyPeriod:
        added = ticket_tables.rotate(connection, now_ms())
        if added is None:
            waiting = ticket_tables.read_periods(connection)[-1]
            raise CommandFailed(
                f"Key {waiting.number} is published and will be used from {rfc3339(waiting.first_use_ms)}. "
                "Rotate again after that."
            )
        files.record(connection, "key rotate-tickets", None)
        return added

    added = files.write_auth(transaction)
    first_use = rfc3339(added.first_use_ms)
    members = {"number": added.number, "first_use_at": first_use}
    context.report(members, f"key {added.number} is published now, and signs tickets from {first_use}")
