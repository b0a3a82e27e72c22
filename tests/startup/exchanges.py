"""A login whose process was killed while it redeemed the code of a provider, and the services that end it."""

import json
import os
from contextlib import closing, redirect_stdout
from io import StringIO
from secrets import token_bytes
from typing import Any, TypeVar

from twisted.application.service import IService
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from gamed.cli import context, paths
from gamed.cli.service.folder_lock import SERVE
from gamed.cli.service.prepare import Start
from gamed.crypto import Index
from gamed.database.connection import AUTH, Connection, Transaction
from gamed.login import tables as login_tables
from gamed.login.transaction import ClientInfo, LoginIntent, LoginStage, LoginTransaction, ProofMethod
from gamed.ops.systemd import SystemdNotifier
from gamed.service import GamedService, build_service
from tests.support.databases import ask
from tests.support.folders import unused_path
from tests.support.ports import free_port
from tests.support.stores import MASTER_KEY, POSTGRESQL, forget_store, store_of, with_store

T = TypeVar("T")
FOREVER_MS = 2**53


class ServiceTestCase(TestCase):
    """A test with a data folder, and services of this process that use it."""

    timeout = 60

    def setUp(self) -> None:
        self.folder = unused_path(self)
        self.config, self.data = self.folder / "authentication.json", self.folder / "data"
        if POSTGRESQL:
            self.folder.mkdir()
            self.config.write_text(json.dumps(with_store({"mode": "local"}, self.data)), "utf-8")
            self.addCleanup(forget_store, self.data)

    def build(self, purpose: str = SERVE) -> GamedService:
        """Return a service of the folder that does not run yet."""
        if POSTGRESQL:
            os.environ["GAMED_MASTER_KEY"] = MASTER_KEY  # reading the configuration erases it
        opened = context.read_all(paths.find({}, str(self.config), str(self.data)))
        listen = [f"tcp:{free_port()}:interface=127.0.0.1"]
        with redirect_stdout(StringIO()):
            plan = {"private": False, "notifier": SystemdNotifier(), "purpose": purpose}
            settings, lock = Start(reactor=reactor, opened=opened, listen=listen, **plan).prepare()
        self.addCleanup(lock.release)
        service: IService = build_service(reactor, settings)
        assert isinstance(service, GamedService)
        return service

    def auth(self, transaction: Transaction[T]) -> T:
        """Run a transaction on `auth` beside the services."""
        with closing(store_of(self.data)) as store:
            return store.run_transaction(AUTH, transaction)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of `auth`."""
        with closing(store_of(self.data)) as store:
            return store.run_read(AUTH, ask(query))

    def stages(self) -> dict[str, str]:
        """Return the stage of each login."""
        return dict(self.read("SELECT login_id, stage FROM login"))


def begin_exchange(connection: Connection, instance_id: str = "") -> str:
    """Write a login that this process redeems the code of; return the login's id."""
    secret, token, address = (Index(token_bytes(32)) for _ in range(3))
    login = LoginTransaction(
        f"log_{instance_id}",
        secret,
        token,
        LoginIntent.LOGIN,
        "google",
        ClientInfo(),
        ProofMethod.CODE,
        None,
        address,
        0,
        FOREVER_MS,
        FOREVER_MS,
        LoginStage.EXCHANGING,
        instance_id=instance_id,
    )
    login_tables.insert_login(connection, login)
    return login.login_id
