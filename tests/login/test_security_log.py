"""These tests read the security events of sign-ins, and the approval code of a new player.

See docs/protocol.md: Collect, Accounts.
"""

from sqlite3 import Connection, IntegrityError
from string import digits

from gamed.database.postgresql.error_mapping import PostgresqlError
from gamed.login.browser import Ended
from gamed.login.collect import Complete
from gamed.login.errors import InvalidProof, TooManyLogins
from gamed.login.keys import approval_codes, typed_approval_code
from gamed.login.transaction import LoginIntent
from gamed.outcomes import LoginFailure
from gamed.players import tables as player_tables
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import ANNA, APPROVAL, REQUEST, LoginCase, LoginServer


class SecurityLogTests(LoginCase):
    def complete(self, server: LoginServer, who: str = "anna") -> Complete:
        started = server.signed_in(who)
        answer = server.collect(started, code=server.code(started))
        assert isinstance(answer, Complete), answer
        return answer

    def test_sign_in(self) -> None:
        """The collect that makes the session logs one line, a repeated one none; no name and no address."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        for code in (server.code(started), None, None):
            session = server.collect(started, code=code).login.session_id
        self.assertEqual(server.security, [f"sign_in player={ANNA} session={session} provider=local created=no"])

    def test_new_player(self) -> None:
        """A new player has `created=yes` and the provider's name in the configuration."""
        server = self.oauth_server(FakeProvider())
        answer = self.complete(server)
        player, session = answer.result.player_id, answer.login.session_id
        self.assertEqual(server.security, [f"sign_in player={player} session={session} provider=discord created=yes"])

    def test_link_and_adopt(self) -> None:
        """A link logs one line with its player; adopting an account logs a link and a sign-in."""
        server = self.oauth_server(FakeProvider(), FakeProvider("google"))
        answer = self.complete(server)
        player, token = answer.result.player_id, answer.result.pair.access.reveal().decode()
        linking = server.signed_in("bo", intent=LoginIntent.LINK, token=token, provider="google")
        server.collect(linking, code=server.code(linking))
        self.assertEqual(server.security[1:], [f"identity_linked player={player} provider=google"])
        adopting = server.start(intent=LoginIntent.ADOPT)
        state = server.redirect_state(adopting, name="Anna", password="correct horse")
        server.finish_callback(state, who="chidi")
        session = server.collect(adopting, code=server.code(adopting)).login.session_id
        self.assertEqual(
            server.security[2:],
            [
                f"identity_linked player={ANNA} provider=discord",
                f"sign_in player={ANNA} session={session} provider=discord created=no",
            ],
        )

    def test_refusals(self) -> None:
        """Blocked players, wrong passwords, too many of them, and "This was not me" log a refusal."""
        server = self.local_server(passwords_per_minute=2)
        started = server.start()
        for _ in range(3):
            server.sign_in(started, password="wrong horse")
        for _ in range(2):
            server.decline(started)
        server.clock.advance(120)
        server.write(lambda connection: player_tables.set_state(connection, ANNA, "blocked"))
        blocked = server.start()
        server.sign_in(blocked)
        server.collect(blocked, code=server.code(blocked))
        refused = ("sign_in_refused player={} provider=local outcome={} request=" + REQUEST).format
        self.assertEqual(
            server.security,
            [
                *[refused(ANNA, "wrong_password")] * 2,
                refused("-", "too_many_passwords"),
                refused("-", "login_denied"),
                refused(ANNA, "player_blocked"),
            ],
        )

    def test_wrong_codes(self) -> None:
        """The fifth wrong finish code ends the login and logs a line."""
        server = self.local_server()
        started = server.start()
        server.sign_in(started)
        for _ in range(5):
            self.assertRaises(InvalidProof, server.collect, started, code="BBB-BBB")
        self.assertEqual(
            server.security,
            [f"sign_in_refused player=- provider=local outcome=proof_attempts_exceeded request={REQUEST}"],
        )


class ApprovalTests(LoginCase):
    def test_code(self) -> None:
        """Game, page and owner see the same code; it stays the same until the player is approved."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        codes = set()
        for _ in range(2):
            started = server.signed_in("bo")
            answer = server.collect(started, code=server.code(started))
            self.assertEqual(answer.outcome, LoginFailure.PLAYER_PENDING)
            page = server.result(started)
            self.assertEqual(page, Ended(LoginFailure.PLAYER_PENDING, answer.approval_code))
            codes.add(answer.approval_code)
        [(player,)] = server.rows("SELECT player_id FROM player WHERE state = 'pending'")
        self.assertEqual(server.rows("SELECT approval_code FROM player WHERE player_id = :p", p=player), [(*codes,)])
        self.assertRegex(codes.pop(), "^[0-9]{6}$")
        server.write(lambda connection: player_tables.change_state(connection, player, "pending", "active"))
        started = server.signed_in("bo")
        self.assertEqual(server.collect(started, code=server.code(started)).result.player_id, player)

    def test_two_wait(self) -> None:
        """A new player gets the next code if another player who waits has the first one."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        first, second, *_ = approval_codes(server.keys.indexer, ANNA)

        def code_of_anna(connection: Connection) -> str | None:
            return player_tables.first_free_code(connection, approval_codes(server.keys.indexer, ANNA))

        self.assertEqual(server.write(code_of_anna), first)
        server.write(lambda c: player_tables.create_player(c, "ply_bo", 0, "pending", first))
        self.assertEqual(server.write(code_of_anna), second)
        server.write(lambda c: player_tables.change_state(c, "ply_bo", "pending", "blocked"))
        self.assertEqual(server.write(code_of_anna), second)
        server.write(lambda c: player_tables.lift_block(c, "ply_bo"))
        server.write(lambda c: player_tables.change_state(c, "ply_bo", "pending", "active"))
        self.assertEqual(server.write(code_of_anna), first)

    def test_no_two_rows(self) -> None:
        """The database refuses a second player with the same code."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        server.write(lambda c: player_tables.create_player(c, "ply_bo", 0, "pending", "482917"))
        with self.assertRaises((IntegrityError, PostgresqlError)):
            server.write(lambda c: player_tables.create_player(c, "ply_cy", 0, "pending", "482917"))

    def test_no_code_is_left(self) -> None:
        """A collect that finds no free code is refused as busy and changes nothing; the game may collect again."""
        server = self.oauth_server(FakeProvider(), registration=APPROVAL)
        started = server.signed_in("bo")
        code = server.code(started)
        numbers = [f"{number:05}" for number in range(100_000)]
        taken = [f"{number}{-_luhn(number + '0') % 10}" for number in numbers]
        for begin in range(0, len(taken), 1000):
            rows = ", ".join(f"('ply_{each}', 'pending', 0, '{each}', 0)" for each in taken[begin : begin + 1000])
            query = f"INSERT INTO player (player_id, state, approved, approval_code, created_ms) VALUES {rows}"
            server.write(lambda c, query=query: c.execute(query).rowcount)
        with self.assertRaises(TooManyLogins):
            server.collect(started, code=code)
        server.write(lambda c: c.execute("DELETE FROM player WHERE approval_code < '250000'").rowcount)
        self.assertEqual(server.collect(started, code=code).outcome, LoginFailure.PLAYER_PENDING)

    def test_one_wrong_digit(self) -> None:
        """A code with one wrong digit is the code of no player at all."""
        indexer = self.oauth_server(FakeProvider()).keys.indexer
        codes = {code for number in range(40) for code in approval_codes(indexer, f"ply_{number}")}
        self.assertGreater(len(codes), 2000)
        for code in codes:
            for place, digit in enumerate(code):
                wrong = {f"{code[:place]}{other}{code[place + 1 :]}" for other in digits if other != digit}
                self.assertEqual(wrong & codes, set(), code)

    def test_typed(self) -> None:
        """Dashes and spaces of a typed code do not matter; another text is not a code."""
        for typed in ("482917", "482-917", " 482 917 ", "482\u2010917"):
            self.assertEqual(typed_approval_code(typed), "482917")
        for typed in ("", "48291", "4829170", "BKTRVW", "48291\u0667", "48291\u00b2", "ply_482917"):
            self.assertIsNone(typed_approval_code(typed), typed)


def _luhn(code: str) -> int:
    """Return the sum of ISO/IEC 7812-1, a multiple of ten for a valid number."""
    doubled = [2 * int(digit) if place % 2 else int(digit) for place, digit in enumerate(reversed(code))]
    return sum(value // 10 + value % 10 for value in doubled)
