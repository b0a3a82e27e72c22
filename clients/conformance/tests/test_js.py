"""The JavaScript client, run by Node.js, keeps the rules (PROTOCOL 1: Rules for clients)."""

from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase
from tests.support.nodejs import NODE


class JavaScript(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [NODE, str(CLIENTS / "js" / "driver.mjs")]
