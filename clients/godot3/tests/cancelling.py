"""Ends of waits by a cancel or a close, in both versions of the engine: here, and at the server."""

from collections.abc import Mapping
from typing import Any

from clients.conformance.tests.helpers import ConformanceCase, Scenario, World, lender, run

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
FILES = {"big.pck": {"$repeat": ["0123456789abcdef", 25000]}}


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
