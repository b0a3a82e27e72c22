"""The C# client, compiled and run by mono, keeps the rules (docs/protocol.md: Rules for clients)."""

from collections.abc import Sequence

from clients.conformance.tests.helpers import ConformanceCase
from clients.csharp.tests.building import CSHARP, built, tool


class CSharp(ConformanceCase):
    @classmethod
    def driver(cls) -> Sequence[str]:
        return [tool("mono"), str(built("Driver", CSHARP / "Driver.cs"))]


class Today(ConformanceCase):
    """The face for today's .NET, with HttpClient."""

    few = (
        "sign_in*",
        "loop*",
        "session*",
        "sync*",
        "write*",
        "put*",
        "assets*",
        "export*",
        "addresses",
        "bounded",
        "headers",
        "https_is_tls",
        "no_server",
        "patience",
        "policy",
        "redirects",
        "sign_out_scope",
        "waiting",
    )

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [tool("mono"), str(built("DriverToday", CSHARP / "Driver.cs", today=True))]
