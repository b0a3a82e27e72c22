"""Where there are passkeys follows from `public_url` alone, and what becomes of them when it or the key changes."""

import json

from twisted.internet.defer import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.crypto import Keys, Secret
from gamed.ops.findings import Level
from gamed.ops.machine_checks import check_passkeys
from gamed.passkeys import tables
from gamed.passkeys.ceremony import PasskeySite
from gamed.passkeys.errors import PasskeyRefused
from tests.account.page_fixtures import HOME
from tests.login.fixtures import ANNA, LoginServer
from tests.passkeys.fixtures import PasskeyCase
from tests.support.covers import covers


class SiteTests(SynchronousTestCase):
    """The site of an address."""

    def test_addresses(self) -> None:
        """Https with a host name, and localhost; no address of the internet protocol, and no plain http elsewhere."""
        for url, rp_id in (
            ("https://game.example", "game.example"),
            ("https://game.example:8443", "game.example"),
            ("http://localhost:8080", "localhost"),
            ("https://localhost", "localhost"),
        ):
            self.assertEqual(PasskeySite.of(url), PasskeySite(rp_id, url))
        for url in (None, "", "http://127.0.0.1:8080", "https://192.0.2.1", "https://[2001:db8::1]", "http://[::1]"):
            self.assertIsNone(PasskeySite.of(url), url)

    def test_doctor(self) -> None:
        """`doctor` says why there are none, and how many are of another host."""
        for url, void, level, words in (
            ("http://127.0.0.1:8080", 0, Level.SKIPPED, "browsers allow no passkeys"),
            ("https://game.example", 0, Level.OK, "players can add passkeys"),
            ("https://game.example", 2, Level.WARNING, "2 of another host than game.example"),
        ):
            found = check_passkeys(url, void)
            self.assertEqual(found.level, level)
            self.assertIn(words, found.text)


class ChangeTests(PasskeyCase):
    """A server whose address or key changes, and one with several processes."""

    def test_other_host(self) -> None:
        """Passkeys of another host are counted, and shown as ones that are not offered."""
        self.added()
        counted = self.server.write(lambda c: tables.count_others(c, "game.example"))
        self.execute("UPDATE passkey SET rp_id = 'old.example'")
        self.assertEqual((counted, self.server.write(lambda c: tables.count_others(c, "game.example"))), (0, 1))
        self.assertIn("not offered now", self.browser.get("/auth/account").text)

    def test_other_key(self) -> None:
        """After a change of the master key passkeys are found and read with the new one."""
        self.added()
        new = Keys.of(Secret(b"n" * 32), self.server.random)
        self.server.write(lambda c: tables.rekey(c, self.server.keys, new))
        found = self.server.write(lambda c: tables.find(c, new, self.device.credential_id))
        self.assertEqual((found.player_id, found.credential.user_handle), (ANNA, self.device.user_handle))
        self.assertEqual([each.name for each in self.server.write(lambda c: tables.list_of(c, new, ANNA))], ["Phone"])

    def test_damaged(self) -> None:
        """A passkey that cannot be decrypted signs nobody in, which is an event, and can still be removed."""
        self.added()
        self.execute("UPDATE passkey SET sealed_credential = sealed_name, sealed_name = sealed_credential")
        self.assertIn("not accepted", self.use(self.new_account_browser()).text)
        self.assertEqual(len([line for line in self.server.security if "decryption_failed" in line]), 1)
        self.assertIn("Hello, Anna", self.browser.get(HOME).text)
        self.assertEqual(self.own_passkeys(), [""])
        self.assertIn("You have that passkey already", self.add().text)
        self.assertEqual(self.remove(self.id_of()).status, 200)
        self.assertIn("The passkey is added", self.add().text)

    @covers("threats/80")
    def test_two_processes(self) -> None:
        """A response that one process has accepted is refused by another."""
        self.added()
        first, second = self.server, LoginServer(self, beside=self.server)
        prompt = first.parts.passkeys.prompt("row")
        assert prompt is not None
        fields = {**self.device.get(prompt.options), "ceremony": prompt.sealed}
        proven = self.successResultOf(ensureDeferred(first.parts.passkeys.service.get().prove("row", fields)))
        self.assertEqual(proven.player_id, ANNA)
        self.assertEqual(json.loads(prompt.options)["publicKey"]["rpId"], "game.example")
        again = ensureDeferred(second.parts.passkeys.service.get().prove("row", fields))
        self.assertEqual(self.failureResultOf(again, PasskeyRefused).value.refusal.value, "challenge_expired")
