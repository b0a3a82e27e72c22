"""`gamed passkeys` beside a running service."""

from base64 import b64decode
from secrets import token_bytes

from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, Connection
from gamed.passkeys import recovery_tables, tables, ways_tables
from gamed.passkeys.model import Credential, NewPasskey
from gamed.passkeys.recovery_rules import RecoveryCodes, code_index
from gamed.sessions import browser_tables
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from tests.cli.process import CommandTestCase
from tests.cli.test_people import PeopleCase
from tests.config.fixtures import KEY_TEXT


class PasskeyCommandTests(PeopleCase):
    """Anna has a passkey, and two browsers that are signed in; the passkey opened one of them."""

    def setUp(self) -> None:
        CommandTestCase.setUp(self)
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        self.write_config({"mode": "local", "master_key_env": "GAMED_MASTER_KEY"})
        self.process, self.port = self.serve()
        self.anna, self.ben = (self.add(name) for name in ("Anna", "ben"))
        keys = Keys.of(Secret(b64decode(KEY_TEXT)), token_bytes)
        new = NewPasskey(Credential(b"i" * 32, b"", b"h" * 32), 0, True, True)
        named = {"passkey_id": "pky_1", "player_id": self.anna, "rp_id": "game.example", "name": "Phone"}

        def transaction(connection: Connection) -> None:
            tables.insert(connection, keys, new, **named, now_ms=1)
            for passkey_id in ("pky_1", None):
                browser = NewBrowserSession.generate(token_bytes, BrowserName())
                who = {"player_id": self.anna, "provider": "local", "now_ms": 1, "verified": True}
                browser_tables.open_browser(connection, keys.indexer, browser, **who, passkey_id=passkey_id)

        self.run_transaction(AUTH, transaction)

    def test_list_and_reset(self) -> None:
        """The list has names and hosts; a reset deletes the passkeys and ends their sessions alone."""
        [listed] = self.done("passkeys", "list")["passkeys"]
        self.assertEqual((listed["player"], listed["name"], listed["host"]), (self.anna, "Phone", "game.example"))
        self.assertEqual(self.done("passkeys", "list", "ben")["passkeys"], [])
        self.assertIn("Phone", self.gamed("passkeys", "list", "anna")[1])
        reset = {"player": self.anna, "removed": 1, "recovery_codes": 0, "revoked": 1}
        self.assertEqual(self.done("passkeys", "reset", "anna"), reset)
        self.assertEqual(self.rows(AUTH, "SELECT passkey_id FROM passkey"), [])
        self.assertEqual(self.rows(AUTH, "SELECT passkey_id FROM browser_session"), [(None,)])
        self.assertEqual(self.done("passkeys", "reset", "anna")["removed"], 0)

    def test_recovery_codes(self) -> None:
        """The list counts the codes that are left; a reset deletes them, and ends the sessions that they opened."""
        keys = Keys.of(Secret(b64decode(KEY_TEXT)), token_bytes)
        new = RecoveryCodes.generate(token_bytes)

        def transaction(connection: Connection) -> None:
            recovery_tables.replace(connection, keys.indexer, self.ben, new, now_ms=1)
            ways_tables.use_code(connection, code_index(keys.indexer, self.ben, new.codes[0]), self.ben)
            browser = NewBrowserSession.generate(token_bytes, BrowserName())
            who = {"player_id": self.ben, "provider": "recovery_code", "now_ms": 1, "verified": False}
            browser_tables.open_browser(connection, keys.indexer, browser, **who)

        self.run_transaction(AUTH, transaction)
        self.assertEqual(self.done("passkeys", "list")["recovery_codes"], [{"player": self.ben, "left": 9}])
        shown = self.gamed("passkeys", "list", "ben")[1]
        self.assertIn("no passkeys", shown)
        self.assertRegex(shown, rf"\n9 +{self.ben} +ben")
        reset = {"player": self.ben, "removed": 0, "recovery_codes": 9, "revoked": 1}
        self.assertEqual(self.done("passkeys", "reset", "ben"), reset)
        self.assertEqual(self.done("passkeys", "list", "ben")["recovery_codes"], [{"player": self.ben, "left": 0}])
        self.assertRegex(self.gamed("passkeys", "list", "ben")[1], rf"\n0 +{self.ben} +ben")
        self.assertEqual(self.done("passkeys", "list")["recovery_codes"], [])

    def test_reset_of_the_last_way(self) -> None:
        """A reset says if the player has no other way to sign in, such as an account of the other mode."""
        self.assertNotIn("no other way", self.gamed("passkeys", "reset", "anna")[1])
        self.run_transaction(AUTH, lambda connection: connection.execute("DELETE FROM local_account").rowcount)
        self.assertIn("no other way to sign in now", self.gamed("passkeys", "reset", self.anna)[1])
