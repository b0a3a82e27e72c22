"""Each row is a path, the servers that it is compared with, and the wanted ratios."""

from collections.abc import Mapping

from msgspec import Struct

from bench.references.pocketbase import RECORDS
from bench.wrk import Load

SAVE = "/game/saves/auto"
OK = "/healthz"
REFRESH = "/auth/session/refresh"


class Side(Struct, frozen=True):
    """A contender of a row: a server by its letter (`G` is gamed), and its load."""

    server: str
    load: Load


class Row(Struct, frozen=True):
    """A measured path; `wanted` is the least ratio of gamed's rate to that of each contender.

    `wanted_by_cpu` is the same for the processor time of the contender for each request to that of gamed.
    """

    name: str
    load: Load
    others: Mapping[str, Side]
    wanted: Mapping[str, float]
    server: str = "G"
    note: str = ""
    wanted_by_cpu: Mapping[str, float] = {}


def _against_k(connections: int = 16) -> dict[str, Side]:
    return {"K": Side("K", Load("plain", OK, connections))}


def _reads() -> dict[str, Side]:
    return {name: Side(name, Load("read", SAVE)) for name in ("N", "D")}


def _peers(load: Load, kind: str = "") -> dict[str, Side]:
    """Return the same load for each peer; `kind` is that of PocketBase, which is left out without one.

    N1 reads as NG does, so that it only writes.
    """
    found = {name: Side(name, load) for name in ("N1", "NG", "F") if load.kind != "read" or name != "N1"}
    if kind:
        found["P"] = Side("P", Load(kind, RECORDS, load.connections))
    return found


def _asset(name: str, file: str, wanted: float, *header: str) -> Row:
    """Return a row for the same file of gamed and of nginx, which has it as `/{file}`."""
    own = Load("plain", f"/assets/stable/{file}", more=header)
    return Row(name, own, {"X": Side("X", Load("plain", f"/{file}", more=header))}, {"X": wanted})


PART = ("Range", "bytes=65536-131071")
ETAG = "If-None-Match"
"""The value is the entity-tag that the server itself sends."""
ROWS = (
    Row("healthz", Load("plain", OK), _against_k(), {"K": 2.5}),
    Row("config", Load("plain", "/auth/config"), _against_k(), {"K": 2.5}),
    Row("read", Load("read", SAVE), _against_k() | _reads(), {"K": 1.0, "N": 3.0, "D": 0.9}),
    Row("read-304", Load("known", SAVE), {"read": Side("G", Load("read", SAVE))}, {"read": 1.0}),
    Row("put-1", Load("write", SAVE, 1), {"W1": Side("W1", Load("write", SAVE, 1))}, {"W1": 0.9}),
    Row("put-16", Load("write", SAVE, 16), _against_k(), {"K": 0.35}),
    Row(
        "put-64",
        Load("write", SAVE, 64),
        _against_k(64) | {"W1": Side("W1", Load("write", SAVE, 64))},
        {"K": 0.35, "W1": 2.5},
    ),
    Row(
        "put-64-slow",
        Load("write", SAVE, 64),
        {"W1": Side("W1-slow", Load("write", SAVE, 64))},
        {"W1": 6.0},
        server="G-slow",
        note="each flush 2 ms longer",
    ),
    Row("refresh", Load("refresh", REFRESH), _against_k(), {"K": 0.4}),
    Row(
        "refresh-100k",
        Load("refresh", REFRESH),
        {"100": Side("G-100", Load("refresh", REFRESH))},
        {"100": 0.87},
        server="G-100k",
        note="among 100,000 live tokens",
        wanted_by_cpu={"100": 0.87},
    ),
    Row(
        "ticket",
        Load("ticket", "/auth/tickets"),
        {"refresh": Side("G-tickets", Load("refresh", REFRESH))},
        {},
        server="G-tickets",
    ),
    Row("login", Load("login", "/auth/login"), _against_k(), {"K": 0.4}),
    Row("log", Load("read", SAVE), {"quiet": Side("quiet", Load("read", SAVE))}, {"quiet": 0.85}, server="G-admin"),
    Row("affinity-read", Load("read", SAVE), {"free": Side("G-free", Load("read", SAVE))}, {}),
    Row("affinity-put", Load("write", SAVE, 16), {"free": Side("G-free", Load("write", SAVE, 16))}, {}),
    _asset("asset-1m", "large.bin", 0.9),
    _asset("asset-64k", "large.bin", 0.3, *PART),
    _asset("asset-304", "large.bin", 0.3, ETAG),
    _asset("asset-4k", "small.bin", 0.3),
)
PEER_ROWS = (
    Row("peers-read", Load("read", SAVE), _peers(Load("read", SAVE), "record"), {}),
    Row(
        "peers-put-1",
        Load("write", SAVE, 1),
        _peers(Load("write", SAVE, 1), "patch"),
        {},
        wanted_by_cpu={"NG": 0.6},
    ),
    Row(
        "peers-put-16",
        Load("write", SAVE, 16),
        _peers(Load("write", SAVE, 16), "patch"),
        {"NG": 0.75},
        wanted_by_cpu={"NG": 0.8},
    ),
    Row(
        "peers-put-64",
        Load("write", SAVE, 64),
        _peers(Load("write", SAVE, 64), "patch"),
        {"NG": 1.0},
        wanted_by_cpu={"NG": 1.0},
    ),
    Row("peers-refresh", Load("refresh", REFRESH), _peers(Load("refresh", REFRESH)), {}, wanted_by_cpu={"NG": 1.4}),
)
"""The rows of `--peers`: whole servers that do the same work."""
