"""`gamed owner` chooses which player is the owner, which no HTTP route can (SPEC 4/18), and opens the owner's page.

See docs/owners/owner-page.md.
"""

from pathlib import Path
from secrets import token_bytes

import click

from gamed.cli.completing import complete_folders
from gamed.cli.context import CommandContext, display_name, get_player, reports_json
from gamed.cli.errors import CommandFailed, warn
from gamed.cli.output import who_argument
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.players import owner_tables
from gamed.players import tables as player_tables
from gamed.players.model import NamedPlayer
from gamed.players.owner_tables import CODE_MS, ConfirmationCode, OwnerPageSwitch
from gamed.readable import ago
from gamed.timestamps import rfc3339

PAGE = "/auth/owner"


@click.group()
def owner() -> None:
    """Choose which player is the owner of this server, and open the page on which the owner looks after it.

    The game finds the owner in player.owner. gamed gives the owner no more rights than any other player until
    `gamed owner page on`.
    """


@owner.command(short_help="[key] Make a player the owner.")
@who_argument
@reports_json
def claim(context: CommandContext, who: str) -> None:
    """Make a player the owner. [key]

    There is one owner: reset first to choose another player.
    """
    store = context.open()

    def transaction(connection: Connection, keys: Keys) -> NamedPlayer:
        named = get_player(connection, keys, who)
        current = player_tables.find_owner(connection)
        if current is not None and current != named.player.player_id:
            before = display_name(get_player(connection, keys, current))
            raise CommandFailed(f"{before} is the owner. Run first: gamed owner reset")
        if named.player.state != "active":
            raise CommandFailed(f"This player is {named.player.state}, not active.")
        player_tables.set_owner(connection, named.player.player_id)
        owner_tables.trust_ways(connection, now_ms())
        store.record(connection, "owner claim", named.player.player_id)
        return named

    named = store.write(transaction)
    context.report({"owner": named.player.player_id}, f"{display_name(named)} is the owner")


@owner.command()
@reports_json
def show(context: CommandContext) -> None:
    """Show which player is the owner."""
    files = context.open_keyless() if context.as_json else context.open_for_names()
    current = files.read_auth(player_tables.find_owner)
    context.report({"owner": current}, files.names_of([current])[current] if current else "no owner")


@owner.command()
@reports_json
def reset(context: CommandContext) -> None:
    """Leave the server without an owner."""
    files = context.open_keyless()

    def transaction(connection: Connection) -> str:
        current = player_tables.find_owner(connection)
        if current is None:
            raise CommandFailed("There is no owner.")
        player_tables.clear_owner(connection, current)
        files.record(connection, "owner reset", current)
        return current

    context.report({"owner": None, "before": files.write_auth(transaction)}, "there is no owner now")


@owner.group()
def page() -> None:
    """Open or close the owner's page on the public site.

    While it is on, the player who is the owner may approve, block and erase other players there, in any browser.
    """


@page.command(short_help="Open the owner's page.")
@click.option(
    "--backups",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    shell_complete=complete_folders,
    help="The folder where the page makes backups, for the user of the service. [default: nowhere]",
)
@reports_json
def on(context: CommandContext, backups: Path | None) -> None:
    """Open the owner's page, for the player who is the owner.

    Run it again to change the folder for backups, or when the owner signs in another way than before: a way that was
    linked later proves nothing, so merging and deleting need a code.
    """
    files = context.open_keyless()
    folder = None if backups is None else backups.absolute()
    if folder is not None and folder.resolve().is_relative_to(files.data.resolve()):
        raise CommandFailed(f"{folder} is in the data folder. Name a folder on another disk.")

    def transaction(connection: Connection) -> str | None:
        owner_tables.turn_on(connection, OwnerPageSwitch(now_ms(), None if folder is None else str(folder)))
        files.record(connection, "owner page on", None)
        return player_tables.find_owner(connection)

    current = files.write_auth(transaction)
    if current is None:
        warn("there is no owner yet, so nobody can use the page. Run: gamed owner claim NAME")
    members = {"page": PAGE, "on": True, "owner": current, "backups": None if folder is None else str(folder)}
    made = "it makes no backups; for that add --backups DIR" if folder is None else f"it makes backups in {folder}"
    context.report(members, [f"the owner's page is on: {PAGE} at the address of this server", made])


@page.command(short_help="Close the owner's page.")
@reports_json
def off(context: CommandContext) -> None:
    """Close the owner's page, from the next request on."""
    files = context.open_keyless()

    def transaction(connection: Connection) -> bool:
        was_on = owner_tables.turn_off(connection)
        if was_on:
            files.record(connection, "owner page off", None)
        return was_on

    was_on = files.write_auth(transaction)
    context.report({"on": False, "before": was_on}, "the owner's page is off" + ("" if was_on else ", as before"))


@page.command(short_help="Show whether the owner's page is open.")
@reports_json
def status(context: CommandContext) -> None:
    """Show whether the owner's page is open, and since when."""
    files = context.open_keyless()
    found = files.read_auth(owner_tables.read_switch)
    if found is None:
        context.report({"on": False}, "the owner's page is off; to open it, run: gamed owner page on")
        return
    members = {"on": True, "since": rfc3339(found.on_ms), "backups": found.backup_folder}
    context.report(members, f"the owner's page is on, since {ago(found.on_ms, now_ms())}")


@owner.command(short_help="[key] Print a code that confirms an act on the owner's page.")
@reports_json
def confirm(context: CommandContext) -> None:
    """Print a code for what cannot be undone on the owner's page: merging and erasing players. [key]

    The page asks for it where the sign-in proves little: a provider that cannot be made to ask again lets anyone in at
    a browser that is signed in there. The code works once, for ten minutes, and ends the one before.
    """
    store = context.open()
    code = ConfirmationCode.generate(token_bytes, now_ms())

    def transaction(connection: Connection, keys: Keys) -> None:
        if owner_tables.read_switch(connection) is None:
            raise CommandFailed("The owner's page is off. Run first: gamed owner page on")
        owner_tables.store_code(connection, keys.indexer, code)
        store.record(connection, "owner confirm", None)

    store.write(transaction)
    members = {"code": code.code, "expires_at": rfc3339(code.expires_ms)}
    context.report(members, [code.shown, f"works once, for {CODE_MS // 60_000} minutes"])
