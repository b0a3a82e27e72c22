"""`gamed players invite|invites|revoke-invite|reset-link` hand out links that are valid once.

The token of a link is printed once, and stored only as an index.
"""

from secrets import token_bytes

import click

from gamed.account import link_tables
from gamed.account.link_model import Invite, NewLink, new_invite_id
from gamed.cli.context import CommandContext, KeyedDatabases, display_name, get_account, reports_json
from gamed.cli.errors import CommandFailed, warn
from gamed.cli.output import utf8, who_argument
from gamed.cli.process import read_listeners
from gamed.clock import now_ms
from gamed.config.errors import InvalidValue
from gamed.config.model import Registration
from gamed.config.validators import duration
from gamed.crypto import Keys
from gamed.database.connection import Connection
from gamed.players.errors import PlayerError
from gamed.players.model import NamedPlayer
from gamed.players.names import parse_display_name
from gamed.timestamps import rfc3339

LEAST_SECONDS, MOST_SECONDS = 60, 90 * 24 * 3600


def _seconds(text: str) -> int:
    """Return the seconds of a duration such as `7d`; raise click.BadParameter."""
    try:
        return duration(LEAST_SECONDS, MOST_SECONDS)(text)
    except InvalidValue as e:
        raise click.BadParameter(f"{e}.") from None


def _shown_name(text: str) -> str:
    try:
        return parse_display_name(utf8(text))
    except PlayerError as e:
        raise click.BadParameter(str(e)) from None


@click.command(short_help="[key] Print a link that admits one new player.")
@click.option("--name", metavar="NAME", type=_shown_name, help="The name that the page suggests and the game shows.")
@click.option("--expires", metavar="DURATION", type=_seconds, default="7d", show_default=True, help="Such as 12h.")
@reports_json
def invite(context: CommandContext, name: str | None, expires: int) -> None:
    """Print a link that admits one new player, also while registration is closed. [key]

    The link works once. Send it to that person alone: anyone who has it can use it.
    """
    store = context.open()
    base_url, invite_id = base_url_of(store), new_invite_id(token_bytes)
    link = NewLink.generate(token_bytes, now_ms(), expires)
    if store.config.login.registration is Registration.OPEN:
        warn("registration is open: new players can also sign up without an invite")

    def transaction(connection: Connection, keys: Keys) -> None:
        link_tables.insert_invite(connection, keys, invite_id, link, name)
        store.record(connection, "players invite", None)

    store.write(transaction)
    url, until = f"{base_url}/auth/invite/{link.token}", rfc3339(link.expires_ms)
    lines = [url, f"works once, until {until}; to revoke it: gamed players revoke-invite {invite_id}"]
    context.report({"id": invite_id, "name": name, "url": url, "expires_at": until}, lines)


@click.command("invites", short_help="[key] Show the invites that are open.")
@reports_json
def list_invites(context: CommandContext) -> None:
    """Show the invites that can still be used, oldest first, without their links. [key]"""
    found = context.open().read(lambda connection, keys: link_tables.open_invites(connection, keys, now_ms()))
    members = [_invite_members(each) for each in found]
    lines = [f"{each['id']}  until {each['expires_at']}  {each['name'] or '-'}" for each in members]
    context.report(members, lines or "no open invites", indent=2)


def _invite_members(each: Invite) -> dict[str, object]:
    return {
        "id": each.invite_id,
        "name": each.name,
        "created_at": rfc3339(each.created_ms),
        "expires_at": rfc3339(each.expires_ms),
    }


@click.command("revoke-invite", short_help="Revoke an invite.")
@click.argument("invite_id", metavar="ID", type=utf8)
@reports_json
def revoke_invite(context: CommandContext, invite_id: str) -> None:
    """Revoke an invite, so that its link admits no player.

    `gamed players invites` shows the ids.
    """
    files = context.open_keyless()

    def transaction(connection: Connection) -> None:
        if not link_tables.end_invite(connection, invite_id, now_ms()):
            raise CommandFailed("There is no open invite with this id. See: gamed players invites")
        files.record(connection, "players revoke-invite", None)

    files.write_auth(transaction)
    context.report({"id": invite_id}, f"{invite_id} is revoked")


@click.command("reset-link", short_help="[key] Print a link that sets a player's password.")
@who_argument
@click.option("--expires", metavar="DURATION", type=_seconds, default="1d", show_default=True, help="Such as 12h.")
@reports_json
def reset_link(context: CommandContext, who: str, expires: int) -> None:
    """Print a link by which a player sets a new password for their local account. [key]

    The link works once, and ends the earlier ones. Using it signs the player out everywhere, as
    `gamed players password` does.
    """
    store = context.open()
    base_url = base_url_of(store)
    link = NewLink.generate(token_bytes, now_ms(), expires)

    def transaction(connection: Connection, keys: Keys) -> NamedPlayer:
        named = get_account(connection, keys, who)
        if named.player.state == "blocked":
            raise CommandFailed("This player is blocked. Run first: gamed players unblock")
        link_tables.insert_reset_link(connection, keys.indexer, named.player.player_id, link)
        store.record(connection, "players reset-link", named.player.player_id)
        return named

    named = store.write(transaction)
    url, until = f"{base_url}/auth/reset/{link.token}", rfc3339(link.expires_ms)
    lines = [url, f"sets the password of {display_name(named)}; works once, until {until}"]
    context.report({"id": named.player.player_id, "url": url, "expires_at": until}, lines)


def base_url_of(store: KeyedDatabases) -> str:
    """Return the address that the server's links begin with; raise CommandFailed if it is not known here.

    Without public_url it is that of the listener that the server recorded when it started.
    """
    if store.config.public_url is not None:
        return store.config.public_url
    from gamed.cli.service.listen import describe, own_url  # late: it is most of Twisted

    url = own_url([describe(text) for text in read_listeners(store.data)])
    if url is None:
        raise CommandFailed("The address of this server is not known here. Set public_url, or start the server once.")
    warn("the link is for this machine only; set public_url for players elsewhere")
    return url
