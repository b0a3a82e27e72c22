"""The owner's page that acts, with all routes that it shares data with, and an owner who is signed in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed

from gamed.account.build import AccountComponents
from gamed.assets.store import FOLDER
from gamed.context import ServiceContext
from gamed.database.backup_format import BackupProgress
from gamed.database.errors import DatabaseReadOnly, new_error
from gamed.http.app import RouteGroup
from gamed.login.responder import PageResponder
from gamed.owner.backups import BackupMaker
from gamed.owner.build import build_owner
from gamed.owner.model import HOME
from gamed.owner.report import MachineReport, OwnerReporter
from gamed.players import owner_tables
from gamed.players import tables as player_tables
from gamed.players.owner_tables import ConfirmationCode, OwnerPageSwitch
from tests.account.page_fixtures import AccountCase
from tests.login.browser_fixtures import Page
from tests.login.fixtures import ANNA
from tests.support.databases import data_folder
from tests.support.http import Answer

BO, CLEO = "ply_" + "B" * 22, "ply_" + "C" * 22
MACHINE = MachineReport(0, (), {"auth.db": 4096, "state.db": 8192}, 40 * 2**30, 100 * 2**30, 2**30)


class SiteCase(AccountCase):
    """A test of the page. Anna is the owner and is signed in by begin(); the page is on."""

    account: AccountComponents
    page_is_on = True

    def setUp(self) -> None:
        self.data = data_folder(self) / "data"
        self.data.mkdir()
        self.backups = self.data.parent / "backups"
        self.made: list[Path] = []
        self.slow: Deferred[Any] | None = None
        self.progress: BackupProgress | None = None
        self.backup_answer: Callable[[Path], str | None] = lambda folder: None
        self.machine: Callable[[], Deferred[MachineReport]] = lambda: succeed(MACHINE)
        super().setUp()

    def more_routes(self, service: ServiceContext, pages: PageResponder) -> list[RouteGroup]:
        groups = super().more_routes(service, pages)
        self.service_context = replace(service, settings=replace(service.settings, data=self.data))
        reporter = OwnerReporter(
            service.databases, service.keys, service.now_ms, self.look_at_machine, service.reactor, {"gamed": "1.2.3"}
        )
        owner = build_owner(
            self.service_context,
            self.responder,
            self.account.removals,
            self.server.revoked.append,
            reporter,
            maker=BackupMaker(self.make_backup, lambda folder: self.progress),
            in_thread=self.in_thread,
        )
        return [*groups, *owner.routes]

    def look_at_machine(self) -> Deferred[MachineReport]:
        return self.machine()

    def in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        """Call work at once, or with `slow` leave a backup to be ended by it."""
        if self.slow is not None and getattr(work, "func", None) == self.make_backup:
            return self.slow
        return maybeDeferred(work)

    def make_backup(self, folder: Path) -> str | None:
        self.made.append(folder)
        return self.backup_answer(folder)

    def begin(self, *, sign_in: bool = True) -> None:
        """Turn the page on, make Anna the owner, and sign her in."""
        self.server.write(lambda c: player_tables.set_owner(c, ANNA))
        if self.page_is_on:
            self.turn_on()
        if sign_in:
            self.browser.sign_in()

    def turn_on(self, folder: str | None = None) -> None:
        switch = OwnerPageSwitch(self.server.now_ms(), folder)
        self.server.write(lambda c: owner_tables.turn_on(c, switch))

    def code(self) -> str:
        """Make a confirmation code, as `gamed owner confirm` does."""
        code = ConfirmationCode.generate(self.server.random, self.server.now_ms())
        self.server.write(lambda c: owner_tables.store_code(c, self.server.keys.indexer, code))
        return code.shown

    def add(self, player_id: str, name: str = "", *, shown: str = "", state: str = "active", code: str = "") -> str:
        """Add a player; one with a code waits."""

        def work(connection: Any) -> None:
            now_ms = self.server.now_ms()
            waits = "pending" if code else state
            player_tables.create_player(connection, player_id, now_ms, waits, code or None)  # type: ignore[arg-type]
            if name:
                player_tables.create_account(
                    connection, self.server.keys, player_id=player_id, name=name, password="-", now_ms=now_ms
                )
            if shown:
                player_tables.set_display_name(connection, self.server.keys.sealer, player_id, shown)

        self.server.write(work)
        return player_id

    def state(self, player_id: str) -> str | None:
        rows = self.server.rows("SELECT state FROM player WHERE player_id = :player_id", player_id=player_id)
        return str(rows[0][0]) if rows else None

    def open(self, below: str = "") -> Page:
        return self.browser.get(f"{HOME}{below}")

    def act(self, form: dict[str, Any], **typed: str) -> Page:
        return self.browser.post(form, typed)

    def post(self, action: str, like: Page, **fields: str) -> Page:
        """Send a form that a page does not have, with the hidden field of one that it has."""
        form = {"action": f"{HOME}/do/{action}", "fields": {"form": like.forms[0]["fields"]["form"]}}
        return self.browser.post(form, fields)

    def events(self) -> list[tuple[str, str, str]]:
        """Return what was done on the page: command, player and who did it."""
        rows = self.server.rows("SELECT player_id, detail FROM security_event WHERE event = 'command' ORDER BY number")
        details = [(player, loads(detail)) for player, detail in rows]
        return [(each["command"], player, each["by"]) for player, each in details]

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let auth.db be one that can only be read."""
        auth = self.server.databases.auth
        submit = auth.submit
        auth.submit = lambda *args, **kwargs: fail(new_error(DatabaseReadOnly))  # type: ignore[method-assign]
        try:
            yield
        finally:
            auth.submit = submit  # type: ignore[method-assign]

    def unknown(self, accepted: str) -> Answer:
        """Ask for a path that no route has."""
        return self.browser.ask("GET", "/auth/nothing-here", Accept=accepted)


__all__ = ["ANNA", "BO", "CLEO", "FOLDER", "HOME", "MACHINE", "SiteCase"]
