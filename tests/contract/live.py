"""A live service with data for generated requests."""

import json
from collections.abc import Mapping
from hashlib import sha256
from html import unescape
from re import search

from msgspec import Struct
from msgspec.structs import asdict

from tests.assets.serving_fixtures import Folder
from tests.e2e.client import gamed
from tests.e2e.service import Service
from tests.e2e.wire import ask

OFF = (
    *("starts_per_minute", "live_logins_per_address", "entries_per_minute", "callbacks_per_minute"),
    *("refreshes_per_minute", "passwords_per_minute", "tickets_per_minute"),
)
CONFIG = {
    "mode": "local",
    "session": {"access_ttl": "24h"},
    "limits": dict.fromkeys(OFF, 0),
    "ticket_audiences": {"match.example": {"name": True, "owner": True, "secret_env": "GAMED_AUDIENCE"}},
}
AUDIENCE_SECRET = "audience-" * 4
"""The secret of the server that introspects tickets."""
ENVIRON = {"GAMED_AUDIENCE": AUDIENCE_SECRET}
GAME = {"writes_per_minute": 0, "wait_seconds": 1}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PLAYERS = ("token", "listing", "leaving", "erased", "anew")
PENDING = 40
"""Logins that wait for a browser; several, because collecting one too often is always 429."""


class Prepared(Struct, frozen=True):
    """Credentials of a service: access tokens of five players, device secrets of logins at every stage."""

    token: str
    listing: str
    leaving: str
    erased: str
    anew: str
    refresh: str
    """The refresh credential of the last player."""
    link: str
    """The token of a login link."""
    device: str
    devices: list[str]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def prepare(service: Service) -> Prepared:
    first = token_of(service, PLAYERS[0])
    fill(service, first)
    signed_in = [_sign_in(service, name) for name in PLAYERS[1:]]
    logins = [_start(service) for _ in range(PENDING)]
    link, devices = logins[0]["login_url"].rpartition("/")[2], [login["device_secret"] for login in logins]
    _post(service, "/auth/login/cancel", {}, devices[1])
    devices += [_ready(service), *(secret for secret, _ in signed_in)]
    tokens = [answer["access_token"] for _, answer in signed_in]
    return Prepared(first, *tokens, signed_in[-1][1]["refresh_credential"], link, devices[0], devices)


def token_of(service: Service, name: str) -> str:
    """Add a player as the operator does; return an access token."""
    gamed(service, "players", "add", name, "--password-stdin", stdin="correct horse\n")
    return json.loads(gamed(service, "players", "token", name, "--json"))["access_token"]


def fill(service: Service, token: str) -> None:
    """`auto` has a history and a conflict copy, `slot-1` was deleted, `stable` has a file; these are the document's
    examples."""
    Folder(service.data / "assets").publish("stable", {"readme.txt": b"test"})

    def put(slot: str, body: bytes, **headers: str) -> Mapping[str, object]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(service.port, "PUT", f"/game/saves/{slot}", body=body, bearer=token, headers=fields).json

    first = put("auto", b"level 1", If_None_Match="*")
    for level in range(2, 10):
        put("auto", f"level {level}".encode(), If_Match="*", Save_Meta='{"title":"Chapter 3"}')
    put("auto", b"another level", If_Match=str(first["etag"]))
    staged = b"test"
    path = f"/game/blobs/{sha256(staged).hexdigest()}"
    ask(service.port, "PUT", path, body=staged, bearer=token)
    put("slot-1", b"gone soon")
    ask(service.port, "DELETE", "/game/saves/slot-1", bearer=token, headers={"If-Match": "*"})


def _post(service: Service, path: str, body: Mapping[str, object], bearer: str | None = None) -> Mapping[str, str]:
    answer = ask(service.port, "POST", path, json_body=dict(body), bearer=bearer)
    return answer.json if answer.body else {}


def _start(service: Service) -> Mapping[str, str]:
    return _post(service, "/auth/login", {"client": {"name": "contract"}})


def _ready(service: Service) -> str:
    """Return the device secret of a login that its browser has finished."""
    login = _start(service)
    _code(service, login, "ready")
    return login["device_secret"]


def _sign_in(service: Service, name: str) -> tuple[str, Mapping[str, str]]:
    """Return the device secret of a collected login and the credentials of its player."""
    login = _start(service)
    answer = _post(service, "/auth/login/collect", {"finish_code": _code(service, login, name)}, login["device_secret"])
    ask(service.port, "GET", "/game/", bearer=answer["access_token"])
    return login["device_secret"], answer


def _code(service: Service, login: Mapping[str, str], name: str) -> str:
    """Create an account like a browser; return the finish code."""
    link = login["login_url"].removeprefix(service.base)
    page = ask(service.port, "GET", link)
    cookie = {"Cookie": page.headers["set-cookie"].partition(";")[0]}
    field = unescape(_found(r'name="form" value="([^"]+)"', page.body.decode()))
    form = f"form={field}&create=yes&name={name}&password=correct+horse"
    done = ask(service.port, "POST", f"{link}/local", body=form.encode(), headers={**cookie, **FORM})
    where = done.headers["location"].removeprefix(service.base)
    return _found("[A-Z]{3}-[A-Z]{3}", ask(service.port, "GET", where, headers=cookie).body.decode())


def _found(pattern: str, text: str) -> str:
    match = search(pattern, text)
    assert match is not None, text
    return match[match.re.groups]
