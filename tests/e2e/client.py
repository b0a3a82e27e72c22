"""A player who is signed in without a browser, for tests of saves only."""

import json
import os
from collections.abc import Callable
from hashlib import sha256

from tests.e2e.service import INHERITED, ROOT, STOP_SECONDS, Service
from tests.e2e.wire import Answer, ask
from tests.support import forks

CONFIG = {"mode": "local", "session": {"access_ttl": "24h", "refresh_ttl": "720h"}}


def gamed(service: Service, *arguments: str, stdin: str = "") -> str:
    """Run a command on the service's folder; return its output."""
    environ = {name: os.environ[name] for name in INHERITED if name in os.environ}
    places = ["--config", str(service.config), "--data", str(service.data)]
    done = forks.run(
        [*forks.MODULE, *places, *arguments],
        stdin,
        env={**environ, "PYTHONPATH": str(ROOT), **service.environ},
        timeout=STOP_SECONDS,
    )
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def write_game(service: Service, **members: object) -> None:
    """Write game.json beside the configuration, before the service starts."""
    service.config.with_name("game.json").write_text(json.dumps(members))


class Keeper:
    """One player's saves over HTTP."""

    def __init__(self, service: Service, name: str = "keeper") -> None:
        self.service = service
        gamed(service, "players", "add", name, "--password-stdin", stdin="correct horse\n")
        self.token = json.loads(gamed(service, "players", "token", name, "--json"))["access_token"]

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        sent: Callable[[], object] = lambda: None,
        **headers: str,
    ) -> Answer:
        """Request `path` below /game/saves; `If_Match` is If-Match; `sent` as in ask()."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        where = f"/game/saves{path}"
        return ask(self.service.port, method, where, body=body, bearer=self.token, headers=fields, sent=sent)

    def put(self, slot: str, data: bytes, **headers: str) -> Answer:
        return self.ask("PUT", f"/{slot}", data, **headers)


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()
