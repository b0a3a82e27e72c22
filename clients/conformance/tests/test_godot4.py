"""The client for Godot 4 keeps the rules (docs/protocol.md: Rules for clients), in the engine of a newer Debian."""

from collections.abc import Sequence

from clients.conformance.tests.helpers import CLIENTS, ConformanceCase
from clients.conformance.tests.test_godot3 import own_folders
from clients.godot4.tests.engine import godot4


class Godot4(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [*own_folders(), godot4(), "--headless", "--path", str(CLIENTS / "godot4"), "-s", "driver.gd"]
