"""Waits for changes at the real service: a command on the host and the end of a session or the service end them."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import sleep

from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import CONFIG, Keeper, gamed, write_game
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.support.folders import unused_path

SETTLED_SECONDS = 1.5
"""After this time since a wait began the service has read both files."""
WAIT_SECONDS, SOON_SECONDS = 60, 40
"""A wait that only a change ends, and a much shorter time."""


class Waits(SynchronousTestCase):
    def setUp(self) -> None:
        self.service = Service(unused_path(self), CONFIG)
        self.addCleanup(self.service.close)
        write_game(self.service, wait_seconds=WAIT_SECONDS)
        self.service.start()
        self.keeper = Keeper(self.service)
        self.keeper.put("auto", b"one")
        self.keeper.put("auto", b"two", If_Match="*")
        self.cursor = self.keeper.ask("GET", "").json["cursor"]
        self.pool = ThreadPoolExecutor()
        self.addCleanup(self.pool.shutdown)

    def wait(self) -> "Future[Answer]":
        """Send a request; it waits when this returns."""
        sent, how = Event(), {"Prefer": f"wait={WAIT_SECONDS}"}
        waiting = self.pool.submit(self.keeper.ask, "GET", f"?since={self.cursor}", sent=sent.set, **how)
        self.assertTrue(sent.wait(SOON_SECONDS))
        for _ in range(2):
            self.keeper.ask("GET", "")
        self.assertFalse(waiting.done())
        return waiting

    def test_command(self) -> None:
        """A change by a command ends the wait; a change to another player's saves does not."""
        [player] = [each["id"] for each in json.loads(gamed(self.service, "players", "list", "--json"))]
        waiting = self.wait()
        gamed(self.service, "players", "add", "other", "--password-stdin", stdin="correct horse\n")
        sleep(SETTLED_SECONDS)
        self.assertFalse(waiting.done())
        gamed(self.service, "saves", "restore", player, "auto", "1")
        answer = waiting.result(SOON_SECONDS)
        self.assertEqual([save["version"] for save in answer.json["saves"]], [3])
        self.assertEqual(answer.headers["preference-applied"], f"wait={WAIT_SECONDS}")

    def test_session_ends(self) -> None:
        """A session ended by a command ends its waits with 401."""
        waiting = self.wait()
        gamed(self.service, "sessions", "revoke", "keeper")
        answer = waiting.result(SOON_SECONDS)
        self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))

    def test_sign_out(self) -> None:
        """A sign-out ends the waits of its session with 401."""
        waiting = self.wait()
        answer = ask(self.service.port, "POST", "/auth/session/logout", json_body={}, bearer=self.keeper.token)
        self.assertEqual(answer.status, 204)
        self.assertEqual(waiting.result(SOON_SECONDS).status, 401)

    def test_service_ends(self) -> None:
        """On SIGTERM, waiting requests are answered with an empty change list before the server stops."""
        waiting = self.wait()
        self.assertEqual(self.service.terminate(), 0)
        answer = waiting.result(SOON_SECONDS)
        self.assertEqual((answer.status, answer.json), (200, {"cursor": self.cursor, "saves": []}))
