"""`assets.access` and `cors_origins` decide who may read releases.

See docs/protocol.md: Conventions; docs/owners/configuration.md: Saves and assets.
"""

from itertools import product

from gamed.players import tables as player_tables
from gamed.sessions import tables as session_tables
from gamed.sessions.credentials import CredentialPair
from tests.assets.serving_fixtures import ServingCase
from tests.sessions.fixtures import ANNA, NOW_MS
from tests.sessions.server import SessionServer, text
from tests.support.covers import covers
from tests.support.databases import memory_databases

DATA, LARGE = b"for players", b"for players " * 20_000
ORIGIN = "https://game.example.org"


class PlayersTests(ServingCase):
    """The setting `assets.access` is `players`."""

    def setUp(self) -> None:
        super().setUp()
        self.house = SessionServer(memory_databases(self))
        self.release = self.folder.publish("stable", {"a": DATA, "b": LARGE})
        self.object = self.folder.object_path(DATA).name
        self.browser = self.new_browser(self.house.sessions)
        self.session_id, self.pair = self.successResultOf(self.house.open())
        self.bearer = self.speaking(self.pair)
        names = ("", "stable", self.release, "stable/a", f"{self.release}/b", f"objects/{self.object}")
        self.addresses = [f"/assets/{name}" for name in names]

    def speaking(self, pair: CredentialPair) -> dict[str, str]:
        return {"Authorization": f"Bearer {text(pair.access)}"}

    @covers("threats/44")
    def test_players_read(self) -> None:
        """With a token all responses are those of public access, but `private`."""
        for address, more in product(self.addresses, ({}, {"Range": "bytes=0-3"}, {"If-None-Match": "*"})):
            answer = self.get(address, {**self.bearer, **more})
            self.assertEqual(answer.status, {"Range": 206, "If-None-Match": 304}.get("".join(more), 200), address)
            moving = address.startswith("/assets/stable") or address == "/assets/"
            control = "private, no-cache" if moving else "private, max-age=31536000, immutable"
            self.assertEqual((answer.headers["cache-control"], answer.headers["vary"]), (control, "Authorization"))
        self.assertEqual(self.get(f"/assets/{self.release}/b", self.bearer).body, LARGE)

    @covers("threats/44")
    def test_without_a_token(self) -> None:
        """Without a token everything is 401, whatever exists; a token in another place does not count."""
        for address in (*self.addresses, "/assets/none", "/assets/stable/none", "/assets/r0123456789abcdef"):
            for method in ("GET", "HEAD"):
                answer = self.ask(method, address, {"If-None-Match": "*"})
                self.assertEqual((answer.status, answer.headers["cache-control"]), (401, "no-store"))
                self.assertEqual(answer.headers["www-authenticate"], 'Bearer realm="gamed"')
            self.refused(self.get(address), 401, "token_missing")
            token = self.bearer["Authorization"].removeprefix("Bearer ")
            self.refused(self.get(f"{address}?access_token={token}"), 401, "token_missing")
            self.refused(self.get(address, {"Authorization": "Bearer gat_x"}), 401, "token_invalid")
        self.refused(self.get("/assets/stable", {"If-None-Match": "abc"}), 400, "bad_precondition")
        self.refused(self.ask("PUT", "/assets/stable"), 405, "method_not_allowed")
        self.refused(self.get("/assets/stable/", self.bearer), 404, "route_not_found")

    def test_what_is_cached(self) -> None:
        """Without a token cached files are 401, too."""
        tag = self.get("/assets/stable/a", self.bearer).headers["etag"]
        for more in ({}, {"If-None-Match": tag}):
            self.assertIn(self.get("/assets/stable/a", {**self.bearer, **more}).status, (200, 304))
            self.refused(self.get("/assets/stable/a", more), 401, "token_missing")

    def test_expired(self) -> None:
        self.house.now_ms += 16 * 60_000
        answer = self.get("/assets/stable/a", self.bearer)
        self.refused(answer, 401, "token_expired")
        self.assertIn("invalid_token", answer.headers["www-authenticate"])

    def test_revoked(self) -> None:
        """A revoked session is 401 from the next request on."""
        self.assertEqual(self.get("/assets/stable/a", self.bearer).status, 200)
        unit = self.house.databases.auth.submit(
            lambda connection: session_tables.revoke(connection, self.session_id, NOW_MS)
        )
        self.successResultOf(unit)
        self.refused(self.get("/assets/stable/a", self.bearer), 401, "session_revoked")

    def test_blocked(self) -> None:
        unit = self.house.databases.auth.submit(lambda connection: player_tables.set_state(connection, ANNA, "blocked"))
        self.successResultOf(unit)
        self.refused(self.get("/assets/stable/a", self.bearer), 403, "player_blocked")

    def test_one_authentication(self) -> None:
        """Each request authenticates once."""
        self.get("/assets/stable", self.bearer)  # the first use of a token is written down
        before = sum(self.house.databases.reads.batches)
        self.assertEqual(self.get(f"/assets/{self.release}/b", self.bearer).status, 200)
        self.assertEqual(sum(self.house.databases.reads.batches) - before, 1)


class PublicTests(ServingCase):
    def test_everybody(self) -> None:
        """Public access ignores tokens."""
        self.folder.publish("stable", {"a": DATA})
        for headers in ({}, {"Authorization": "Bearer gat_x"}, {"Authorization": "Basic x"}):
            answer = self.get("/assets/stable/a", headers)
            self.assertEqual((answer.status, answer.body), (200, DATA))
            self.assertNotIn("vary", answer.headers)
            self.assertNotIn("access-control-allow-origin", answer.headers)


class OriginTests(ServingCase):
    """Requests of a page of an allowed origin."""

    def setUp(self) -> None:
        super().setUp()
        self.release = self.folder.publish("stable", {"a": DATA, "b": LARGE})
        self.browser = self.new_browser(origins=frozenset({ORIGIN}))

    def test_listed(self) -> None:
        """It may read every response, and the fields that a download needs."""
        for path, headers, status in (
            ("stable/a", {}, 200),
            (f"{self.release}/b", {"Range": "bytes=100-"}, 206),
            ("stable", {"If-None-Match": f'"{self.release}"'}, 304),
            ("none", {}, 404),
            ("stable/b", {"Range": "bytes=999999999-"}, 416),
        ):
            answer = self.get(f"/assets/{path}", {"Origin": ORIGIN, **headers})
            self.assertEqual(answer.status, status)
            self.assertEqual(
                (answer.headers["access-control-allow-origin"], answer.headers["vary"]), (ORIGIN, "Origin")
            )
            exposed = answer.headers["access-control-expose-headers"].split(", ")
            self.assertLessEqual({"etag", "repr-digest", "content-range", "asset-release", "retry-after"}, {*exposed})
            self.assertNotIn("access-control-allow-credentials", answer.headers)

    def test_preflight(self) -> None:
        """A preflight allows Range, If-Range and Authorization."""
        for path in ("", "stable", "stable/a/b/c", self.release, "objects/" + "0" * 64):
            asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
            answer = self.ask("OPTIONS", f"/assets/{path}", asked)
            self.assertEqual((answer.status, answer.headers["access-control-allow-origin"]), (204, ORIGIN), path)
            allowed = answer.headers["access-control-allow-headers"].split(", ")
            self.assertLessEqual({"authorization", "if-none-match", "if-range", "range"}, {*allowed})
            self.assertEqual(answer.headers["access-control-allow-methods"], "GET, HEAD, OPTIONS")

    def test_others(self) -> None:
        for origin in ("https://evil.example", "null", f"{ORIGIN}.evil.example"):
            for method in ("GET", "OPTIONS"):
                answer = self.ask(method, "/assets/stable/a", {"Origin": origin})
                self.assertEqual([name for name in answer.headers if name.startswith("access-control")], [])
