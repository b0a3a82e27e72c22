"""From the key file to a master key, as the owner walks it: edit, set the variable, restart."""

import json
from functools import partial
from secrets import token_bytes

from gamed.cli import keys
from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, Connection
from gamed.passkeys import recovery_tables, tables
from gamed.passkeys.limits import CODES
from gamed.passkeys.model import Credential, NewPasskey
from gamed.passkeys.recovery_rules import RecoveryCodes
from tests.cli.process import CommandTestCase
from tests.config.fixtures import KEY_TEXT, LOCAL, changed
from tests.support.covers import covers
from tests.support.stores import sqlite_files


def insert_passkey(connection: Connection, key: Secret) -> None:
    """Store a passkey and recovery codes of the only player, with the key in a file."""
    [(player_id,)] = connection.execute("SELECT player_id FROM player").fetchall()
    indexer = Keys.of(key, token_bytes).indexer
    recovery_tables.replace(connection, indexer, player_id, RecoveryCodes.generate(token_bytes), 1)
    new = NewPasskey(Credential(bytes(32), b"", bytes(32)), 0, False, False)
    named = {"passkey_id": "pky_1", "player_id": player_id, "rp_id": "game.example", "name": "Phone"}
    tables.insert(connection, Keys.of(key, token_bytes), new, **named, now_ms=1)


@covers("2.1/6")
@sqlite_files("a key file; PostgreSQL needs a master key from the first start on")
class RekeyTests(CommandTestCase):
    def test_accounts_are_kept(self) -> None:
        """The first start with a master key writes auth.db anew, retires the key file, and prints what was kept."""
        process, _ = self.serve()
        self.assertEqual(self.gamed("players", "add", "Anna", "--password-stdin", stdin="correct horse\n")[0], 0)
        self.stop(process)
        key = (self.data / "auth.key").read_bytes()
        secret = keys.read(self.data)
        assert secret is not None
        self.run_transaction(AUTH, partial(insert_passkey, key=secret))
        [player] = json.loads(self.gamed("passkeys", "list", "--json")[1])["recovery_codes"]
        self.assertEqual(player["left"], CODES)
        filed = self.gamed("key", "fingerprint")[1]

        self.config.write_text(json.dumps(changed(LOCAL, master_key_env="GAMED_MASTER_KEY")))
        self.environ = {"GAMED_MASTER_KEY": KEY_TEXT}
        self.assertEqual(self.gamed("key", "fingerprint")[1], filed)
        process, _ = self.serve()
        self.assertIn("1 local account kept", self.output())
        self.assertEqual((self.data / "auth.key.retired").read_bytes(), key)
        self.assertFalse((self.data / "auth.key").exists())
        self.assertNotEqual(self.gamed("key", "fingerprint")[1], filed)
        [player] = json.loads(self.gamed("players", "list", "--json")[1])
        self.assertEqual(player["name"], "Anna")
        self.assertEqual(self.gamed("players", "token", "ANNA", "--json")[0], 0)
        listed = json.loads(self.gamed("passkeys", "list", "--json")[1])
        [passkey] = listed["passkeys"]
        self.assertEqual(listed["recovery_codes"], [])
        self.assertEqual((passkey["player"], passkey["name"]), (player["id"], "Phone"))
        self.stop(process)

        process, _ = self.serve()
        self.assertNotIn("kept", self.output())
        self.stop(process)
