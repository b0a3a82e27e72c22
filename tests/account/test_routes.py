"""The routes of a player's own account answer as the protocol says (docs/protocol.md: Accounts)."""

from msgspec.json import encode
from msgspec.structs import replace

from gamed.account.build import build_account
from gamed.account.routes import PlayerRoutes
from gamed.crypto import Index, Purpose
from gamed.database.connection import Connection
from gamed.database.databases import Databases
from gamed.database.errors import DatabaseUnavailable
from gamed.players import tables as player_tables
from gamed.players.names import SignInMethods, fold
from gamed.saves.limits import ONE_TRIP_BYTES
from gamed.sessions.routes import SessionRoutes
from gamed.timestamps import rfc3339
from tests.saves.helpers import ABSENT, SaveCase
from tests.sessions.fixtures import ANNA, BERT, NOW_MS
from tests.support.databases import file_databases
from tests.support.http import Answer, Browser

DISCORD, GOOGLE, GONE = (Index(bytes([number]) * 32) for number in (1, 2, 3))
MINUTE_MS = 60_000
LOCAL = "/auth/identities/local"


class AccountCase(SaveCase):
    """Anna is signed in; Discord and Google are configured, `gone` is not configured any more."""

    ways = SignInMethods(local=False, namespaces=frozenset({DISCORD, GOOGLE}))

    def setUp(self) -> None:
        super().setUp()
        server = self.server
        built = build_account(server.context, server.revoked.append)
        self.removals = built.removals
        account = replace(built.account, methods=self.ways)
        groups = [PlayerRoutes(sessions=server.sessions, account=account, detached=self.tasks), self.routes]
        groups.append(SessionRoutes(sessions=server.sessions, detached=self.tasks))
        self.browser = Browser(groups, clock=self.clock, now_ms=lambda: server.now_ms)

    def make_stores(self) -> Databases:
        return file_databases(self)

    def link(self, provider: str, realm: Index, player_id: str = ANNA, at_ms: int = NOW_MS) -> Index:
        index = self.server.issuer.keys.indexer.index(Purpose.IDENTITY, provider.encode(), player_id.encode())

        def transaction(connection: Connection) -> None:
            player_tables.insert_identity(
                connection, index=index, namespace=realm, player_id=player_id, provider=provider, now_ms=at_ms
            )

        self.successResultOf(self.stores.auth.submit(transaction))
        return index

    def add_account(self, name: str, player_id: str = ANNA) -> None:
        keys = self.server.issuer.keys

        def transaction(connection: Connection) -> None:
            player_tables.create_account(
                connection, keys, player_id=player_id, name=fold(name), password="phc", now_ms=NOW_MS + 1
            )

        self.successResultOf(self.stores.auth.submit(transaction))

    def providers(self) -> list[tuple[str, bool]]:
        found = self.ask("GET", "/auth/identities").json["identities"]
        return [(line["provider"], line["can_sign_in"]) for line in found]

    def unlink(self, provider: str) -> Answer:
        return self.ask("DELETE", f"/auth/identities/{provider}")

    def count(self, table: str) -> int:
        [(rows,)] = self.successResultOf(self.server.rows(f"SELECT count(*) FROM {table}"))
        return int(rows)


class IdentityTests(AccountCase):
    """GET /auth/identities, DELETE /auth/identities/{provider}."""

    def test_list(self) -> None:
        """The list has exactly the members of the protocol, the oldest first, and shows which can sign in.

        See docs/protocol.md: Accounts.
        """
        self.link("gone", GONE)
        self.add_account("anna")
        self.link("discord", DISCORD, at_ms=NOW_MS + 2)
        self.successResultOf(self.server.open(BERT))
        self.link("google", GOOGLE, BERT)
        answer = self.ask("GET", "/auth/identities")
        self.assertEqual((answer.status, answer.headers["cache-control"]), (200, "no-store"))
        expected = [("gone", 0, False), ("local", 1, False), ("discord", 2, True)]
        self.assertEqual(
            answer.json,
            {
                "identities": [
                    {"provider": name, "linked_at": rfc3339(at), "last_used_at": rfc3339(at), "can_sign_in": can}
                    for name, later, can in expected
                    for at in [NOW_MS + later]
                ]
            },
        )

    def test_unlink(self) -> None:
        """Unlinking is answered 204, repeatedly; the account may be linked again, and the session stays."""
        index = self.link("discord", DISCORD)
        self.link("google", GOOGLE)
        for _ in range(2):
            answer = self.unlink("discord")
            self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(self.providers(), [("google", True)])
        self.assertIsNone(
            self.successResultOf(self.stores.reads.submit(lambda c: player_tables.identity_owner(c, index)))
        )
        self.assertEqual(self.server.audit.lines, [f"identity_unlinked player={ANNA} provider=discord sessions=0"])

    def test_last_identity(self) -> None:
        """Unlinking the last identity that can sign in is answered 409, whatever others there are."""
        self.link("discord", DISCORD)
        self.assert_problem(self.unlink("discord"), 409, "last_identity")
        self.link("gone", GONE)
        self.add_account("anna")
        self.assert_problem(self.unlink("discord"), 409, "last_identity")
        for dead in ("gone", "local"):
            self.assertEqual(self.unlink(dead).status, 204)
        self.assertEqual(self.providers(), [("discord", True)])
        self.assertEqual(self.unlink("never-linked").status, 204)

    def test_who_may(self) -> None:
        """The routes need a valid access token, and never change another player."""
        self.link("discord", DISCORD)
        self.successResultOf(self.server.open(BERT))
        self.link("google", GOOGLE, BERT)
        for method, path in (
            ("GET", "/auth/identities"),
            ("DELETE", "/auth/identities/discord"),
            ("DELETE", "/auth/player"),
        ):
            answer = self.browser.request(method, path)
            self.assertEqual((answer.status, answer.code), (401, "token_missing"), path)
        self.assertEqual(self.unlink("google").status, 204)
        self.assertEqual(self.count("identity"), 2)


class LocalModeTests(AccountCase):
    ways = SignInMethods(local=True)

    def test_last_identity(self) -> None:
        """In local mode the local account cannot be unlinked."""
        self.add_account("anna")
        self.link("discord", DISCORD)
        self.assertEqual(self.providers(), [("discord", False), ("local", True)])
        self.assert_problem(self.ask("DELETE", LOCAL), 409, "last_identity")
        self.assertEqual(self.unlink("discord").status, 204)


class RenameTests(AccountCase):
    """PATCH /auth/player."""

    def rename(self, body: object, headers: dict[str, str] | None = None) -> Answer:
        fields = {"Content-Type": "application/json", **(headers or {})}
        return self.ask("PATCH", "/auth/player", fields, body if isinstance(body, bytes) else encode(body))

    def stored(self) -> dict[str, str | None]:
        keys = self.server.issuer.keys
        found = self.successResultOf(self.stores.reads.submit(lambda c: player_tables.list_players(c, keys.sealer)))
        return {each.player.player_id: each.display_name for each in found}

    def test_rename(self) -> None:
        """A player gets the name as it is stored, may change it, and deletes it with null; others keep theirs."""
        self.successResultOf(self.server.open(BERT))
        for typed, shown in (
            ("  Anna  M\u0075\u0308ller ", "Anna M\u00fcller"),
            ("\u5b89\u5a1c", "\u5b89\u5a1c"),
            (None, None),
        ):
            answer = self.rename({"name": typed, "unknown": 1})
            expected = {"player": {"id": ANNA, "owner": False, "name": shown}}
            self.assertEqual((answer.status, answer.json), (200, expected))
            self.assertEqual(self.stored(), {ANNA: shown, BERT: None})
        self.assertEqual(self.server.audit.lines, [f"player_renamed player={ANNA}"] * 3)

    def test_sealed(self) -> None:
        """The name is in no row in clear, and a row that holds another player's sealed name shows none."""
        self.successResultOf(self.server.open(BERT))
        self.rename({"name": "Anna"})
        [(sealed,)] = self.successResultOf(
            self.server.rows("SELECT sealed_display_name FROM player WHERE sealed_display_name IS NOT NULL")
        )
        self.assertNotIn(b"Anna", sealed)
        copy = "UPDATE player SET sealed_display_name = :sealed"
        self.successResultOf(self.stores.auth.submit(lambda c: c.execute(copy, {"sealed": sealed}).close()))
        self.assertEqual(self.stored(), {ANNA: "Anna", BERT: None})

    def test_malformed(self) -> None:
        """A body without a name, or with one that is not allowed, is answered 400 and changes nothing."""
        self.rename({"name": "Anna"})
        names = ("", " ", "a" * 33, "x" * 8000, "a\u202eb", "a\u0000", "\u2800", 7, True, [], {"name": "Bert"})
        for body in (
            *({"name": name} for name in names),
            {},
            [],
            b'{"name":"\\ud800"}',
            b'{"name":"a","name":"b"}',
            b"{",
        ):
            self.assert_problem(self.rename(body), 400, "invalid_request")
        answer = self.rename({"name": "a\u202eb"})
        self.assertEqual([each["pointer"] for each in answer.json["errors"]], ["/name"])
        self.assertNotIn("\u202e", answer.body.decode())
        self.assert_problem(self.rename(b'{"name":"' + b"x" * 9000 + b'"}'), 413, "body_too_large")
        self.assert_problem(
            self.rename({"name": "Bert"}, {"Content-Type": "text/plain"}), 415, "unsupported_media_type"
        )
        self.assertEqual(self.stored(), {ANNA: "Anna"})

    def test_who_may(self) -> None:
        """The route needs a valid access token; a session that has ended changes nothing."""
        answer = self.browser.request("PATCH", "/auth/player", {"Content-Type": "application/json"}, b'{"name":"Eve"}')
        self.assertEqual((answer.status, answer.code), (401, "token_missing"))
        self.ask("POST", "/auth/session/logout")
        self.assert_problem(self.rename({"name": "Eve"}), 401, "session_revoked")
        self.assertEqual(self.stored(), {ANNA: None})

    def test_too_often(self) -> None:
        """After ten changes at once the next one has to wait six seconds; another player does not."""
        berts = self.sign_in(BERT)
        for number in range(10):
            self.assertEqual(self.rename({"name": f"Anna {number}"}).status, 200)
        self.assert_problem(self.rename({"name": "Anna 10"}), 429, "rate_limited")
        self.assertEqual(self.rename({"name": "Bert"}, berts).status, 200)
        self.assertEqual(self.stored(), {ANNA: "Anna 9", BERT: "Bert"})
        self.server.now_ms += 6_000
        self.assertEqual(self.rename({"name": "Anna 10"}).status, 200)

    def test_erase(self) -> None:
        """The name is deleted with the player."""
        self.rename({"name": "Anna"})
        self.assertEqual(self.ask("DELETE", "/auth/player").status, 204)
        self.assertEqual(self.stored(), {})
        self.assert_problem(self.rename({"name": "Anna"}), 401, "token_invalid")


class EraseTests(AccountCase):
    """DELETE /auth/player."""

    def test_everything_goes(self) -> None:
        """Saves, identities, sessions and the player are deleted in both databases; another player keeps everything."""
        berts = self.sign_in(BERT)
        self.link("discord", DISCORD)
        self.link("google", GOOGLE, BERT)
        self.assertEqual(self.put("auto", b"anna's", ABSENT).status, 201)
        self.assertEqual(self.put("big", bytes(range(1, 251)) * 2100, ABSENT).status, 201)
        self.assertEqual(self.ask("PUT", "/game/saves/auto", {**ABSENT, **berts}, b"bert's").status, 201)
        answer = self.ask("DELETE", "/auth/player")
        self.assertEqual((answer.status, answer.body), (204, b""))
        for table, left in (
            *((table, 1) for table in ("player", "identity", "session")),
            ("credential", 2),
            *((table, 1) for table in ("save", "save_version", "blob")),
            ("blob_part", 0),
        ):
            self.assertEqual(self.count(table), left, table)
        self.assertEqual(self.ask("GET", "/game/saves/auto", berts).body, b"bert's")
        self.assert_problem(self.ask("GET", "/auth/sessions"), 401, "token_invalid")
        self.assertEqual(self.server.revoked, [ANNA])
        self.assertEqual(self.server.audit.lines, [f"erase_started player={ANNA}", f"erased player={ANNA}"])

    def test_recent_sign_in(self) -> None:
        """A player may erase up to ten minutes after the sign-in; a refresh does not count as a sign-in."""
        self.server.now_ms += 10 * MINUTE_MS + 1
        self.assert_problem(self.ask("DELETE", "/auth/player"), 403, "reauthentication_required")
        self.assertEqual(self.count("player"), 1)
        self.server.now_ms -= 1
        self.assertEqual(self.ask("DELETE", "/auth/player").status, 204)

    def test_upload_in_flight(self) -> None:
        """An upload that began before is answered 410, even the first one of a player, and stores nothing.

        If its token is authenticated with the write, it is 401: the session has ended.
        """
        for first, size, refusal in (
            (True, 3000, (410, "erased")),
            (False, 3000, (401, "token_invalid")),
            (False, ONE_TRIP_BYTES + 1, (410, "erased")),
        ):
            with self.subTest(first=first, size=size):
                self.bearer = self.sign_in(ANNA)
                if not first:
                    self.put("auto", b"old", ABSENT)
                body = b"n" * size
                headers = {**self.bearer, **ABSENT, "Content-Length": str(len(body))}
                call = self.browser.send("PUT", "/game/saves/other", headers, body[:1000])
                self.assertEqual(self.ask("DELETE", "/auth/player").status, 204)
                self.assert_problem(call.send(body[1000:]).answer, *refusal)
                self.assertEqual((self.count("save"), self.count("blob"), self.count("player")), (0, 0, 0))

    def test_state_unavailable(self) -> None:
        """While state.db is unavailable, the response is 503, and nothing changes."""
        self.stores._state.unavailable_as = DatabaseUnavailable
        answer = self.ask("DELETE", "/auth/player")
        self.assertEqual((answer.status, answer.code), (503, "store_unavailable"))
        self.assertEqual(self.ask("GET", "/auth/sessions").status, 200)
