"""Games of the walk: a process in the language of each client, and a person at the browser."""

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clients.conformance.tests.helpers import CLIENTS  # also lets gamed_conformance be found

# isort: split
from gamed_conformance.driver import CommandFailed, Driver

from tests.e2e.chromium import Window
from tests.support.nodejs import NODE
from tests.walk.checks import expect, until

PYTHON = [sys.executable, str(CLIENTS / "conformance" / "drivers" / "python_driver.py")]
JAVASCRIPT = [NODE, str(CLIENTS / "js" / "driver.mjs")]
NAME, SIGNED_OUT = "game", "signed_out"
LINES = 12


class Game:
    """A game on one device, over the driver of its client; `start` and all that follows from it are the client's."""

    def __init__(self, command: Sequence[str], server: str, folder: Path) -> None:
        self._driver = Driver(command)
        self.language, self.folder = self._driver.language, folder
        self.do("open", server=server, folder=str(folder), app="walk", pauses=0.1, device_name=self.language)

    def do(self, command: str, **arguments: Any) -> Any:
        """Let the client do something; return what it answers."""
        return self._driver.call(command, client=NAME, **arguments)

    def at_browser(self, command: str, *steps: Callable[[Window], object], **arguments: Any) -> Any:
        """Do something for which the client opens a browser, where the person performs these steps."""
        pending = self._driver.send(command, client=NAME, **arguments)
        window = Window()
        try:
            window.open(self._driver.event("open", NAME)["url"])
            for step in steps:
                step(window)
            return pending.result()
        finally:
            window.close()

    def begin(self) -> None:
        """Open the player's saves, start the client's own loop, and wait until it has the server's list."""
        self.do("sync_open")
        self.start()
        expect(f"whether the {self.language} game is ready", {"ready": True}, self.do("sync_ready", within=60))

    def start(self) -> None:
        """Start the client's own loop, or start it again."""
        self.do("sync_start")

    def write(self, slot: str, data: bytes) -> None:
        self.do("sync_write", slot=slot, data=b64encode(data).decode())

    def read(self, slot: str) -> bytes | str | None:
        """Return the bytes that the client has, None if there are none, or the code of its error."""
        try:
            found = self.do("sync_read", slot=slot)
        except CommandFailed as e:
            return str(e.error["code"])
        return None if found is None else b64decode(found["data"])

    def await_read(self, slot: str, data: bytes) -> None:
        """Wait until the client's loop has brought these bytes of another device."""
        until(f"{slot} in the {self.language} game", data, lambda: self.read(slot))

    def await_sent(self, slot: str) -> None:
        """Wait until the client's loop has sent what the game wrote."""
        until(f"the state of {slot} in the {self.language} game", "in_step", lambda: self._state(slot))

    def await_signed_out(self) -> None:
        """Wait until the end of the session has ended the client's loop."""
        until(f"the trouble of the {self.language} game", SIGNED_OUT, self._trouble)

    def expect_unsent(self, slot: str) -> None:
        expect(f"the state of {slot} in the {self.language} game", "waiting", self._state(slot))

    def said(self) -> str:
        """Return the last lines that its driver wrote."""
        return "\n".join(self._driver.said().splitlines()[-LINES:])

    def close(self) -> None:
        self._driver.close()

    def _trouble(self) -> str | None:
        code = self.do("sync_trouble")["code"]
        return SIGNED_OUT if code == "session_revoked" else code  # a request and the next one

    def _state(self, slot: str) -> str:
        return str(self.do("sync_status", slot=slot)["state"])
