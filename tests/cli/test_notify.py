"""Messages to the owner from whole processes: `gamed notify test`, and servers beside webhooks of every kind."""

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from threading import Event, Thread
from typing import Any

from gamed.clock import now_ms
from gamed.config.settings import Intervals
from gamed.database.connection import Connection
from gamed.players.tables import create_player
from tests.cli.process import WAIT_SECONDS, CommandTestCase
from tests.e2e.service import gamed_with
from tests.support import forks
from tests.support.ports import free_port

QUICK = Intervals(cleanup_seconds=1)
NAME = "GAMED_NOTIFY_URL"
SECTION = {"url_env": NAME, "format": "json"}
CALM_SECONDS = 3
"""So long a test watches that no further message comes: three times as often as the server looks."""
FULL = {"min_free_bytes": "1 TiB"}
WRITES = 40
SLOWER = 5
"""So many times slower the median may be on a busy machine; a server that waited would be a thousand times slower."""


class Chat:
    """A webhook in threads of this process."""

    def __init__(self, test: CommandTestCase) -> None:
        self.messages: list[dict[str, Any]] = []
        self.requests = 0
        self.answer: Callable[[BaseHTTPRequestHandler], None] = accept
        self.closed = Event()
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                chat.requests += 1
                body = self.rfile.read(int(self.headers["Content-Length"]))
                chat.answer(self)
                if chat.answer is accept:
                    chat.messages.append(json.loads(body))

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hush-hush"
        test.addCleanup(self._close)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer nothing until the test ends."""
        self.closed.wait(WAIT_SECONDS)
        handler.close_connection = True

    def flood(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer with content that does not end."""
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(4096):
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass

    def wait_for(self, count: int) -> list[str]:
        """Return the texts of the first messages; raise AssertionError if they do not come."""
        ends = time.monotonic() + WAIT_SECONDS
        while len(self.messages) < count and time.monotonic() < ends:
            time.sleep(0.02)
        assert len(self.messages) >= count, self.messages
        return [each["text"] for each in self.messages]

    def wait_for_request(self, before: int) -> None:
        """Wait until there were more requests than before; raise AssertionError if none comes."""
        ends = time.monotonic() + WAIT_SECONDS
        while self.requests == before and time.monotonic() < ends:
            time.sleep(0.01)
        assert self.requests > before

    def _close(self) -> None:
        self.closed.set()
        self.server.shutdown()
        self.server.server_close()


def accept(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(204)
    handler.end_headers()


def answer_with(status: int, **fields: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return an answer with this status; an underscore in a field's name is a hyphen."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in fields.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return answer


def add_waiting(connection: Connection) -> None:
    """Insert a player who has waited for approval for a day; after 30 the server would delete the request."""
    create_player(connection, "ply_waiting", now_ms() - 86_400_000, "pending", "482917")


def forget_sent(connection: Connection) -> None:
    """Delete what was sent, so that it is due again."""
    connection.execute("DELETE FROM security_event WHERE event = 'owner_notified'")


class NotifyCase(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.running: list[forks.Process] = []
        self.chat = Chat(self)
        self.environ[NAME] = self.chat.url
        self.write_config({"mode": "local", "server_name": "Garden", "notify": SECTION})

    def serve_quickly(self, *options: str) -> int:
        """Start a server that looks once a second; return its port. All servers write to one log."""
        port = free_port()
        command = [*gamed_with(QUICK), "serve", *self.places, f"--listen=tcp:{port}:interface=127.0.0.1", *options]
        with open(self.folder / "out", "a", encoding="utf-8") as out:
            process = forks.popen(command, stdout=out, stderr=out, **self._surroundings())
        self.running.append(process)
        self.addCleanup(self.end_all)
        self.await_answer(port, process)
        return port

    def end_all(self) -> None:
        """Stop the servers of this test."""
        while self.running:
            self.assertEqual(self.stop(self.running.pop()), 0)


class CommandTests(NotifyCase):
    def test_sent(self) -> None:
        """One message arrives, and the command says so; it needs no data folder and no key."""
        self.assertEqual(self.gamed("notify", "test"), (0, "The webhook accepted the message (format json).\n", ""))
        code, out, _ = self.gamed("notify", "test", "--json")
        self.assertEqual((code, json.loads(out)), (0, {"sent": True, "format": "json"}))
        shown = {(each["server"], each["text"].partition(".")[0]) for each in self.chat.messages}
        self.assertEqual(shown, {("Garden", "This is a test")})
        self.assertFalse(self.data.exists())

    def test_not_accepted(self) -> None:
        """A webhook that refuses is named with its status in a sentence, and the exit code is 1."""
        for answer, shown in (
            (answer_with(404), "answered 404"),
            (answer_with(302, Location=self.chat.url), "redirects (302), which is never followed"),
            (answer_with(429, Retry_After="60"), "answered 429"),
        ):
            self.chat.answer = answer
            code, out, err = self.gamed("notify", "test")
            text = f"gamed: The message was not accepted: notify: {shown}. Check the URL and the format.\n"
            self.assertEqual((code, out, err), (1, "", text))

    def test_not_set_up(self) -> None:
        """Without notify, or without its variable, the exit code is 78, with the place of the error."""
        del self.environ[NAME]
        code, _, err = self.gamed("notify", "test")
        self.assertEqual(code, 78)
        self.assertIn(f"notify.url_env: {NAME} is not set", err)
        self.write_config({"mode": "local"})
        code, _, err = self.gamed("notify", "test")
        self.assertEqual((code, "has no notify" in err), (78, True))

    def test_checked(self) -> None:
        """`check config` and `doctor` name the format; a missing variable is a problem of doctor's."""
        code, out, _ = self.gamed("check", "config")
        self.assertEqual((code, "notify json, without names of players\n" in out, "hush" in out), (0, True, False))
        _, out, _ = self.gamed("doctor")
        self.assertIn("notify: messages to the owner go out in the format json; gamed notify test sends one", out)
        del self.environ[NAME]
        code, out, err = self.gamed("doctor")
        self.assertEqual((code, f"notify.url_env: {NAME} is not set" in out), (78, True), err)
        self.assertIn("disk:", out)


class ServerTests(NotifyCase):
    def write_game(self, members: dict[str, object]) -> None:
        self.config.with_name("game.json").write_text(json.dumps(members))

    def test_disk(self) -> None:
        """A start below min_free_bytes is logged, and sent once, also after a restart; so is the room afterwards."""
        self.write_game(FULL)
        self.serve_quickly()
        [text] = self.chat.wait_for(1)
        self.assertTrue(text.startswith("The disk of this server has less than 1 TiB free"), text)
        self.await_output(" state=bad\n")  # kept and logged after the webhook has answered
        self.assertRegex(self.output(), r"disk_nearly_full machine=\S+ free_bytes=[0-9]+ min_free_bytes=1099511627776")
        self.assertRegex(self.output(), r"owner_notified about=disk\S* state=bad\n")
        self.end_all()
        self.serve_quickly()
        time.sleep(CALM_SECONDS)
        self.assertEqual(len(self.chat.messages), 1)
        self.end_all()
        self.write_game({"min_free_bytes": 0})
        self.serve_quickly()
        self.assertEqual(self.chat.wait_for(2)[1], "The disk of this server has room again, and saves are stored.")
        self.assertNotIn("hush", self.output())

    def test_processes(self) -> None:
        """One of three servers on one data folder sends; each of them logs what it noticed."""
        self.write_game(FULL)
        for _ in range(3):
            self.serve_quickly("--share")
        self.chat.wait_for(1)
        time.sleep(CALM_SECONDS)
        self.assertEqual(len(self.chat.messages), 1)
        self.assertEqual(self.output().count("disk_nearly_full"), 3)

    def test_waiting(self) -> None:
        """A player who waits is reported without name and code."""
        self.write_config({**json.loads(self.config.read_text()), "login": {"registration": "approval"}})
        self.serve_quickly()
        self.run_transaction("auth", add_waiting)
        [text] = self.chat.wait_for(1)
        self.assertEqual(text, "1 player waits for your approval. To see them, run: gamed players list --pending")

    def test_unwell_webhooks(self) -> None:
        """Beside a webhook that hangs, floods, redirects or asks to wait, sign-ins and saves are as fast as ever."""
        self.write_game({"writes_per_minute": 0})
        self.write_config(
            {**json.loads(self.config.read_text()), "limits": {"starts_per_minute": 0, "live_logins_per_address": 0}}
        )
        medians: dict[str, float] = {}
        for name, answer in (
            ("well", accept),
            ("hangs", self.chat.hang),
            ("floods", self.chat.flood),
            ("redirects", answer_with(302, Location=self.chat.url)),
            ("asks to wait", answer_with(429, Retry_After="3600")),
        ):
            self.chat.answer = answer
            if name != "well":
                self.run_transaction("auth", forget_sent)
            before = self.chat.requests
            port = self.serve_quickly()
            if name == "well":
                added = self.gamed("players", "add", "anna", "--password-stdin", stdin="twelve letters\n")
                self.assertEqual(added[0], 0)
                self.run_transaction("auth", add_waiting)
            code, out, err = self.gamed("players", "token", "anna", "--json")
            self.assertEqual(code, 0, err)
            token = json.loads(out)["access_token"]
            self.chat.wait_for_request(before)
            medians[name] = median(self.write(port, token, number) for number in range(WRITES))
            medians[f"{name}, sign-in"] = median(self.start_login(port) for _ in range(WRITES))
            began = time.monotonic()
            self.end_all()
            self.assertLess(time.monotonic() - began, WAIT_SECONDS / 2, name)
        for name, seconds in medians.items():
            usual = medians["well, sign-in" if name.endswith("sign-in") else "well"]
            self.assertLess(seconds, SLOWER * usual + 0.02, medians)
        self.assertNotIn("Traceback", self.output())

    def write(self, port: int, token: str, number: int) -> float:
        """Return the seconds that one save takes."""
        return self.timed(port, "PUT", f"/game/saves/s{number}", b"x" * 1000, {"Authorization": f"Bearer {token}"})

    def start_login(self, port: int) -> float:
        return self.timed(port, "POST", "/auth/login", b"{}", {"Content-Type": "application/json"})

    def timed(self, port: int, method: str, path: str, body: bytes, fields: dict[str, str]) -> float:
        connection = HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        began = time.monotonic()
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
        answer.read()
        self.assertIn(answer.status, (200, 201, 204))
        connection.close()
        return time.monotonic() - began
