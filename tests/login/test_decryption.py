"""These tests change sealed rows of a login: the game gets an outcome, the log a line (docs/protocol.md: Collect)."""

from typing import Any

from gamed.login.browser import Ended
from gamed.login.collect import Complete, Failed
from gamed.login.errors import LoginCollected
from gamed.login.start import StartedLogin
from gamed.outcomes import LoginFailure
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionRevoked
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, LoginServer, done
from tests.support.covers import covers
from tests.support.stores import BYTES, literal

INTERRUPTED = Failed(LoginFailure.LOGIN_INTERRUPTED)
LASTING = ("player", "identity", "session", "credential", "local_account")
HOW = {
    "one bit": "substr({0}, 1, length({0}) - 1) || " + literal(b"\0"),
    "cut off": "substr({0}, 1, 5)",
    "gone": "NULL",
    "empty": literal(b""),
    "of another login": "(SELECT {0} FROM login AS other WHERE other.login_id <> login.login_id)",
    "of another column": "coalesce(sealed_{1}, " + literal(b"\0") + ")",
}
OTHER_COLUMN = {"sealed_proof": "identity", "sealed_identity": "proof", "sealed_result": "proof"}


class Decryption(LoginCase):
    def two(self) -> tuple[LoginServer, StartedLogin]:
        """Sign in two people; the first sign-in is the one to damage."""
        server = self.oauth_server(FakeProvider())
        started = server.signed_in("anna")
        self.other = server.signed_in("bo")
        return server, started

    def damage(self, server: LoginServer, started: StartedLogin, column: str, how: str) -> None:
        value = HOW[how].format(column, OTHER_COLUMN[column])
        query = f"UPDATE login SET {column} = CAST({value} AS {BYTES}) WHERE login_id = :login_id"
        server.write(lambda c: c.execute(query, {"login_id": started.login.login_id}) and None)

    def lasting(self, server: LoginServer) -> list[Any]:
        return [server.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in LASTING]

    def owner_reads(self, server: LoginServer, started: StartedLogin, value: str) -> None:
        """Check that the log has one line that names the damaged value."""
        lines = [line for line in server.security if "decryption_failed" in line]
        self.assertEqual(lines, [f"decryption_failed value={value} row={started.login.login_id}"])

    @covers("2.2/12")
    def test_what_is_ready(self) -> None:
        """A damaged proof or identity ends the login at the collect, and nothing lasting is written."""
        for column, value in (("sealed_proof", "proof"), ("sealed_identity", "identified")):
            for how in HOW:
                server, started = self.two()
                code, before = server.code(started), self.lasting(server)
                self.damage(server, started, column, how)
                self.assertEqual(server.collect(started, code=code), INTERRUPTED, (column, how))
                self.assertEqual(server.collect(started, code=code), INTERRUPTED, (column, how))
                self.assertEqual(self.lasting(server), before)
                self.assertEqual(server.result(started), Ended(LoginFailure.LOGIN_INTERRUPTED))
                self.owner_reads(server, started, value)
                self.assertIsInstance(server.collect(self.other, code=server.code(self.other)), Complete)

    def test_the_page_of_the_code(self) -> None:
        """The browser finds the damage first: it sees a page, with and without a port, and the game is notified."""
        for port in (None, 51004):
            for how in HOW:
                server = self.oauth_server(FakeProvider())
                self.other, started = server.signed_in("bo"), server.signed_in("anna", port=port)
                self.damage(server, started, "sealed_proof", how)
                waiting = server.begin_collect(started, wait_seconds=25, seen="proof_required")
                self.assertEqual(server.result(started), Ended(LoginFailure.LOGIN_INTERRUPTED), how)
                self.assertEqual(done(waiting), INTERRUPTED)
                self.owner_reads(server, started, "proof")

    def test_what_was_delivered(self) -> None:
        """Credentials that cannot be decrypted end the session, and the game has to sign in again."""
        for how in HOW:
            server, started = self.two()
            server.collect(self.other, code=server.code(self.other))
            pair = server.collect(started, code=server.code(started)).result.pair
            self.damage(server, started, "sealed_result", how)
            self.assertEqual([server.collect(started), server.collect(started)], [INTERRUPTED] * 2, how)
            with self.assertRaises(SessionRevoked):
                done(server.sessions.authenticate(pair.access.reveal().decode()))
            self.owner_reads(server, started, "result")
            server.cancel(started)
            self.assertIsInstance(server.collect(self.other), Complete)

    def test_used_meanwhile(self) -> None:
        """A credential that was used meanwhile stays valid, though the result is damaged."""
        server, started = self.two()
        login = server.collect(started, code=server.code(started)).login
        self.damage(server, started, "sealed_result", "one bit")
        server.databases.auth.pause()
        used = server.databases.auth.submit(lambda c: session_tables.mark_used(c, login.session_id, 1, server.now_ms()))
        collect = server.begin_collect(started)
        server.databases.auth.resume()
        done(used)
        with self.assertRaises(LoginCollected):
            done(collect)
        self.assertEqual(server.rows("SELECT count(*) FROM session WHERE revoked_ms IS NULL"), [(1,)])

    def test_a_form_of_another_mode(self) -> None:
        """In local mode a damaged row ends the login, though name and password were right."""
        server = self.local_server()
        started, self.other = server.start(), server.start()
        server.sign_in(started)
        code = server.code(started)
        self.damage(server, started, "sealed_identity", "one bit")
        self.assertEqual(server.collect(started, code=code), INTERRUPTED)
        self.assertEqual(server.rows("SELECT 1 FROM session"), [])
