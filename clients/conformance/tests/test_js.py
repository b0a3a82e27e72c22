"""The JavaScript client, in Node.js and in Chromium, keeps the rules (docs/protocol.md: Rules for clients)."""

import sys
from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase
from tests.support.nodejs import NODE


class JavaScript(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [NODE, str(CLIENTS / "js" / "driver.mjs")]


class JavaScriptInChromium(ConformanceCase):
    """The same client in a page: it uses IndexedDB, and the player types the code."""

    lacks = frozenset({"loopback"})

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(CLIENTS / "js" / "tests" / "chromium_driver.py")]
