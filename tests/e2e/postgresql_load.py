"""Players of a service on PostgreSQL who play during outages, and record what the service has acknowledged."""

import http.client
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from threading import Event, Thread
from typing import Any

from tests.e2e.client import digest
from tests.e2e.wire import Answer, ask, ask_on

PATIENCE_SECONDS = 60
LARGE = 300 * 1024
PAUSE_SECONDS = 0.02
"""Pause after a refusal; Retry-After would be a second."""


class Refused(Exception):
    """A response that acknowledges nothing, or no response."""


class Client(Thread):
    """Sends requests one after another until the test stops it; `problem` has its error."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.random = Random(number)
        self.enough = Event()
        self.problem: BaseException | None = None
        self.promised = self.refused = 0
        """The numbers of requests that were acknowledged, and of those whose outcome is unknown."""
        self.codes = Counter[str]()
        """The codes of the refusals."""
        self.slowest = 0.0
        """The seconds that the slowest answer took."""
        self.longest_gap = 0.0
        """The longest time without an acknowledged request."""
        self._last = time.monotonic()

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                try:
                    self.step()
                except Refused:
                    self.refused += 1
                    self.enough.wait(PAUSE_SECONDS)
                else:
                    self.promised += 1
                    now = time.monotonic()
                    self.longest_gap, self._last = max(self.longest_gap, now - self._last), now
        except BaseException as e:
            self.problem = e

    def stop(self) -> None:
        self.enough.set()
        self.join(PATIENCE_SECONDS)
        if self.is_alive():
            raise AssertionError(f"{self} has no answer")
        if self.problem is not None:
            raise self.problem

    def step(self) -> None:
        raise NotImplementedError

    def ask(self, method: str, path: str, accepted: Sequence[int], **how: Any) -> Answer:
        """Return an answer with one of these statuses; raise Refused for 503, 507 and a lost connection."""
        began = time.monotonic()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
            answer = ask_on(connection, method, path, **how)
        except (OSError, http.client.HTTPException) as e:
            raise Refused from e
        finally:
            self.slowest = max(self.slowest, time.monotonic() - began)
        if answer.status in (503, 507):
            code = json.loads(answer.body)["code"]
            assert code in ("store_unavailable", "busy", "storage_full"), answer
            assert code == "storage_full" or "retry-after" in answer.headers, answer
            self.codes[code] += 1
            raise Refused
        assert answer.status in accepted, (method, path, answer)
        return answer


class Saver(Client):
    """A player's device that writes one slot again and again."""

    def __init__(self, port: int, number: int, token: str) -> None:
        super().__init__(port, number)
        self.token = token
        self.path = f"/game/saves/slot{number}"
        self.versions: dict[int, str] = {}
        """Hash of each version that a response has named."""
        self.current: str | None = None
        """Hash of the slot's bytes, as far as they are known; None: never written."""
        self.number = 0
        """Version that a response named last."""
        self.possible: set[str | None] = set()
        """Hashes that the slot may have after requests without a response."""
        self.condition: Mapping[str, str] | None = {"If-None-Match": "*"}
        """Condition of the next write; None after a refusal."""

    def step(self) -> None:
        if self.condition is None:
            self.learn()
        data = os.urandom(LARGE if self.random.random() < 0.1 else self.random.randint(1, 3000))
        condition, self.condition = self.condition, None
        self.possible.add(digest(data))
        answer = self.ask("PUT", self.path, (200, 201, 412), body=data, bearer=self.token, headers=condition)
        if answer.status == 412:  # a request without an answer has come before
            self.learn()
            return
        self.know(answer, digest(data))
        assert self.number not in self.versions, "an answer named an older version"
        self.versions[self.number] = digest(data)
        self.possible.clear()

    def learn(self) -> None:
        """Read the slot; raise AssertionError unless it has an acknowledged hash, or one requested since."""
        answer = self.ask("GET", self.path, (200, 404), bearer=self.token)
        found = digest(answer.body) if answer.status == 200 else None
        assert found in {self.current, *self.possible}, (self.path, self.number, answer.headers)
        if found is None:
            self.condition = {"If-None-Match": "*"}
        else:
            self.know(answer, found)

    def know(self, answer: Answer, current: str) -> None:
        etag, before = answer.headers["etag"], self.number
        self.number = int(etag.strip('"').partition("-")[0])
        assert self.number >= before, "an older version came back"
        self.current, self.condition = current, {"If-Match": etag}

    def verify(self) -> int:
        """Return the number of acknowledged versions, each of which must have its bytes."""
        self.learn()
        for number, sha in self.versions.items():
            answer = self.ask("GET", f"{self.path}/versions/{number}", (200,), bearer=self.token)
            assert digest(answer.body) == sha, (self.path, number)
        return len(self.versions)


class Refresher(Client):
    """A device that refreshes its session again and again."""

    def __init__(self, port: int, number: int, credentials: Mapping[str, str]) -> None:
        super().__init__(port, number)
        self.credentials = credentials

    def step(self) -> None:
        renew = {"refresh_credential": self.credentials["refresh_credential"]}
        self.credentials = self.ask("POST", "/auth/session/refresh", (200,), json_body=renew).json

    def verify(self) -> int:
        """Check that the credentials of the last answer work."""
        self.ask("GET", "/game/", (200,), bearer=self.credentials["access_token"])
        self.step()
        return self.promised


class Starter(Client):
    """A game that starts logins."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(port, number)
        self.secrets: list[str] = []

    def step(self) -> None:
        self.secrets.append(self.ask("POST", "/auth/login", (201,), json_body={}).json["device_secret"])
        self.enough.wait(PAUSE_SECONDS)

    def verify(self) -> int:
        """Collect each login that was started."""
        for secret in self.secrets:
            self.ask("POST", "/auth/login/collect", (202,), json_body={}, bearer=secret)
        return len(self.secrets)


def until_answered(port: int, method: str, path: str, status: int, seconds: float, **how: Any) -> float:
    """Return the seconds until such a request was answered with this status."""
    began = time.monotonic()
    while (answer := ask(port, method, path, **how)).status != status:
        assert time.monotonic() - began < seconds, answer
        time.sleep(PAUSE_SECONDS)
    return time.monotonic() - began


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(PAUSE_SECONDS)
