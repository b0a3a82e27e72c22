"""Ends of waits by a cancel or a close, in both versions of the engine: here, and at the server."""

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase, Scenario, World, lender, run
from clients.godot3.tests import scripts
from tests.support.folders import unused_path

from gamed_conformance.fake_server import FakeServer, Rule  # isort: skip  (the helpers set its path)

CANCELLED: Mapping[str, Any] = {"kind": "Cancelled", "code": "cancelled"}
CLOSED: Mapping[str, Any] = {"kind": "Unreachable", "code": "closed"}
SIGNED_IN: list[Mapping[str, Any]] = [
    {"player": "anna"},
    {"session": "first", "of": "anna"},
    {"enter": "${first}", "open": {}},
]
WAITS: list[Mapping[str, Any]] = [
    {"do": "changes", "keep": "seen"},
    {"rules": [{"on": "GET /game/saves?since=*", "hold": "change"}]},
    {"start": "changes", "since": "${seen.cursor}", "wait": 25, "cancellable": True},
    {"await": "GET /game/saves?since=*"},
]
GIVEN_UP: Mapping[str, Any] = {"given_up": "GET /game/saves?since=*", "within": 5}
REFRESH = "POST /auth/session/refresh"
LONG_PAUSES: Mapping[str, Any] = {"do": "open", "pauses": 100}
LIMIT_SECONDS = 60
STARTED = {
    "login_id": "lgn_ends",
    "device_secret": "gds_a-secret-only-for-this-test-xxxxxxxxxxx",
    "return_proof": "loopback_or_code",
    "expires_in": 600,
    "expires_at": "2040-01-01T00:00:00.000Z",
}
FILES = {"big.pck": {"$repeat": ["0123456789abcdef", 25000]}}


def played(case: type[ConformanceCase], name: str, **environ: str) -> list[str]:
    """Run a game of the specimens in the engine of this driver until it ends; return its output."""
    *command, _script = case.driver()
    version = "godot4" if str(CLIENTS / "godot4") in command else "godot3"
    ran = subprocess.run(
        [*command, str(scripts.game(version, name))],
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return ran.stdout.splitlines()


def received(listener: socket.socket) -> bytes:
    """Accept the waiting connections, and those that follow within two seconds; return what they send."""
    found = b""
    listener.settimeout(2)
    with suppress(TimeoutError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(2)
                found += connection.recv(1000)
    return found


class Cancelling:
    """A mixin for both versions of the engine: a case with the driver."""

    case: type[ConformanceCase]

    def perform(self, about: str, *steps: Mapping[str, Any]) -> None:
        world = World(self.case.driver(), lender=lender())
        self.addCleanup(world.close)
        run(world, Scenario("cancel", {"about": about, "real": True, "steps": [*SIGNED_IN, *steps]}))

    def test_long_wait(self) -> None:
        """A cancel ends the wait for changes here and at the server; other calls of the client go on."""
        self.perform(
            "A wait for changes is cancelled.",
            *WAITS,
            {"do": "cancel"},
            {"finish": "changes", "error": CANCELLED},
            GIVEN_UP,
            {"rules": [], "instead": True},
            {"do": "list_saves", "expect": {"saves": []}},
        )

    def test_close(self) -> None:
        """A close of the client does so, too."""
        self.perform(
            "The client is closed while it waits for changes.",
            *WAITS,
            {"do": "close"},
            {"finish": "changes", "error": CLOSED},
            GIVEN_UP,
        )

    def test_pause(self) -> None:
        """A cancel ends a pause before another try, and nothing is sent after it."""
        busy = {"status": 503, "problem": "busy", "headers": {"Retry-After": "20"}}
        self.perform(
            "A pause is cancelled.",
            {"rules": [{"on": "GET /game/saves*", "answer": busy}]},
            {"enter": "${first}", "open": {"pauses": 100}},
            {"start": "changes", "cancellable": True},
            {"await": "GET /game/saves*"},
            {"sleep": 0.3},
            {"do": "cancel"},
            {"finish": "changes", "error": CANCELLED, "within": 10},
            {"requests": "GET /game/saves*", "count": 1},
        )

    def test_download(self) -> None:
        """A cancelled download leaves the release that was there, and the next one continues."""
        self.perform(
            "A download is cancelled.",
            {"publish": FILES, "keep": "new"},
            {"rules": [{"on": "GET /assets/*/*", "times": 1, "hold": "bytes"}]},
            {"start": "download", "channel": "stable", "target": "${folder}/files", "cancellable": True},
            {"await": "GET /assets/*/*"},
            {"do": "cancel"},
            {"finish": "download", "error": CANCELLED},
            {"given_up": "GET /assets/*/*", "within": 5},
            {"file": "${folder}/files.releases/current", "text": None},
            {"do": "download", "channel": "stable", "target": "${folder}/files", "expect": {"release": "${new}"}},
            {"file": "${folder}/files/big.pck", "text": FILES["big.pck"]},
        )

    def test_while_connecting(self) -> None:
        """A cancel ends a call whose connection is not there yet, and nothing is sent when it could be."""
        with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for other in (first, second):  # the queue of connections is full then, and the system answers no more
                other.setblocking(False)
                other.connect_ex(listener.getsockname())
            server = f"http://127.0.0.1:{listener.getsockname()[1]}"
            began = time.monotonic()
            self.perform(
                "A call is cancelled while it connects.",
                {"do": "open", "server": server, "timeout_seconds": 2 * LIMIT_SECONDS},
                {"start": "download", "channel": "stable", "target": "${folder}/files", "cancellable": True},
                {"sleep": 0.5},
                {"do": "cancel"},
                {"finish": "download", "error": CANCELLED},
            )
            self.assertLess(time.monotonic() - began, LIMIT_SECONDS / 4)
            first.close()
            second.close()
            self.assertEqual(received(listener), b"")

    def test_refresh(self) -> None:
        """A cancel ends a refresh of the token, and the next call has a pair that works."""
        self.perform(
            "A refresh is cancelled before the server has it.",
            {"do": "clock", "shift": 100_000},
            {"rules": [{"on": REFRESH, "hold": "refresh"}]},
            {"start": "changes", "cancellable": True},
            {"await": REFRESH},
            {"do": "cancel"},
            {"finish": "changes", "error": CANCELLED, "within": 3},
            {"rules": [], "instead": True},
            {"do": "list_saves", "expect": {"saves": []}},
        )

    def test_refresh_lost(self) -> None:
        """The same after the server has made a new pair, whose answer is lost."""
        self.perform(
            "A refresh is cancelled after the server has carried it out.",
            LONG_PAUSES,
            {"do": "clock", "shift": 100_000},
            {"rules": [{"on": REFRESH, "times": 1, "lose": "answer"}]},
            {"start": "changes", "cancellable": True},
            {"await": REFRESH},
            {"sleep": 0.5},
            {"do": "cancel"},
            {"finish": "changes", "error": CANCELLED, "within": 3},
            {"do": "list_saves", "expect": {"saves": []}},
            {"requests": REFRESH, "count": 2},
        )

    def test_ends(self) -> None:
        """A cancelled or closed client sends nothing but the end of a session or a sign-in. A cancelled one changes
        nothing without the lock."""
        server = FakeServer()
        self.addCleanup(server.close)
        login = {**STARTED, "login_url": f"{server.origin}/auth/login/AAAAAAAAAAAAAAAAAAAAAA"}
        login["poll"] = {"url": f"{server.origin}/auth/login/collect", "max_wait": 25, "min_interval": 1}
        answers = {
            "GET /auth/config": {"json": {"mode": "local", "providers": []}},
            "GET /auth/providers": {"json": {"providers": []}},
            "POST /auth/login": {"json": login, "status": 201},
            "POST /auth/login/cancel": {"status": 204},
            "POST /auth/session/logout": {"status": 204},
        }
        headers = {"Gamed-Protocol": "1.0"}
        server.rules = [Rule.of({"on": line, "answer": {"headers": headers, **how}}) for line, how in answers.items()]
        server.rules += [Rule.of({"on": line, "hold": "never"}) for line in ("POST /auth/login/collect", "GET /game/*")]
        said = played(self.case, "ends.gd", GAMED_SERVER=server.origin, GAMED_FOLDER=str(unused_path(self)))
        expected = [
            *(["older name: True"] * 4),
            "dropped ok",
            "kept ok",
            "first ok",
            "cancelled cancelled",
            "sign-out cancelled",
            "other ok",
            "sign-out without the lock cancelled",
            "run cancelled",
            "signed in: True",
            "closed closed",
            "last sign-out ok",
            "signed in: False",
            "sign-in closed",
        ]
        found = [line.partition(" ")[2] for line in said if line.startswith("ENDS ")]
        self.assertEqual([line.replace(": true", ": True").replace(": false", ": False") for line in found], expected)
        self.assertEqual([line for line in said if "res://" in line], [])
        self.assertEqual(len(server.requests("GET /auth/config")), 2)
        self.assertEqual(len(server.requests("POST /auth/session/logout")), 1)
        self.assertEqual(len(server.requests("POST /auth/login/cancel")), 1)
