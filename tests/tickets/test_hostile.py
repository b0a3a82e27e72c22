"""No forged, changed, copied or misdirected ticket is accepted, and none opens anything on this server."""

import hmac
import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gamed.crypto import Secret, base64url, derive
from gamed.rate_limit import MAX_BUCKETS
from gamed.tickets.keys import CACHED_KEYS, TicketKeys
from gamed.tickets.ticket_rules import FIRST
from tests.sessions.fixtures import NOW_MS
from tests.sessions.server import text
from tests.support.covers import covers
from tests.tickets.fixtures import (
    CHECK,
    INTROSPECT,
    ISSUER,
    LOBBY_SECRET,
    MASTER,
    MATCH,
    MATCH_SECRET,
    TICKETS,
    TicketCase,
)
from tests.tickets.tokens import decoded, parts, sign

REQUESTS = 10_000
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
OWN = Ed25519PrivateKey.from_private_bytes(derive(MASTER, b"gamed 1 ticket ed25519 1"))
"""The server's key: what it has signed is refused for its header alone."""
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@covers("threats/77")
class ForgedTests(TicketCase):
    def setUp(self) -> None:
        super().setUp()
        self.genuine = self.ticket()
        self.header, self.claims = parts(self.genuine)
        [self.key] = self.keys()

    def signed(self, **changed: object) -> str:
        """Return a ticket with changed claims that the server's own key has signed."""
        return TicketKeys(MASTER).sign(FIRST, self.claims | changed)

    def refused(self, ticket: str, why: str) -> None:
        self.assertTrue(self.is_active(self.genuine))
        self.assertFalse(self.is_active(ticket), why)

    def test_tools(self) -> None:
        """The forger's tools make valid tickets if nothing is forged, so what is refused below is the forgery."""
        self.assertTrue(self.is_active(self.signed()))
        self.assertTrue(self.is_active(sign(self.header, self.claims, OWN)))

    def test_none(self) -> None:
        """The algorithm `none` is refused, without a signature and with one."""
        for alg in ("none", "None", ""):
            token = sign({**self.header, "alg": alg}, self.claims, OWN)
            self.refused(token, alg)
            self.refused(f"{token.rpartition('.')[0]}.", alg)

    def test_public_key_as_a_secret(self) -> None:
        """HS256 with the public key, in any of its forms, is refused."""
        raw = decoded(self.key["x"])
        for secret in (raw, self.key["x"].encode(), json.dumps(self.key).encode()):
            parts = ({**self.header, "alg": "HS256"}, self.claims)
            signed = ".".join(base64url(json.dumps(part).encode()) for part in parts)
            mac = hmac.digest(secret, signed.encode(), sha256)
            self.refused(f"{signed}.{base64url(mac)}", "HS256")

    def test_other_keys(self) -> None:
        """A key that the server does not publish is refused, by its own name and by the name of the server's key."""
        for kid in ("stranger", "", self.key["kid"]):
            self.refused(sign({**self.header, "kid": kid}, self.claims, STRANGER), kid)
        other = TicketKeys(Secret(bytes(32)))
        self.refused(other.sign(FIRST, self.claims), "another master key")

    def test_keys_in_the_header(self) -> None:
        """A header that brings or names a key of its own is refused, also beside the server's kid."""
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64url(STRANGER.public_key().public_bytes_raw())}
        for extra in (
            {"jwk": jwk},
            {"jku": "https://evil.example/keys"},
            {"x5u": "https://evil.example/cert"},
            {"x5c": ["AA"]},
            {"crit": ["b64"], "b64": False},
        ):
            for key in (STRANGER, OWN):
                self.refused(sign({**self.header, **extra}, self.claims, key), str(extra))

    def test_header(self) -> None:
        """Another type, a missing one, and members that a ticket does not have are refused."""
        for header in (
            {"alg": "EdDSA", "kid": self.key["kid"]},
            {**self.header, "typ": "JWT"},
            {**self.header, "typ": "at+jwt"},
            {**self.header, "typ": "GAMED-TICKET+JWT"},
            {**self.header, "typ": ["gamed-ticket+jwt"]},
            {**self.header, "alg": "Ed25519"},
            {**self.header, "kid": 1},
            {**self.header, "cty": "JWT"},
        ):
            self.refused(sign(header, self.claims, OWN), str(header))

    def test_claims(self) -> None:
        """A ticket of another issuer or audience is refused, even if the server's own key has signed it."""
        for changed in (
            {"iss": "https://evil.example/auth"},
            {"iss": ISSUER.removesuffix("/auth")},
            {"aud": "lobby.example"},
            {"aud": [MATCH]},
            {"aud": [MATCH, "lobby.example"]},
            {"sub": "ply_nobody"},
            {"sub": "ply_\0"},
            {"sub": None},
            {"exp": self.claims["iat"]},
            {"iat": NOW_MS},
        ):
            self.refused(self.signed(**changed), str(changed))

    def test_form(self) -> None:
        """Other spellings of a genuine ticket are refused, and texts that are none."""
        first, second, third = self.genuine.split(".")
        for token in (
            *(f"{first}.{second}", f"{first}.{second}.{third}.{third}", f".{second}.{third}", f"{first}..{third}"),
            *(f"{first}.{second}.{third}=", f"{first}.{second}.{third}%20", f"{first}%0A.{second}.{third}"),
            *("", ".", "..", "a" * 8000, f"{first}.{second}.{third}" + "A" * 4096, "%00", "\u00e4"),
            *(f"{first}.{base64url(b'[]')}.{third}", f"{base64url(b'{')}.{second}.{third}"),
        ):
            self.refused(token, token[:80])

    def test_each_character(self) -> None:
        """Each character of a ticket counts: one that is replaced makes it another text that no key has signed."""
        random = Random(1)
        for at, character in enumerate(self.genuine):
            if character == ".":
                continue
            other = random.choice(ALPHABET.replace(character, ""))
            changed = f"{self.genuine[:at]}{other}{self.genuine[at + 1 :]}"
            self.assertFalse(self.introspect(changed).json["active"], f"{at}: {other}")

    def test_clock(self) -> None:
        """A clock that was set back makes no ticket valid again, nor longer than it says."""
        self.server.now_ms += 60_000
        self.assertFalse(self.is_active(self.genuine))
        later = self.ticket()
        self.server.now_ms -= 3_600_000
        self.assertFalse(self.is_active(later))
        self.assertFalse(self.is_active(self.genuine))

    @covers("threats/73")
    def test_replay(self) -> None:
        """A copied ticket is active until it expires, as nothing is stored; its nonce shows for which connection."""
        with_nonce = self.ticket(nonce="first.connection")
        for _ in range(3):
            self.assertEqual(self.introspect(with_nonce).json["nonce"], "first.connection")
            self.assertNotIn("nonce", self.introspect(self.genuine).json)
        self.refused(self.signed(nonce="second.connection") + "A", "a nonce that was not signed")

    @covers("threats/74")
    def test_not_a_token_here(self) -> None:
        """No route takes a ticket for an access token, and no ticket ends a session."""
        bearer = {"Authorization": f"Bearer {self.genuine}"}
        for method, path in (
            ("GET", "/auth/sessions"),
            ("DELETE", f"/auth/sessions/{self.session_id}"),
            ("POST", "/auth/session/logout"),
            ("POST", TICKETS),
        ):
            body = json.dumps({"audience": MATCH}).encode() if path == TICKETS else b""
            headers = {**bearer, **({"Content-Type": "application/json"} if body else {})}
            answer = self.browser.request(method, path, headers, body)
            self.assertEqual((answer.status, answer.code), (401, "token_invalid"), path)
        refresh = self.browser.post_json("/auth/session/refresh", {"refresh_credential": self.genuine})
        self.assertEqual(refresh.code, "refresh_invalid")
        self.assertEqual(self.browser.get("/auth/sessions", {"Authorization": f"Bearer {self.token}"}).status, 200)


@covers("threats/75")
class FloodTests(TicketCase):
    def test_many(self) -> None:
        """The server refuses 10,000 hostile requests, and bounds what it retains of them.

        They leave no row, no line in the log beside the access log's, and one bucket for each player with a token.
        """
        ticket = self.ticket()
        before = self.rows()
        random, answered = Random(2), Counter[tuple[str, int]]()
        for number in range(REQUESTS // 5):
            at = random.randrange(len(ticket))
            forged = f"{ticket[:at]}{random.choice(ALPHABET)}{ticket[at:]}"
            for what, status in (
                ("forged", self.introspect(forged, path=CHECK).status),
                ("misdirected", self.introspect(ticket, LOBBY_SECRET, CHECK).status),
                ("guessed secret", self.introspect(ticket, f"{number:040}").status),
                ("ticket as a token", self.request({"audience": MATCH}, ticket).status),
                ("too many", self.request({"audience": f"{MATCH}{number % 2}"}).status),
            ):
                answered[what, status] += 1
        each = REQUESTS // 5
        refused = ("forged", "misdirected", "guessed secret", "ticket as a token")
        self.assertEqual(
            answered, {**{(what, 401): each for what in refused}, ("too many", 403): 29, ("too many", 429): each - 29}
        )
        self.assertEqual(self.rows(), before)
        self.assertEqual(self.browser.events, [])
        issuer = self.routes.tickets.issuer
        assert issuer is not None
        self.assertEqual(len(issuer.rate._buckets), 1)
        self.assertLessEqual(issuer.keys._key.cache_info().currsize, CACHED_KEYS)

    def test_many_players(self) -> None:
        """Buckets of players who ask no more are discarded."""
        issuer = self.routes.tickets.issuer
        assert issuer is not None
        for number in range(2 * MAX_BUCKETS):
            issuer.rate.acquire(f"ply_{number}", NOW_MS + number * 10)
        self.assertLessEqual(len(issuer.rate._buckets), MAX_BUCKETS + 1)

    def rows(self) -> Mapping[str, object]:
        tables = ("player", "session", "credential", "limit_bucket", "security_event", "ticket_key")
        return {table: self.wait(self.server.rows(f"SELECT * FROM {table} ORDER BY 1")) for table in tables}


class SecrecyTests(TicketCase):
    def test_no_secrets_in_text(self) -> None:
        """Neither a ticket nor a secret is in an answer that refuses it, nor in the text of an object."""
        ticket = self.ticket()
        wrong = self.introspect(ticket, "w" * 40)
        refused = [wrong, self.introspect(f"{ticket}A", path=CHECK), self.request({"audience": "no"}, ticket)]
        shown = "".join(str((answer.headers, answer.body)) for answer in refused)
        shown += repr(self.context.config) + repr(self.routes.tickets.issuer)
        for secret in (ticket, ticket.split(".")[1], MATCH_SECRET, "w" * 40, text(self.pair.access)):
            self.assertNotIn(secret, shown)
        self.assertEqual(self.browser.request("GET", INTROSPECT).status, 405)
