"""The reference client in Python keeps the rules (PROTOCOL 1: Rules for clients)."""

import sys
from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase


class Python(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(CLIENTS / "conformance" / "drivers" / "python_driver.py")]
