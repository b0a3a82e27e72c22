"""Steps for the real server, for people in front of browsers, and for the files in the client's folder."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zipfile import BadZipFile, ZipFile

from .browser import Browser, fetched
from .fake_server import FakeServer, Rule
from .http_io import LIMIT_SECONDS, Answer
from .matching import Mismatch, expect
from .service import Service
from .world import World, signed_in

SIGN_IN = ("GET /auth/config", "POST /auth/login", "POST /auth/login/collect")


class Surroundings:
    """The parts of a ScenarioRun beside commands and rules."""

    world: World
    mode: str
    """The mode of the real server: `local` or `oauth`."""
    memory: dict[str, Any]
    connections: list[socket.socket]
    """Closed at the end."""

    @property
    def service(self) -> Service:
        """The real server, running."""
        return self.world.service(self.mode)

    def end(self, name: str) -> FakeServer:
        raise NotImplementedError

    def _do(self, do: str, step: dict[str, Any]) -> None:
        raise NotImplementedError

    def _keep(self, step: Mapping[str, Any], value: Any) -> None:
        if "keep" in step:
            self.memory[step["keep"]] = value

    def _forget_requests(self, what: bool, step: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- the real server, and people --

    def _service(self, what: str, step: dict[str, Any]) -> None:
        """Do this to the server; `revive` starts it once a rule has killed it."""
        if what in ("backup", "restore", "snapshot", "go_back", "replace"):
            getattr(self.service, what)()
            return
        service = self.service if what == "restart" else self.world.known_service(self.mode)
        if what == "revive" and service and not service.died.wait(LIMIT_SECONDS):
            raise Mismatch("no rule killed the server")
        if service and what in ("kill", "restart"):
            service.kill()
        if what != "kill":
            _ = self.service

    def _player(self, name: str, step: dict[str, Any]) -> None:
        self.memory[name] = self.world.player(self.mode)

    def _session(self, name: str, step: dict[str, Any]) -> None:
        """Sign in player `of` without the client; remember the answer of collect, to `enter` with or to `ask` as."""
        self.memory[name] = self.world.session(self.memory[step["of"]])

    def _enter(self, session: dict[str, Any], step: dict[str, Any]) -> None:
        """Sign in the client; the fake server replaces the server and returns `session`."""
        end = self.end(step.get("end", "main"))
        where = {name: step[name] for name in ("client", "process") if name in step}
        started = {
            "login_id": "lgn_entering",
            "device_secret": "gds_a-secret-only-for-entering-xxxxxxxxxxx",
            "login_url": f"{end.origin}/auth/login/AAAAAAAAAAAAAAAAAAAAAA",
            "return_proof": "loopback_or_code",
            "expires_in": 600,
            "expires_at": "2040-01-01T00:00:00.000Z",
            "poll": {"url": f"{end.origin}/auth/login/collect", "max_wait": 25, "min_interval": 1},
        }
        answers = [{"mode": "local", "providers": []}, started, session]
        before = end.rules
        end.rules = [
            Rule.of({"on": line, "answer": {"json": value, "status": 201 if value is started else 200}})
            for line, value in zip(SIGN_IN, answers, strict=True)
        ] + before
        if "open" in step:
            self._do("open", {**where, **step["open"], "server": end.origin})
        self._do("sign_in", {**where, "loopback": False, "expect": {"signed_in": True}})
        end.rules = before
        for driver in self.world.drivers:
            driver.events.clear()
        self._forget_requests(True, {})

    def _ask(self, line: str, step: dict[str, Any]) -> None:
        """Send the runner's own request to the real server, past the fake one: as another device, or to compare."""
        method, _, path = line.partition(" ")
        headers = dict(step.get("headers", {}))
        if "session" in step:
            headers["Authorization"] = f"Bearer {step['session']['access_token']}"
        body = step["text"].encode() if "text" in step else None
        connection = HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            found = Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
        fields = {name.lower(): value for name, value in found.headers}
        shown = {"status": found.status, "headers": fields, "json": found.json}
        shown["text"] = found.body.decode("utf-8", "backslashreplace")
        expect(step.get("expect", {"status": {"$between": [200, 299]}}), shown, line)
        self._keep(step, shown)

    def _browser(self, what: str, step: dict[str, Any]) -> None:
        """`sign_in` as `player`, `decline`, or `open`; remember `browser` with `code` and `return`."""
        window = self.memory.setdefault("_window", Browser(self.service.port))
        how = {"sign_in": lambda: signed_in(window, step["url"], step["player"])}
        how |= {"decline": lambda: window.decline(step["url"]), "open": lambda: window.open(step["url"])}
        page = how[what]()
        self.memory["browser"] = {name: page[name] for name in ("status", "code", "return", "text")}
        expect(step.get("expect", {}), self.memory["browser"], f"the page after {what}")

    def _fetch(self, url: str, step: dict[str, Any]) -> None:
        """Request a URL as a redirected browser does, usually at the client's listener. `either`: it may be closed."""
        try:
            found = fetched(url, step.get("host"), step.get("method", "GET"))
        except OSError:
            if not step.get("either"):
                raise
            return
        expect(step.get("expect", {}), found, url)
        self._keep(step, found)

    def _connect(self, url: str, step: dict[str, Any]) -> None:
        """Connect as browsers do in advance: a connection that sends nothing, or `send`, and stays open."""
        parts = urlsplit(url)
        connection = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=LIMIT_SECONDS)
        self.connections.append(connection)
        connection.sendall(step.get("send", "").encode())

    def _parse(self, url: str, step: dict[str, Any]) -> None:
        """Remember the members of a URL's query, and its `origin`."""
        parts = urlsplit(url)
        self._keep(step, {"origin": f"{parts.scheme}://{parts.netloc}", **dict(parse_qsl(parts.query))})

    # -- what lies in folders --

    def _stored(self, text: str, step: dict[str, Any]) -> None:
        """Check that a file of the client's folder contains the text."""
        if not self._places_with(text):
            raise Mismatch(f"no file below the client's folder holds {text[:12]}...")

    def _not_stored(self, text: str, step: dict[str, Any]) -> None:
        if count := self._places_with(text):
            raise Mismatch(f"{text[:12]}... is still in {count} files")

    def _damage(self, text: str, step: dict[str, Any]) -> None:
        """Write `into` in place of each file below the client's folder that contains `text`."""
        if not self._places_with(text, step["into"]):
            raise Mismatch(f"no file below the client's folder holds {text[:12]}...")

    def _places_with(self, text: str, into: str | None = None) -> int:
        """Return the number of files, or of records of a client without files, with `text`; replace it by `into`."""
        folder, driver = self.memory["folder"], self.world.driver()
        if driver.own_storage:
            arguments = {"client": "a", "folder": folder, "text": text}
            asked = ("stored", arguments) if into is None else ("damage", arguments | {"into": into})
            return int(driver.call(asked[0], **asked[1])["stored"])
        paths = [path for path in Path(folder).rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
        for path in paths if into is not None else ():
            path.write_bytes(str(into).encode())
        return len(paths)

    def _zip(self, path: str, step: dict[str, Any]) -> None:
        """Check that the file is a whole zip of `size` bytes, and that one of its members has the text `holds`."""
        expect(step["size"], Path(path).stat().st_size, f"the size of {path}")
        try:
            with ZipFile(path) as archive:
                members = [archive.read(name) for name in archive.namelist()]
        except BadZipFile as e:
            raise Mismatch(f"{path} is not a zip file: {e}") from None
        if not any(step["holds"].encode() == member for member in members):
            raise Mismatch(f"no member of {path} holds {step['holds'][:20]!r}")

    def _file(self, path: str, step: dict[str, Any]) -> None:
        """Compare the file with `text` (null: it must not exist), or write `write` to it."""
        place = Path(path)
        if "write" in step:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(step["write"].encode())
        else:
            expect(step["text"], place.read_text("utf-8") if place.is_file() else None, path)
