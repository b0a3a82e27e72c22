"""Tickets of a whole server: no route takes one as a credential, and the owner can turn them off or block a player."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from tests.contract.document import Operation, operations
from tests.e2e.client import gamed, write_game
from tests.e2e.wire import Answer
from tests.support.covers import covers
from tests.tickets.fixtures import CHECK, INTROSPECT, KEYS, MATCH, TICKETS
from tests.tickets.samples import SECRET, SampleCase
from tests.tickets.tokens import parts

COOKIES = ("ga", "gn", "gr", "gl")
"""The cookies of the account's pages, which the owner's page has, too, and of sign-ins."""
FORM = "application/x-www-form-urlencoded"
BODIES: Mapping[str, bytes] = {
    "POST /auth/tickets": b'{"audience":"match.example"}',
    "PATCH /auth/player": b'{"name":"Eve"}',
}
PATH_VALUES = {"number": "1", "sha256": "0" * 64, "slot": "one", "tag": "de", "name": "stable", "path": "a.txt"}


def credentials(operation: Operation) -> set[str]:
    """Return the credentials that an operation takes; none for a public one."""
    return {name for each in operation.node.get("security", ()) for name in each}


class EveryRouteTests(SampleCase):
    config: ClassVar[Mapping[str, object] | None] = {
        "mode": "local",
        "ticket_audiences": {MATCH: {"owner": True, "secret_env": "GAMED_MATCH_SECRET"}},
        "limits": {"entries_per_minute": 0},
    }

    def prepare(self) -> None:
        super().prepare()
        write_game(self.service, assets={"access": "players"})

    def send(self, operation: Operation, bearer: str, cookie: str) -> Answer:
        """Send a request with this text as the credential, in its form and in its cookies."""
        values = {"player_id": self.player, **PATH_VALUES}
        path = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "x"), operation.path)
        content = dict(operation.node.get("requestBody", {}).get("content", {}))
        headers = {"Authorization": f"Bearer {bearer}", "Cookie": "; ".join(f"{name}={cookie}" for name in COOKIES)}
        body = None
        if content:
            headers["Content-Type"] = next(iter(content))
            body = f"token={cookie}".encode() if FORM in content else b"{}"
            body = BODIES.get(operation.name, body)
        if operation.method in ("PUT", "DELETE") or path.endswith("restore"):
            headers["If-Match"] = "*"
        return self.ask(operation.method, path, body=body, headers=headers)

    @covers("threats/74")
    def test_no_credential(self) -> None:
        """Each route answers a ticket as any wrong credential: in Authorization, in cookies and in forms.

        It is the owner's, of a player with a save, while the owner's page is on and assets are for players.
        """
        gamed(self.service, "owner", "claim", "anna")
        (self.folder / "backups").mkdir()
        gamed(self.service, "owner", "page", "on", "--backups", str(self.folder / "backups"))
        octets = {"Content-Type": "application/octet-stream", "If-None-Match": "*"}
        self.assertEqual(
            self.ask("PUT", "/game/saves/one", body=b"saved", bearer=self.token, headers=octets).status, 201
        )
        ticket = self.ticket()
        self.assertIs(parts(ticket)[1]["owner"], True)
        wrong = f"{ticket[:-8]}AAAAAAAA"
        for path in ("/game/", "/assets/"):  # which a real credential opens
            self.assertNotEqual(self.ask("GET", path, bearer=self.token).status, 401)
        tried = Counter[str]()
        for operation in operations():
            taken = credentials(operation)
            answer, expected = (self.send(operation, text, text) for text in (ticket, wrong))
            self.assertEqual(answer.status, expected.status, operation.name)
            if operation.name == "POST /auth/login":  # takes a token for links alone, which need a provider
                self.assertEqual(answer.status, 201)
            elif "access_token" in taken:
                self.assertEqual(answer.status, 401, operation.name)
                if operation.method != "HEAD":
                    self.assertEqual(answer.json["code"], "token_invalid", operation.name)
            elif taken:
                self.assertEqual(answer.status, 401, operation.name)
            for text in (b"saved", b"anna", ticket.encode()):
                self.assertNotIn(text, answer.body, operation.name)
            tried[operation.path.split("/")[1]] += 1
        self.assertGreater(min(tried[prefix] for prefix in ("auth", "game", "assets")), 3)
        self.assertEqual(self.ask("GET", "/game/saves/one", bearer=self.token).body, b"saved")
        refresh = self.ask("POST", "/auth/session/refresh", json_body={"refresh_credential": ticket})
        self.assertEqual((refresh.status, refresh.json["code"]), (401, "refresh_invalid"))


class OwnersTests(SampleCase):
    def introspect(self, ticket: str, path: str = INTROSPECT) -> Answer:
        headers = {"Content-Type": FORM}
        return self.ask("POST", path, body=f"token={ticket}".encode(), bearer=SECRET, headers=headers)

    def test_blocked(self) -> None:
        """A block ends tickets at once where a server asks, and the player gets no more; unblocked, both work again."""
        ticket = self.ticket()
        self.assertTrue(self.introspect(ticket).json["active"])
        self.assertEqual(self.introspect(ticket, CHECK).status, 204)
        gamed(self.service, "players", "block", "anna")
        self.assertEqual(self.introspect(ticket).json, {"active": False})
        self.assertEqual(self.introspect(ticket, CHECK).status, 401)
        refused = self.ask("POST", TICKETS, json_body={"audience": MATCH}, bearer=self.token)
        self.assertEqual((refused.status, refused.json["code"]), (403, "player_blocked"))
        gamed(self.service, "players", "unblock", "anna")
        self.assertTrue(self.introspect(ticket).json["active"])

    def test_off(self) -> None:
        """After a restart without audiences each route answers that tickets are off, and no old ticket is valid."""
        ticket = self.ticket()
        self.service.terminate()
        self.service.environ.pop("GAMED_MATCH_SECRET")
        self.service.configure({"mode": "local"})
        self.service.start()
        answers = [
            self.ask("POST", TICKETS, json_body={"audience": MATCH}, bearer=self.token),
            self.ask("GET", KEYS),
            self.introspect(ticket),
            self.introspect(ticket, CHECK),
        ]
        self.assertEqual([(each.status, each.json["code"]) for each in answers], [(403, "tickets_off")] * 4)
        self.assertEqual(self.ask("GET", "/game/", bearer=self.token).status, 200)
