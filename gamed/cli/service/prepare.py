"""The steps from the options of a start to the settings of a service, in their order, for `serve` and its workers.

Every error that prevents a start is found before a database is written. Sockets that systemd passes (sd_listen_fds(3))
are all listened on, or the start fails.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from secrets import token_bytes
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.plugins.twisted_core import systemdEndpointParser

from gamed.cli import keys, paths
from gamed.cli.context import OpenedConfiguration
from gamed.cli.data import restore_journal
from gamed.cli.errors import CommandFailed, SetupError, echo, warn
from gamed.cli.output import counted
from gamed.cli.paths import Paths
from gamed.cli.process import first_environment, passed_sockets, read_listeners, refuse_foreign_folder, write_listeners
from gamed.cli.service import listen as cli_listen
from gamed.cli.service import start_report
from gamed.cli.service.folder_lock import SERVE, SHARE, Lock, refuse_network_folder
from gamed.cli.service.listen import Listener, duplicate
from gamed.cli.service.other_server import has_state, refuse_other_server
from gamed.clock import now_ms
from gamed.config.settings import DEFAULT_LISTEN, KEY_FILE, Settings
from gamed.database.connection import AUTH, STATE
from gamed.database.errors import DatabaseError, MigrationError
from gamed.database.store import Store
from gamed.ops.systemd import StartTimeoutExtender, SystemdNotifier
from gamed.players import keyring
from gamed.stores import open_store
from gamed.structs import Component

PRIVATE_LISTEN = "GAMED_PRIVATE_LISTEN"
PASSED = passed_sockets(first_environment())
"""How many sockets were passed to this process. Twisted removes the variables, and `harden` hides the first ones."""
STORE_SECONDS, STORE_RETRY_SECONDS = 30.0, 1.0
"""How long a start waits for a database server that does not answer; then it fails, and systemd starts it again."""


class Start(Struct, frozen=True, kw_only=True):
    """The options of a start; prepare() makes the settings of a service of them, or ends the start with an error."""

    reactor: Any
    opened: OpenedConfiguration
    listen: Sequence[str]
    """The endpoints of --listen; without any the sockets of systemd, or the default port."""
    private: bool
    notifier: SystemdNotifier
    purpose: str = SERVE
    """The command that locks the folder. With SHARE other servers may use it meanwhile; the first one prepares it."""
    admins: Sequence[str] = ()
    """The endpoint of --admin, of each worker if there are several."""
    report: start_report.Report = start_report.show
    migrate: bool = False
    """Allows to change the schema of a database that other machines may use."""

    def prepare(self) -> tuple[Settings, Lock]:
        """Check the setup, lock the data folder, migrate the databases and set their key; call this before any fork.

        Return the settings, and the lock, which the caller has to retain.
        """
        opened, places = self.opened, self.opened.places
        # Options first: a start with a wrong one must neither wait for the lock of a running server nor migrate.
        endpoints = tuple(self.listen or inherited_sockets(self.reactor) or (DEFAULT_LISTEN,))
        listeners = self._check_listeners(endpoints)
        probed = [*listeners, *(_parse_admin(self.reactor, text, listeners) for text in self.admins)]
        refuse_foreign_folder(places.data)
        if opened.first_run:
            cli_listen.probe(probed)  # before the folder is made: the usual mistake is a port that is in use
        with paths.opened_data(places.data), closing(open_store(opened.config, places.data)) as store:
            opener = StoreOpener(store=store, notifier=self.notifier, migrate=self.migrate)
            folder = _open_folder(opener, opened, probed, self.purpose)
            settings = _settings(store, opened, listeners, folder.choice, private=self._private)
        # Last, as `gamed health` asks what this file names: a start that fails before leaves the running server's.
        self._note_listeners(listeners, joined=folder.joined)
        admin = cli_listen.endpoint_of(self.admins[0]) if self.admins else None
        settings = replace(settings, admin=admin, share=self.purpose == SHARE)
        self.report(settings, opened, listeners, folder.accounts)
        return settings, folder.lock

    @property
    def _private(self) -> bool:
        return self.private or os.environ.get(PRIVATE_LISTEN) == "1"

    def _check_listeners(self, endpoints: Sequence[str]) -> list[Listener]:
        listeners = [cli_listen.parse_listener(self.reactor, text) for text in endpoints]
        require_all_used(self.reactor, listeners)
        cli_listen.refuse_repeated(listeners)
        cli_listen.check_listeners(listeners, self.opened.config, private=self._private)
        return listeners

    def _note_listeners(self, listeners: Sequence[Listener], *, joined: bool) -> None:
        """Note where this server answers, beside the other servers that share the folder."""
        data, addresses = self.opened.places.data, [listener.client_endpoint for listener in listeners]
        others = [each for each in read_listeners(data) if each not in addresses] if joined else []
        write_listeners(data, [*addresses, *others])


def prepare_data(opened: OpenedConfiguration, listener: str) -> None:
    """Make the databases and the key of a new server, as its first start would, and record where it will listen."""
    data = opened.places.data
    lock = Lock.acquire(data, "gamed setup")
    with lock.removed_on_failure(), closing(open_store(opened.config, data)) as store:
        _prepare_folder(StoreOpener(store=store, notifier=SystemdNotifier(), migrate=False), opened)
        write_listeners(data, [listener])
    lock.release()


def prepare_worker(
    reactor: Any, opened: OpenedConfiguration, notifier: SystemdNotifier, admin: str | None
) -> tuple[Settings, Lock]:
    """Return the settings and the lock of a worker of --workers, whose parent has prepared everything."""
    lock = Lock.acquire_shared(opened.places.data, lambda: None)
    if lock.alone:
        raise CommandFailed("The process that started this one has ended. Start the server again.")
    with closing(open_store(opened.config, opened.places.data)) as store:
        choice = _join(StoreOpener(store=store, notifier=notifier, migrate=False), opened, lock)
        listeners = [cli_listen.parse_listener(reactor, text) for text in inherited_sockets(reactor)]
        settings = _settings(store, opened, listeners, choice, private=True)
    return replace(settings, admin=admin, share=True), lock


def _settings(
    store: Store, opened: OpenedConfiguration, listeners: Sequence[Listener], choice: keys.KeyChoice, *, private: bool
) -> Settings:
    config, places = opened.config, opened.places
    texts = tuple(listener.text for listener in listeners)
    with keys.database_errors(store, AUTH):
        store_id = store.run_read(AUTH, keyring.read_store_id)
    settings = Settings(config, places.config, places.data, texts, private, choice.key, choice.source, opened.game)
    own_url = cli_listen.own_url(listeners)
    return replace(settings, store_id=store_id, catalogues=opened.catalogues, own_url=own_url)


class OpenedFolder(Struct, frozen=True):
    """A data folder that is locked and ready to be served."""

    lock: Lock
    choice: keys.KeyChoice
    accounts: int | None = None
    """The result of keys.settle()."""
    joined: bool = False
    """Whether another server already used the folder."""


class StoreOpener(Component, frozen=True, kw_only=True):
    """The store of a start, which may take long to answer, to create or to migrate."""

    store: Store
    notifier: SystemdNotifier
    migrate: bool

    def connect(self) -> None:
        """Wait for the database server for some time: at boot it may start later than this process."""
        timeout, deadline, shown = self.extender(), time.monotonic() + STORE_SECONDS, False
        while True:
            try:
                with keys.database_errors(self.store, AUTH):
                    self.store.connect()
                return
            except CommandFailed as e:
                if time.monotonic() > deadline:
                    raise
                if not shown:
                    self._show(f"waiting for the database: {e}")
                shown = True
            timeout.extend()
            time.sleep(STORE_RETRY_SECONDS)

    def prepare(self) -> None:
        """Make or migrate the databases."""
        timeout = self.extender()
        with keys.database_errors(self.store, AUTH):
            # Before a schema is changed: an operator who has restored a copy may want the version before, which can
            # refuse the changed one.
            self.store.check_restored()
        for database in (AUTH, STATE):
            with keys.database_errors(self.store, database):
                self.store.prepare(database, self._show, timeout.extend, migrate=self.migrate)
        with keys.database_errors(self.store, AUTH):
            self.store.refuse_restored()

    def extender(self) -> StartTimeoutExtender:
        """Return the object that extends the start timeout of systemd during long work."""
        return StartTimeoutExtender(self.notifier)

    def _show(self, text: str) -> None:
        echo(text)
        self.notifier.status(text)


def _open_folder(
    opener: StoreOpener, opened: OpenedConfiguration, probed: Sequence[Listener], purpose: str
) -> OpenedFolder:
    """Lock the folder and prepare it; to share it, use it as it is if another server uses it."""
    data, share = opened.places.data, purpose == SHARE
    if share:
        with suppress(OSError):  # no Linux
            refuse_network_folder(data.resolve(), Path("/proc/self/mountinfo").read_text("utf-8", "replace"))
    timeout = opener.extender()
    while True:
        lock = Lock.acquire_shared(data, timeout.extend) if share else Lock.acquire(data, purpose)
        if not lock.alone:  # the store is another server's: this one neither recovers, migrates nor sets a key
            cli_listen.probe(probed)
            return OpenedFolder(lock, _join(opener, opened, lock), joined=True)
        with lock.removed_on_failure():
            # An interrupted restore first: until it is finished the files are partly of the backup.
            if (restored := restore_journal.recover(data)) is not None:
                echo(f"finished an interrupted restore: the databases now come from {restored.origin}")
            cli_listen.probe(probed)  # now under the lock: the server that had the port may just have ended
            choice, accounts = _prepare_folder(opener, opened)
        # Another server may take the lock between the exclusive and the shared one: then this one joins it instead.
        kept = lock.share(_place(opener.store)) if share else lock
        if kept is not None:
            return OpenedFolder(kept, choice, accounts)


def _prepare_folder(opener: StoreOpener, opened: OpenedConfiguration) -> tuple[keys.KeyChoice, int | None]:
    """Make or migrate the databases of a folder that no other server uses, and set their key."""
    config, places = opened.config, opened.places
    store = opener.store
    opener.connect()
    for database in (AUTH, STATE):  # a schema that this version cannot use is refused before a key or a file is made
        with keys.database_errors(store, database):
            store.check_schema(database)
    choice = keys.choose(store, places.data, config.master_key, token_bytes, config.master_key_origin)
    if choice.fresh:
        refuse_other_server(places, store, os.environ)
    lost = not choice.fresh and not has_state(store)
    with paths.removed_on_failure(_files_of_first_start(store, places)):  # under the lock no other start makes them
        if opened.first_run:
            paths.write_first_config(places.config)
        opener.prepare()
        if lost:
            what = store.describe(STATE)
            warn(f"There was no {what}: no player has a save now. If it was lost, stop gamed, and restore a backup.")
        # The key comes after the schema, whose table records it, and before a request: rows are sealed with it.
        return choice, keys.settle(store, places.data, choice, token_bytes, now_ms)


def _place(store: Store) -> str | None:
    with keys.database_errors(store, AUTH):
        return store.place()


def _join(opener: StoreOpener, opened: OpenedConfiguration, lock: Lock) -> keys.KeyChoice:
    """Return the key for a folder that other servers use; raise CommandFailed if it must change first."""
    config, data, store = opened.config, opened.places.data, opener.store
    opener.connect()
    if lock.place() not in (None, _place(store)):
        raise CommandFailed(
            f"Other servers of {data} use another store than {store.describe(AUTH)}. Stop them first, or correct store "
            f"in {opened.places.config}."
        )
    changes = "Other servers use it. Stop them first, so that this one can start alone and change it."
    for database in (AUTH, STATE):
        try:
            store.run_read(database, lambda connection: None)
        except MigrationError:
            where = store.describe(database)
            raise CommandFailed(f"{where} has the schema of another version. {changes}") from None
        except DatabaseError:  # auth.db is opened next; without state.db players can still sign in
            continue
    choice = keys.choose(store, data, config.master_key, token_bytes, config.master_key_origin)
    if choice.before is not None or choice.made:
        raise CommandFailed(f"{store.describe(AUTH)} is not written with the key of this start. {changes}")
    return choice


def _parse_admin(reactor: Any, admin: str, others: Sequence[Listener]) -> Listener:
    listener = cli_listen.parse_listener(reactor, admin, "--admin")
    cli_listen.check_admin(listener, others)
    return listener


def _files_of_first_start(store: Store, places: Paths) -> list[Path]:
    """Return the files that a first start makes, in the order in which a failed one may remove them.

    The key of an existing auth.db stays.
    """
    key = [] if store.exists(AUTH) else [places.data / KEY_FILE]
    return [*store.new_files(), *key, places.config]


def inherited_sockets(reactor: Any) -> list[str]:
    """Return an endpoint string for each socket that systemd passed, in their order."""
    descriptors = _descriptors(reactor)
    return [f"systemd:domain={_domain(number)}:index={index}" for index, number in enumerate(descriptors)]


def require_all_used(reactor: Any, listeners: Sequence[Listener]) -> None:
    """Raise SetupError if a passed socket would not be listened on: its clients would wait for ever."""
    found, passed = len(_descriptors(reactor)), PASSED
    if passed > found:
        raise SetupError(
            f"systemd passes {counted(passed, 'socket')}, and Twisted found {found} of them: set LISTEN_FDNAMES to a "
            "name for each, separated by colons, or start gamed serve without twistd."
        )
    used = Counter(listener.descriptor for listener in listeners if listener.descriptor is not None)
    for text, number in zip(inherited_sockets(reactor), _descriptors(reactor), strict=True):
        if used[number] > 1:
            raise SetupError(f"{text}: more than one --listen names this socket. Leave one of them out.")
        if not used[number]:
            raise SetupError(
                f"systemd passes a socket that no --listen names. Add --listen {text}, or leave out --listen "
                "to listen on every socket that is passed."
            )


def _descriptors(reactor: Any) -> list[int]:
    """Return the descriptors of the passed sockets; Twisted read the variables when it was imported.

    The parser is imported by name: finding it by the word `systemd` would load every plugin of every package.
    """
    found: list[int] = []
    with suppress(LookupError):
        for index in count():
            found.append(systemdEndpointParser.parseStreamServer(reactor, domain="INET", index=str(index)).fileno)
    return found


def _domain(number: int) -> str:
    try:
        with duplicate(number) as copy:
            return socket.AddressFamily(copy.family).name.removeprefix("AF_")
    except (OSError, ValueError):
        return "INET"  # describe_inherited() reports what it is instead
