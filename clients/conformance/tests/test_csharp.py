"""The C# client, compiled and run by mono, keeps the rules (docs/protocol.md: Rules for clients)."""

from collections.abc import Sequence

from clients.conformance.tests.helpers import ConformanceCase
from clients.csharp.tests.building import CSHARP, built, tool


class CSharp(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [tool("mono"), str(built("Driver", CSHARP / "Driver.cs"))]
