"""A ticket service over real databases and keys, with a clock that a test sets."""

from collections.abc import Mapping

from msgspec.structs import replace

from gamed.config.model import AuthLimits, Config, SessionLifetimes, TicketAudience
from gamed.crypto import Secret
from gamed.http.background import ShieldedTasks
from gamed.players import tables as player_tables
from gamed.sessions.routes import SessionRoutes
from gamed.tickets import tables as ticket_tables
from gamed.tickets.build import build_tickets
from gamed.tickets.model import KeyPeriod
from tests.sessions.server import SessionTestCase, text
from tests.support.http import Answer, Browser

MASTER = Secret(bytes(range(32)))
PLAIN, MATCH, LOBBY = "plain.example", "match.example", "lobby.example"
MATCH_SECRET, LOBBY_SECRET = "m" * 40, "l" * 40
AUDIENCES = {
    PLAIN: TicketAudience(),
    MATCH: TicketAudience(name=True, owner=True, secret=Secret(MATCH_SECRET.encode())),
    LOBBY: TicketAudience(secret=Secret(LOBBY_SECRET.encode())),
}
BASE = "https://play.example.org"
ISSUER = f"{BASE}/auth"
TICKETS, KEYS, INTROSPECT, CHECK = "/auth/tickets", "/auth/keys", "/auth/tickets/introspect", "/auth/tickets/check"


class TicketCase(SessionTestCase):
    """A player with one session and a browser of the routes of tickets and sessions."""

    audiences: Mapping[str, TicketAudience] = AUDIENCES
    lifetimes = SessionLifetimes()
    per_minute = 30

    def setUp(self) -> None:
        super().setUp()
        limits = AuthLimits(tickets_per_minute=self.per_minute)
        config = Config(ticket_audiences=self.audiences, session=self.lifetimes, limits=limits)
        given = self.server.context
        self.context = replace(given, settings=replace(given.settings, config=config, master_key=MASTER))
        self.routes = build_tickets(self.context, self.sessions, lambda: BASE)
        others = SessionRoutes(sessions=self.sessions, detached=ShieldedTasks())
        self.browser = Browser([self.routes, others], now_ms=lambda: self.server.now_ms)
        self.token = text(self.pair.access)

    def request(self, body: Mapping[str, object], token: str | None = None) -> Answer:
        """Request a ticket, by default as the player of the test."""
        return self.browser.post_json(TICKETS, body, {"Authorization": f"Bearer {token or self.token}"})

    def ticket(self, audience: str = MATCH, **others: object) -> str:
        answer = self.request({"audience": audience, **others})
        self.assertEqual(answer.status, 200, answer.body)
        return str(answer.json["ticket"])

    def introspect(self, ticket: str, secret: str | None = MATCH_SECRET, path: str = INTROSPECT) -> Answer:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return self.browser.post_form(path, f"token={ticket}", headers)

    def is_active(self, ticket: str, secret: str = MATCH_SECRET) -> bool:
        """Return whether a ticket is active; both forms of introspection say the same."""
        answer, status = self.introspect(ticket, secret), self.introspect(ticket, secret, CHECK).status
        self.assertEqual(answer.status, 200)
        if answer.json["active"]:
            self.assertEqual(status, 204)
        else:
            self.assertEqual((answer.json, status), ({"active": False}, 401))
        return bool(answer.json["active"])

    def keys(self) -> list[dict[str, str]]:
        answer = self.browser.get(KEYS)
        self.assertEqual(answer.status, 200)
        return list(answer.json["keys"])

    def rotate(self) -> KeyPeriod | None:
        """Begin the next key, as the command does."""
        now_ms = self.server.now_ms
        return self.wait(self.server.databases.auth.submit(lambda connection: ticket_tables.rotate(connection, now_ms)))

    def set_name(self, name: str, player_id: str) -> None:
        sealer = self.context.keys.sealer
        self.wait(
            self.server.databases.auth.submit(
                lambda connection: player_tables.set_display_name(connection, sealer, player_id, name)
            )
        )
