"""A real service refreshes for thirty clients at once, and after kill -9 between commit and response.

See docs/protocol.md: Sessions.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gamed.database.connection import AUTH
from tests.cli.process import WAIT_SECONDS, CommandTestCase, free_port, get
from tests.cli.test_people import send

DYING = (sys.executable, "-m", "tests.sessions.dying_server")


class KilledTests(CommandTestCase):
    def sessions(self) -> list[tuple[int, int]]:
        return self.rows(AUTH, "SELECT generation, used FROM session")

    def token(self) -> dict[str, Any]:
        self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")
        answer: dict[str, Any] = json.loads(self.gamed("players", "token", "anna", "--json")[1])
        return answer

    def test_thirty_at_once(self) -> None:
        """30 requests with one credential over 30 connections: one rotation, 30 equal answers."""
        process, port = self.serve()
        body = {"refresh_credential": self.token()["refresh_credential"]}
        with ThreadPoolExecutor(30) as threads:
            asked = [threads.submit(send, port, "POST", "/auth/session/refresh", body=body) for _ in range(30)]
            answers = [each.result() for each in asked]
        self.assertEqual({status for status, _ in answers}, {200})
        for name in ("access_token", "refresh_credential", "session_id"):
            self.assertEqual(len({answer[name] for _, answer in answers}), 1)
        self.assertEqual(self.sessions(), [(2, 0)])
        self.stop(process)

    def test_lost_answer(self) -> None:
        """A process that dies before its response is replaced by one that returns the same successor, not a reuse.

        The credential does not fork, however often it is sent before the successor is used.
        """
        port = free_port()
        process = self.start(*DYING, *self.places, "serve", f"--listen=tcp:{port}:interface=127.0.0.1")
        self.await_answer(port, process)
        held = self.token()
        body = {"refresh_credential": held["refresh_credential"]}
        with self.assertRaises(OSError):
            send(port, "POST", "/auth/session/refresh", body=body)
        self.assertEqual(process.wait(WAIT_SECONDS), -9)
        self.assertEqual(self.sessions(), [(2, 0)])
        process, port = self.serve()
        answers = [send(port, "POST", "/auth/session/refresh", body=body) for _ in range(2)]
        self.assertEqual([status for status, _ in answers], [200, 200])
        credentials = {answer["refresh_credential"] for _, answer in answers}
        self.assertEqual(len(credentials), 1)
        self.assertEqual(get(port, "/auth/sessions", answers[0][1]["access_token"])[0], 200)
        self.assertEqual(self.sessions(), [(2, 1)])
        self.stop(process)
