"""The service on a PostgreSQL server of its own, which tests stop, stall and replace."""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from secrets import token_bytes
from typing import Any, ClassVar

from twisted.python import log
from twisted.trial.unittest import SynchronousTestCase

from tests.e2e.client import gamed, write_game
from tests.e2e.postgresql_load import Client, Refresher, Saver, Starter, wait_until
from tests.e2e.service import Service
from tests.e2e.wire import Answer, ask
from tests.processes.cases import NO_LIMITS
from tests.support.folders import unused_path
from tests.support.ports import free_port
from tests.support.postgresql import PASSWORD, Cluster

SAVERS = 3
"""Fewer than the uploads that one player may have at once."""


class PostgresqlServiceCase(SynchronousTestCase):
    """`self.service` runs on `self.cluster`; at the end its log has no traceback."""

    tcp: ClassVar[bool] = False
    settings: ClassVar[Mapping[str, str]] = {}

    def setUp(self) -> None:
        self.cluster = self.make_cluster()
        self.addCleanup(self.cluster.close)
        self.address = self.cluster.database(tcp=self.tcp)
        self.admin_port = free_port()
        self.service = self.new_service(self.url())
        self.addCleanup(self._end)
        self.service.start()
        self.clients: list[Client] = []

    def make_cluster(self) -> Cluster:
        """Return the server for the test."""
        return Cluster(tcp=self.tcp, settings=self.settings)

    def url(self) -> str:
        """Return the address of the store, as the configuration has it."""
        return self.address.url

    def new_service(self, url: str, other: Service | None = None) -> Service:
        """Return a service on this store, with a folder of its own; with the master key of the other one."""
        store = {"store": url, "store_password_env": "STORE_PASSWORD", "master_key_env": "MASTER_KEY"}
        config = {"mode": "local", "session": {"access_ttl": "24h"}, "limits": NO_LIMITS, **store}
        environ = {"STORE_PASSWORD": PASSWORD, "MASTER_KEY": b64encode(token_bytes(32)).decode()}
        admin = f"--admin=tcp:{self.admin_port if other is None else free_port()}:interface=127.0.0.1"
        folder = unused_path(self)
        service = Service(folder, config, environ if other is None else other.environ, arguments=[admin])
        write_game(service, writes_per_minute=0, keep_versions=1000, slots=1000, min_free_bytes=0)
        return service

    def _end(self) -> None:
        self.service.close()
        self.assertNotIn("Traceback", self.service.text())

    def ask(self, method: str, path: str, **how: Any) -> Answer:
        return ask(self.service.port, method, path, **how)

    def credentials(self, name: str) -> dict[str, str]:
        """Return the credentials of a new player."""
        gamed(self.service, "players", "add", name, "--password-stdin", stdin="correct horse\n")
        return json.loads(gamed(self.service, "players", "token", name, "--json"))

    def load(self) -> list[Client]:
        """Return clients that run until the end of the test."""
        port = self.service.port
        self.token = self.credentials("saver")["access_token"]
        self.clients = [Saver(port, number, self.token) for number in range(SAVERS)]
        self.clients += [Refresher(port, SAVERS, self.credentials("refresher")), Starter(port, SAVERS + 1)]
        for client in self.clients:
            client.start()
            self.addCleanup(client.enough.set)
        return self.clients

    def progress(self, more: int = 2) -> float:
        """Wait until each client has so many more acknowledged requests; return the seconds."""
        began, wanted = time.monotonic(), [client.promised + more for client in self.clients]
        wait_until(
            lambda: all(
                client.promised >= count or client.problem for client, count in zip(self.clients, wanted, strict=True)
            )
        )
        self.assertEqual([client.problem for client in self.clients if client.problem], [])
        return time.monotonic() - began

    def verify(self) -> int:
        """Stop the clients, and check all acknowledged changes; return their number."""
        for client in self.clients:
            client.stop()
        found = [client.verify() for client in self.clients]
        log.msg("acknowledged", found, "refused", [dict(client.codes) for client in self.clients])
        self.assertNotIn(0, found)
        return sum(found)
