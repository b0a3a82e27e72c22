"""The reference client in Python, and its asyncio face, keep the rules (PROTOCOL 1: Rules for clients)."""

import sys
from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase

DRIVERS = CLIENTS / "conformance" / "drivers"


class Python(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(DRIVERS / "python_driver.py")]


class PythonAsyncio(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(DRIVERS / "asyncio_driver.py")]
