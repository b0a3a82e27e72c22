"""Rows of a sign-in that somebody changed: a typed end for the game, a page, a line for the owner (PROTOCOL 3.5)."""

from typing import Any

from gamed.login.browser import Ended
from gamed.login.collect import Complete, Failed
from gamed.login.errors import LoginCollected
from gamed.login.start import StartedLogin
from gamed.outcomes import LoginFailure
from gamed.sessions import tables as session_tables
from gamed.sessions.errors import SessionRevoked
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import Desk, HandoffCase, done
from tests.support.covers import covers

INTERRUPTED = Failed(LoginFailure.LOGIN_INTERRUPTED)
LASTING = ("player", "identity", "session", "access_token", "refresh_credential", "local_account")
HOW = {
    "one bit": "substr({0}, 1, length({0}) - 1) || x'00'",
    "cut off": "substr({0}, 1, 5)",
    "gone": "NULL",
    "empty": "x''",
    "of another login": "(SELECT {0} FROM login AS other WHERE other.login_id <> login.login_id)",
    "of another column": "coalesce(sealed_{1}, x'00')",
}
OTHER_COLUMN = {"sealed_proof": "identity", "sealed_identity": "proof", "sealed_result": "proof"}


class Damaged(HandoffCase):
    def two(self) -> tuple[Desk, StartedLogin]:
        """Signed in twice, by two people; the first sign-in is the one to be damaged."""
        desk = self.oauth(FarProvider())
        started = desk.signed_in("anna")
        self.other = desk.signed_in("bo")
        return desk, started

    def damage(self, desk: Desk, started: StartedLogin, column: str, how: str) -> None:
        value = HOW[how].format(column, OTHER_COLUMN[column])
        query = f"UPDATE login SET {column} = CAST({value} AS BLOB) WHERE login_id = :login_id"
        desk.write(lambda c: c.execute(query, {"login_id": started.login.login_id}) and None)

    def lasting(self, desk: Desk) -> list[Any]:
        return [desk.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in LASTING]

    def owner_reads(self, desk: Desk, started: StartedLogin, value: str) -> None:
        """One line that names what was damaged, and that is all it says."""
        lines = [line for line in desk.security if "decryption_failed" in line]
        self.assertEqual(lines, [f"decryption_failed value={value} row={started.login.login_id}"])

    @covers("2.2/12")
    def test_what_is_ready(self) -> None:
        """Proof or identity, damaged in every way: the collect ends the login, nothing lasting is written."""
        for column, value in (("sealed_proof", "proof"), ("sealed_identity", "identified")):
            for how in HOW:
                desk, started = self.two()
                code, before = desk.code(started), self.lasting(desk)
                self.damage(desk, started, column, how)
                self.assertEqual(desk.collect(started, code=code), INTERRUPTED, (column, how))
                self.assertEqual(desk.collect(started, code=code), INTERRUPTED, (column, how))
                self.assertEqual(self.lasting(desk), before)
                self.assertEqual(desk.done_page(started), Ended(LoginFailure.LOGIN_INTERRUPTED))
                self.owner_reads(desk, started, value)
                self.assertIsInstance(desk.collect(self.other, code=desk.code(self.other)), Complete)

    def test_the_page_of_the_code(self) -> None:
        """The browser finds it first: a page says so, with and without a port, and the waiting game is told."""
        for port in (None, 51004):
            for how in HOW:
                desk = self.oauth(FarProvider())
                self.other, started = desk.signed_in("bo"), desk.signed_in("anna", port=port)
                self.damage(desk, started, "sealed_proof", how)
                waiting = desk.asked(started, wait_seconds=25, seen="proof_required")
                self.assertEqual(desk.done_page(started), Ended(LoginFailure.LOGIN_INTERRUPTED), how)
                self.assertEqual(done(waiting), INTERRUPTED)
                self.owner_reads(desk, started, "proof")

    def test_what_was_delivered(self) -> None:
        """Credentials that cannot be given again are nobody's: the session ends, and the game signs in once more."""
        for how in HOW:
            desk, started = self.two()
            desk.collect(self.other, code=desk.code(self.other))
            pair = desk.collect(started, code=desk.code(started)).result.pair
            self.damage(desk, started, "sealed_result", how)
            self.assertEqual([desk.collect(started), desk.collect(started)], [INTERRUPTED] * 2, how)
            with self.assertRaises(SessionRevoked):
                done(desk.sessions.authenticate(pair.access.reveal().decode()))
            self.owner_reads(desk, started, "result")
            desk.cancel(started)
            self.assertIsInstance(desk.collect(self.other), Complete)

    def test_used_meanwhile(self) -> None:
        """A credential that was used while the result was found broken is not taken away."""
        desk, started = self.two()
        login = desk.collect(started, code=desk.code(started)).login
        self.damage(desk, started, "sealed_result", "one bit")
        desk.stores.auth.pause()
        used = desk.stores.auth.submit(lambda c: session_tables.mark_used(c, login.session_id, 1, desk.now_ms()))
        collect = desk.asked(started)
        desk.stores.auth.resume()
        done(used)
        with self.assertRaises(LoginCollected):
            done(collect)
        self.assertEqual(desk.rows("SELECT count(*) FROM session WHERE revoked_ms IS NULL"), [(1,)])

    def test_a_form_of_another_mode(self) -> None:
        """In local mode, too: name and password were right, the row was not."""
        desk = self.desk()
        started, self.other = desk.start(), desk.start()
        desk.sign_in(started)
        code = desk.code(started)
        self.damage(desk, started, "sealed_identity", "one bit")
        self.assertEqual(desk.collect(started, code=code), INTERRUPTED)
        self.assertEqual(desk.rows("SELECT 1 FROM session"), [])
