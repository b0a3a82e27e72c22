"""The routes of tickets answer as the protocol says (docs/protocol.md: Tickets)."""

from collections.abc import Mapping
from types import MappingProxyType

from gamed.config.model import SessionLifetimes, TicketAudience
from gamed.crypto import Secret
from gamed.database.databases import Databases
from gamed.players import tables as player_tables
from gamed.tickets.keys import TicketKeys
from gamed.tickets.model import KeyPeriod
from gamed.tickets.ticket_rules import DAY_MS, FIRST
from tests.sessions.fixtures import ANNA, BERT, NOW_MS, STRANGE_TOKEN
from tests.sessions.server import text
from tests.support.covers import covers
from tests.support.databases import elsewhere
from tests.tickets.fixtures import (
    CHECK,
    INTROSPECT,
    ISSUER,
    KEYS,
    LOBBY,
    LOBBY_SECRET,
    MATCH,
    MATCH_SECRET,
    PLAIN,
    TICKETS,
    TicketCase,
)
from tests.tickets.tokens import parts, verified

NOW = NOW_MS // 1000
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Bearer {MATCH_SECRET}"}


class IssueTests(TicketCase):
    """POST /auth/tickets."""

    def test_answer(self) -> None:
        """A ticket states who plays, for one audience and a minute, and a published key verifies it."""
        answer = self.request({"audience": PLAIN})
        self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "no-store"))
        self.assertEqual(sorted(answer.json), ["expires_in", "ticket"])
        self.assertEqual(answer.json["expires_in"], 60)
        header, _ = parts(answer.json["ticket"])
        [key] = self.keys()
        self.assertEqual(header, {"alg": "EdDSA", "typ": "gamed-ticket+jwt", "kid": key["kid"]})
        claims = verified(answer.json["ticket"], [key])
        self.assertRegex(claims.pop("jti"), "^[A-Za-z0-9_-]{22}$")
        self.assertEqual(claims, {"iss": ISSUER, "aud": PLAIN, "sub": ANNA, "iat": NOW, "exp": NOW + 60})

    def test_name(self) -> None:
        """Only an audience that the owner allows it gets the name and whether the player is the owner."""
        self.assertEqual(parts(self.ticket(MATCH))[1]["owner"], False)
        self.assertNotIn("name", parts(self.ticket(MATCH))[1])
        self.set_name("Änne \U0001f33b", ANNA)
        self.wait(self.server.databases.auth.submit(lambda connection: player_tables.set_owner(connection, ANNA)))
        claims = verified(self.ticket(MATCH), self.keys())
        self.assertEqual((claims["name"], claims["owner"]), ("Änne \U0001f33b", True))
        for audience in (PLAIN, LOBBY):
            self.assertEqual({"name", "owner"} & parts(self.ticket(audience))[1].keys(), set())

    def test_nonce(self) -> None:
        """The nonce is in the ticket as it was sent, and no two tickets have the same id."""
        first, second = (parts(self.ticket(nonce="a!b~"))[1] for _ in range(2))
        self.assertEqual((first["nonce"], second["nonce"]), ("a!b~", "a!b~"))
        self.assertNotEqual(first["jti"], second["jti"])
        self.assertNotIn("nonce", parts(self.ticket(nonce=None))[1])

    def test_longest(self) -> None:
        """A ticket with the longest nonce and name is still one that introspection reads."""
        self.set_name("\U0001f33b" * 32, ANNA)
        self.assertTrue(self.is_active(self.ticket(nonce="~" * 128)))

    def test_malformed(self) -> None:
        """A body without an audience, or with a nonce that is too long or not visible, is refused."""
        for body in (
            {},
            {"audience": ""},
            {"audience": 1},
            {"audience": [MATCH]},
            {"audience": "a" * 256},
            {"audience": MATCH, "nonce": ""},
            {"audience": MATCH, "nonce": "a" * 129},
            {"audience": MATCH, "nonce": "a b"},
            {"audience": MATCH, "nonce": "a\n"},
            {"audience": MATCH, "nonce": "ä"},
            {"audience": MATCH, "nonce": 1},
        ):
            self.assertEqual(self.request(body).code, "invalid_request", body)

    def test_other_audience(self) -> None:
        """An audience that the owner has not listed is refused, however much its name resembles one."""
        for audience in ("match.example.org", "Match.example", f"{MATCH}.", f" {MATCH}", "*"):
            answer = self.request({"audience": audience})
            self.assertEqual((answer.status, answer.code), (403, "audience_not_allowed"), audience)

    def test_tokens(self) -> None:
        """Only a valid access token gets a ticket; a ticket is none."""
        for token, code in (
            (text(self.pair.refresh), "token_invalid"),
            (text(STRANGE_TOKEN), "token_invalid"),
            (self.ticket(), "token_invalid"),
        ):
            answer = self.request({"audience": MATCH}, token)
            self.assertEqual((answer.status, answer.code), (401, code))
        self.assertEqual(self.browser.post_json(TICKETS, {"audience": MATCH}).code, "token_missing")
        self.server.now_ms += 900_000
        self.assertEqual(self.request({"audience": MATCH}).code, "token_expired")
        self.server.now_ms -= 900_000
        self.revoke()
        self.assertEqual(self.request({"audience": MATCH}).code, "session_revoked")

    def test_blocked(self) -> None:
        """A blocked player gets no ticket."""
        self.set_state("blocked")
        answer = self.request({"audience": MATCH})
        self.assertEqual((answer.status, answer.code), (403, "player_blocked"))

    def test_rate(self) -> None:
        """A player gets 30 tickets at once, then one every two seconds; other players are not affected."""
        for _ in range(30):
            self.ticket()
        answer = self.request({"audience": MATCH})
        self.assertEqual((answer.status, answer.code, answer.headers["retry-after"]), (429, "rate_limited", "2"))
        _, other = self.wait(self.server.open(BERT))
        self.assertEqual(self.request({"audience": MATCH}, text(other.access)).status, 200)
        self.server.now_ms += 2000
        self.ticket()
        self.assertEqual(self.request({"audience": MATCH}).code, "rate_limited")

    def test_rate_of_unknown_audiences(self) -> None:
        """Requests for unknown audiences count, so that names are not guessed faster than tickets are had."""
        for _ in range(30):
            self.assertEqual(self.request({"audience": "guess"}).code, "audience_not_allowed")
        self.assertEqual(self.request({"audience": "guess"}).code, "rate_limited")
        self.assertEqual(self.request({"audience": MATCH}).code, "rate_limited")

    def test_writes_nothing(self) -> None:
        """Once the first use of the session is stored, a ticket changes no row, also if the database refuses all."""
        self.ticket()
        before = self.rows()
        self.ticket()
        self.introspect(self.ticket())
        self.assertEqual(self.rows(), before)
        self.fill()
        self.ticket()

    def rows(self) -> list[object]:
        tables = ("player", "session", "credential", "login", "limit_bucket", "security_event", "ticket_key")
        return [self.wait(self.server.rows(f"SELECT * FROM {table} ORDER BY 1")) for table in tables]


class LifetimeTests(TicketCase):
    lifetimes = SessionLifetimes(ticket_seconds=5)

    def test_setting(self) -> None:
        """The owner's lifetime is that of the ticket."""
        answer = self.request({"audience": MATCH})
        self.assertEqual(answer.json["expires_in"], 5)
        self.assertTrue(self.is_active(answer.json["ticket"]))
        self.server.now_ms += 5000
        self.assertFalse(self.is_active(answer.json["ticket"]))


class OffTests(TicketCase):
    audiences: Mapping[str, TicketAudience] = MappingProxyType({})

    def test_off(self) -> None:
        """Without an audience every route answers that tickets are off."""
        answers = [
            self.request({"audience": MATCH}),
            self.browser.get(KEYS),
            self.introspect("a.b.c"),
            self.introspect("a.b.c", path=CHECK),
        ]
        self.assertEqual([(answer.status, answer.code) for answer in answers], [(403, "tickets_off")] * 4)


class KeyTests(TicketCase):
    """GET /auth/keys."""

    def test_answer(self) -> None:
        """The keys are public ones of RFC 8037, and may be stored by the other server alone."""
        answer = self.browser.get(KEYS)
        self.assertEqual(answer.headers["cache-control"], "private, max-age=3600")
        self.assertEqual(answer.headers["content-type"], "application/json")
        [key] = answer.json["keys"]
        self.assertEqual(sorted(key), ["alg", "crv", "kid", "kty", "use", "x"])
        self.assertEqual((key["kty"], key["crv"], key["alg"], key["use"]), ("OKP", "Ed25519", "EdDSA", "sig"))

    def test_conditional(self) -> None:
        """The same keys are 304, and a rotation changes the tag."""
        tag = self.browser.get(KEYS).headers["etag"]
        for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = self.browser.get(KEYS, {"If-None-Match": sent})
            self.assertEqual((answer.status, answer.body, answer.headers["etag"]), (304, b"", tag))
        self.rotate()
        answer = self.browser.get(KEYS, {"If-None-Match": tag})
        self.assertEqual((answer.status, len(answer.json["keys"])), (200, 2))
        self.assertEqual(self.browser.get(KEYS, {"If-None-Match": "tag"}).code, "bad_precondition")

    def test_derived(self) -> None:
        """The key follows from the master key and its number: a restart has the same one, another master key none."""
        [key] = self.keys()
        again, other = TicketKeys(self.context.settings.master_key), TicketKeys(Secret(bytes(32)))
        self.assertEqual(again.jwks([FIRST]), {"keys": [key]})
        self.assertNotEqual(other.jwks([FIRST]), {"keys": [key]})
        master = self.context.settings.master_key.reveal().hex()
        self.assertNotIn(master, str(again.jwks([FIRST])) + repr(again) + repr(self.routes.tickets.issuer))

    @covers("threats/76")
    def test_rotation(self) -> None:
        """No ticket is rejected by a server that has read the keys within a day, nor by introspection."""
        known = self.keys()
        first = self.ticket()
        self.assertIsNotNone(self.rotate())
        self.assertIsNone(self.rotate())
        verified(self.ticket(), known)
        later = self.keys()
        self.assertEqual(later[:1], known)
        self.server.now_ms += DAY_MS
        self.reopen()
        last = self.ticket()
        self.assertEqual(parts(last)[0]["kid"], later[1]["kid"])
        verified(last, later)
        self.assertTrue(self.is_active(last))
        self.assertEqual(self.keys(), later)
        verified(first, self.keys())
        self.server.now_ms += DAY_MS
        self.assertEqual(self.keys(), later[1:])

    def test_rotation_while_clock_was_ahead(self) -> None:
        """The next rotation moves keys of a time that is years away, so that they are used in a day."""
        [first] = self.keys()
        self.server.now_ms += 3650 * DAY_MS
        self.rotate()
        self.server.now_ms += DAY_MS
        self.assertEqual(self.rotate(), KeyPeriod(3, self.server.now_ms + DAY_MS))
        self.server.now_ms = NOW_MS
        self.assertEqual(parts(self.ticket())[0]["kid"], first["kid"])
        self.assertEqual(self.rotate(), KeyPeriod(3, NOW_MS + DAY_MS))
        self.assertIsNone(self.rotate())
        published = self.keys()
        self.assertEqual((published[0], len(published)), (first, 3))
        self.server.now_ms += DAY_MS
        self.reopen()
        ticket = self.ticket()
        self.assertEqual(parts(ticket)[0]["kid"], published[2]["kid"])
        verified(ticket, published)
        self.server.now_ms += DAY_MS
        self.assertEqual(self.keys(), published[2:])
        self.assertEqual(self.rotate(), KeyPeriod(4, self.server.now_ms + DAY_MS))

    def reopen(self) -> None:
        """Sign the player in again, as the first session's token has expired."""
        _, pair = self.wait(self.server.open())
        self.token = text(pair.access)

    def test_rotated_by_another_process(self) -> None:
        """A rotation by a command is seen by the next request, as the keys are read with the token."""
        databases: Databases = self.server.databases
        elsewhere(
            databases.auth,
            f"INSERT INTO ticket_key (number, first_use_ms) VALUES (1, 0), (2, {NOW_MS})",
        )
        old, new = self.keys()
        self.assertEqual(parts(self.ticket())[0]["kid"], new["kid"])
        self.assertNotEqual(old["kid"], new["kid"])


class IntrospectionTests(TicketCase):
    """POST /auth/tickets/introspect and /auth/tickets/check."""

    def test_active(self) -> None:
        """The audience of the ticket gets its claims, and the proxy's form answers without content."""
        ticket = self.ticket(nonce="n")
        answer = self.introspect(ticket)
        self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "no-store"))
        self.assertEqual(answer.json, {"active": True, **parts(ticket)[1]})
        checked = self.introspect(ticket, path=CHECK)
        self.assertEqual((checked.status, checked.body), (204, b""))

    def test_expired(self) -> None:
        """A ticket is active for its lifetime and not longer."""
        ticket = self.ticket()
        self.server.now_ms += 59_999
        self.assertTrue(self.is_active(ticket))
        self.server.now_ms += 1
        self.assertFalse(self.is_active(ticket))

    @covers("threats/73")
    def test_other_audience(self) -> None:
        """Each audience knows its own tickets only."""
        self.assertFalse(self.is_active(self.ticket(LOBBY), MATCH_SECRET))
        self.assertFalse(self.is_active(self.ticket(PLAIN), MATCH_SECRET))
        self.assertTrue(self.is_active(self.ticket(LOBBY), LOBBY_SECRET))

    def test_blocked(self) -> None:
        """A ticket of a player who was blocked or removed since is not active."""
        ticket = self.ticket()
        for state in ("blocked", "erasing"):
            self.set_state(state)
            self.assertFalse(self.is_active(ticket), state)
        self.set_state("active")
        self.assertTrue(self.is_active(ticket))

    def test_secrets(self) -> None:
        """Without the secret of an audience nothing is said about a ticket."""
        ticket = self.ticket()
        for secret in (None, "wrong", MATCH_SECRET[:-1], f"{MATCH_SECRET}m", self.token, "ä" * 40):
            for path in (INTROSPECT, CHECK):
                answer = self.introspect(ticket, secret, path)
                self.assertEqual((answer.status, answer.code), (401, "audience_secret_invalid"))
                self.assertIn("Bearer", answer.headers["www-authenticate"])

    def test_forms(self) -> None:
        """Further parameters do not matter; a missing or repeated one and other content are refused."""
        ticket = self.ticket()
        hinted = self.browser.request("POST", INTROSPECT, FORM, f"token_type_hint=jwt&token={ticket}".encode())
        self.assertTrue(hinted.json["active"])
        for body in (b"", b"tokens=a", f"token={ticket}&token={ticket}".encode(), b"token=%ff"):
            self.assertEqual(self.browser.request("POST", INTROSPECT, FORM, body).code, "bad_request", body)
        as_json = {**FORM, "Content-Type": "application/json"}
        self.assertEqual(self.browser.request("POST", INTROSPECT, as_json, b"{}").code, "unsupported_media_type")
