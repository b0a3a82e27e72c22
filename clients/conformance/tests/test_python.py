"""The reference client in Python, and its asyncio face, keep the rules (docs/protocol.md: Rules for clients)."""

import sys
from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase

DRIVERS = CLIENTS / "conformance" / "drivers"


class Python(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(DRIVERS / "python_driver.py")]


class PythonAsyncio(ConformanceCase):
    """The face calls the client above, so a few scenarios show that it passes all arguments and results on."""

    few = (
        "account_nonsense",
        "assets_download",
        "cancel_*",
        "commit",
        "delete_player",
        "ensure_*",
        "export",
        "identities_*",
        "loop_*",
        "other_player*",
        "pages_*",
        "put_*",
        "return_uri*",
        "save_and_load",
        "session_[fks]*",
        "sign_in_[bcds]*",
        "sync_[fkmp]*",
        "ticket",
        "waiting",
        "walk_*",
    )

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [sys.executable, str(DRIVERS / "asyncio_driver.py")]
