"""A refused password is recorded alike for names that exist and for others, as far as a guesser can see."""

import re

from msgspec.structs import replace

from gamed.database.event_counts import EventCount
from gamed.database.security_events import list_events
from gamed.login.local import SignInForm, SignInRejected
from gamed.ops.stored_events import StoringAuditLog
from tests.login.examples import BROWSER
from tests.login.fixtures import ADDRESS, ANNA, REQUEST, LoginCase, done
from tests.support.covers import covers
from tests.support.stores import sqlite_files


class RefusedPasswordTests(LoginCase):
    def setUp(self) -> None:
        self.server = self.local_server(passwords_per_minute=0)
        self.audit = StoringAuditLog(self.server.context.audit, self.server.databases.auth, self.server.now_ms)
        context = replace(self.server.context, audit=self.audit)
        self.passwords = replace(self.server.passwords, context=context)

    def guess(self, name: str) -> None:
        form = SignInForm("", BROWSER, ADDRESS, name, "something else", REQUEST)
        self.assertRaises(SignInRejected, done, self.passwords.authenticate(form))

    def rows(self) -> list[EventCount]:
        """Return the rows that are there after the next regular write."""
        done(self.audit.flush())
        return done(self.server.databases.reads.submit(lambda c: list_events(c, 0)))

    @covers("threats/10")
    @sqlite_files("its trace of statements")
    def test_answer(self) -> None:
        """Until the answer both have the same statements, and none that writes an event."""
        statements: list[str] = []
        for queue in (self.server.databases.auth, self.server.databases.reads):
            done(queue.submit(lambda connection: connection.set_trace_callback(statements.append)))
        seen = []
        for name in ("Anna", "Nobody"):
            statements.clear()
            self.guess(name)
            seen.append([re.sub("x'[0-9a-f]{64}'", "", each) for each in statements])
        self.assertEqual(seen[0], seen[1])
        self.assertIn("local_account", "".join(seen[0]))
        for word in ("security_event", "INSERT", "UPDATE"):
            self.assertNotIn(word, "".join(seen[0]))

    def test_rows(self) -> None:
        """A player has one row of a day with a count; all names together that do not exist have one of an hour."""
        for _ in range(3):
            self.guess("Anna")
            self.guess("Nobody")
            self.guess("Somebody")
        found = {each.key.player_id: (each.times, each.values) for each in self.rows()}
        values = {"provider": "local", "outcome": "wrong_password"}
        self.assertEqual(found, {ANNA: (3, values), "": (6, values)})
        self.guess("Anna")
        self.assertEqual(len(self.rows()), 2)
        self.server.clock.advance(3600)
        self.guess("Anna")
        self.guess("Nobody")
        counts = sorted((each.key.player_id, each.times) for each in self.rows())
        self.assertEqual(counts, [("", 1), ("", 6), (ANNA, 5)])
        self.server.clock.advance(24 * 3600)
        self.guess("Anna")
        self.guess("Nobody")
        self.assertEqual(len(self.rows()), 5)

    def test_bounded(self) -> None:
        """Any number of invented names adds one row in an hour, so that it pushes out no event of a player."""
        for number in range(100):
            self.guess(f"nobody-{number}")
        self.assertEqual([each.times for each in self.rows()], [100])
