"""Sign-ins whose writes fail or wait at each step get typed errors, and the same sign-in continues afterwards."""

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gamed.database.connection import AUTH
from tests.e2e.by_hand import HandCase
from tests.e2e.wire import Answer
from tests.login.browser_fixtures import Page
from tests.login.test_browser_routes import code
from tests.support.stores import POSTGRESQL, connect, fill_disk, held

PATIENCE_SECONDS = 60


class FailingSignIns(HandCase):
    @contextmanager
    def full(self) -> Iterator[None]:
        """Prevent files of the service from growing. Its log is shorter than that of auth.db, and can grow.

        PostgreSQL refuses every write.
        """
        if POSTGRESQL:
            writable = fill_disk(connect(self.service.data, AUTH))
            try:
                yield
            finally:
                writable()
            return
        size = (self.service.data / "auth.db-wal").stat().st_size
        self.assertGreater(size, 2 * self.service.log.stat().st_size)
        usual = resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.prlimit(self.service.pid, resource.RLIMIT_FSIZE, usual)

    def twice(self, step: Callable[[], Answer]) -> Answer:
        """Run a step while nothing can be written, and after that."""
        before = self.service.rows()
        with self.full():
            refused = step()
        self.assertEqual((refused.status, refused.headers["retry-after"]), (507, "300"))
        if refused.headers["content-type"].startswith("text/html"):
            self.assertIn("Nothing more can be stored.", Page(refused).text)
        else:
            self.assertEqual(refused.json["code"], "storage_full")
        self.assertEqual(self.service.rows(), before)
        return step()

    def test_full(self) -> None:
        """Each step that writes gets 507 as a page or a problem; nothing is used up, and with space each succeeds."""
        for _ in range(4):
            self.start(provider="discord")
        login = self.twice(lambda: self.ask("POST", "/auth/login", json_body={"provider": "discord"})).json
        page = Page(self.twice(lambda: self.visit(login["login_url"])))
        sent = self.twice(lambda: self.press(page))
        callback = self.choose(sent.headers["location"])
        back = self.twice(lambda: self.visit(callback))
        shown = code(Page(self.visit(back.headers["location"])))
        self.assertEqual(set(self.lasting().values()), {0})
        complete = self.twice(lambda: self.collect(login, finish_code=shown)).json
        self.assertEqual(complete["status"], "complete")
        self.assertEqual(self.ask("GET", "/game/", bearer=complete["access_token"]).status, 200)

    def test_held_at_the_callback(self) -> None:
        """While another process holds the lock too long, a page reports it; the code is not used up and works later."""
        login, answers = self.start(provider="discord"), list[Answer]()
        callback = self.choose(self.press(Page(self.visit(login["login_url"]))).headers["location"])
        with held(self.service.data, AUTH):
            browser = threading.Thread(target=lambda: answers.append(self.visit(callback)))
            browser.start()
            self.assertEqual(self.collect(login).json["stage"], "at_provider")
            browser.join(PATIENCE_SECONDS)
            self.assertFalse(browser.is_alive(), "no answer while the database was held")
        [refused] = answers
        self.assertEqual((refused.status, "retry-after" in refused.headers), (503, True))
        self.assertEqual(refused.headers["content-type"], "text/html; charset=utf-8")
        shown = code(Page(self.visit(self.visit(callback).headers["location"])))
        self.assertEqual(self.collect(login, finish_code=shown).json["status"], "complete")
