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
        "addresses",
        "assets_download",
        "assets_resume",
        "assets_troubles",
        "blank_and_big",
        "bounded",
        "bytes",
        "cancel_*",
        "export",
        "export_interrupted",
        "headers",
        "https_is_tls",
        "loop_closed",
        "loop_run",
        "loop_server_away",
        "loop_stop_at_once",
        "loop_wait_ends",
        "loop_wait_refused",
        "no_server",
        "patience",
        "policy",
        "put_lost_answer",
        "redirects",
        "retry_after",
        "save_and_load",
        "server_killed",
        "session_lost_refresh",
        "sign_in_by_loopback",
        "sign_in_cancelled",
        "sign_in_lost_answers",
        "sign_out_scope",
        "sync_in_use",
        "sync_keep_mine",
        "sync_refused",
        "sync_server_killed",
        "unknown_codes",
        "waiting",
    )
    """Where HttpClient, typed values, time-outs, a cancel, an end or an error could make a difference."""

    @classmethod
    def driver(cls) -> Sequence[str]:
        return [tool("mono"), str(built("DriverToday", CSHARP / "Driver.cs", today=True))]
