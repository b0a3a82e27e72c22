"""Responses that no honest browser sends are refused at the endpoint, each with its reason in the log."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor

from gamed.crypto import base64url
from tests.account.page_fixtures import BERT, HOME, AccountBrowser
from tests.login.browser_fixtures import Page
from tests.passkeys.authenticator import BE, BS, UP, UV, Authenticator
from tests.passkeys.fixtures import NEW, PasskeyCase
from tests.support.covers import covers

OTHER = generate_private_key(SECP256R1())


class HostileTests(PasskeyCase):
    """Sign-ins to the account; none may leave a session."""

    def setUp(self) -> None:
        super().setUp()
        self.added()
        self.other = self.new_account_browser()

    def refused(self, page: Page, reason: str, browser: AccountBrowser | None = None) -> None:
        self.assertIn("That passkey was not accepted.", page.text)
        self.assertIsNone((browser or self.other).token)
        self.assertIn(f"passkey_{reason}", self.server.security[-1])

    @covers("threats/80", "threats/81")
    def test_spoilt_parts(self) -> None:
        """Each part that differs refuses the response."""
        wrong: dict[str, dict[str, Any]] = {
            "other_origin": {"client_data": {"origin": "https://game.example.evil"}},
            "other_challenge": {"client_data": {"challenge": base64url(bytes(32))}},
            "other_type": {"client_data": {"type": "webauthn.create"}},
            "other_rp_id": {"rp_id": "evil.example"},
            "user_not_verified": {"flags": UP},
            "user_not_present": {"flags": UV},
            "backup_flags": {"flags": UP | UV | BS},
            "unknown_credential": {"credential_id": bytes(32)},
            "other_user_handle": {"user_handle": bytes(32)},
            "signature": {"signature": OTHER.sign(b"x", ECDSA(SHA256()))},
            "malformed": {"client_data": {"challenge": "x" * 5000}},
        }
        for reason, spoilt in wrong.items():
            self.refused(self.use(self.other, **spoilt), reason)

    def test_more_spoilt_parts(self) -> None:
        """Other forms of the same faults."""
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("other_origin", {"client_data": {"origin": "http://game.example"}}),
            ("other_origin", {"client_data": {"origin": "https://game.example:8443"}}),
            ("other_origin", {"client_data": {"origin": None}}),
            ("other_origin", {"client_data": {"crossOrigin": True}}),
            ("other_challenge", {"client_data": {"challenge": 1}}),
            ("malformed", {"client_data": {"challenge": "\ud800"}}),
            ("other_user_handle", {"user_handle": b""}),
            ("backup_flags", {"flags": UP | UV | BE}),
            ("signature", {"signature": b""}),
            ("signature", {"more": b"\xa0"}),
            ("signature", {"flags": UP | UV | 0x40, "more": b"\x81" * 2000}),
        ]
        for reason, spoilt in wrong:
            self.refused(self.use(self.other, **spoilt), reason)

    @covers("threats/80")
    def test_replay(self) -> None:
        """A response works once, in no other browser, and not after ten minutes."""
        form = self.other.get(HOME).form("/account/passkey")
        fields = self.device.get(form["options"])
        third = self.new_account_browser()
        stolen = third.get(HOME).form("/account/passkey")
        stolen["fields"]["ceremony"] = form["fields"]["ceremony"]
        self.refused(third.post(stolen, fields), "challenge_expired", third)
        self.assertIn("Hello", self.other.post(form, fields).text)
        self.other.post(self.other.get(HOME).form("/sign-out"))
        self.refused(self.other.post(form, fields), "challenge_expired")
        form = self.other.get(HOME).form("/account/passkey")
        fields = self.device.get(form["options"])
        self.server.clock.advance(600)
        self.refused(self.other.post(form, fields), "challenge_expired")

    def test_replay_in_a_login(self) -> None:
        """The response for one login, or for the account, signs in no other login."""
        first, second, browser = self.game(), self.game(), self.new_browser()
        mine, theirs = (browser.get(each.url).form("/passkey") for each in (first, second))
        fields = {**self.device.get(mine["options"]), "ceremony": mine["fields"]["ceremony"]}
        self.assertIn("not accepted", browser.post(theirs, fields).text)
        account = self.other.get(HOME).form("/account/passkey")
        fields = {**self.device.get(account["options"]), "ceremony": account["fields"]["ceremony"]}
        self.assertIn("not accepted", browser.post(theirs, fields).text)

    def test_key_of_another_player(self) -> None:
        """A key signs in its own player alone, and cannot be registered twice."""
        self.assertIn("You have that passkey already.", self.add().text)
        forged = Authenticator()
        forged.credential_id, forged.user_handle = self.device.credential_id, self.device.user_handle
        self.refused(self.use(self.other, forged), "signature")

    def test_credential_of_another_player(self) -> None:
        """Another player who registers the id of a credential does not learn that it is known."""
        self.create_bert()
        self.execute(f"UPDATE passkey SET player_id = '{BERT}'")
        page = self.add()
        self.assertIn("That passkey was not accepted. Try again.", page.text)
        self.assertNotIn("already", page.text)
        self.assertEqual([player_id for _, player_id, *_ in self.passkeys], [BERT])

    def test_malformed_fields(self) -> None:
        """Fields that are not canonical base64url, or absent, are refused."""
        for name in ("credential_id", "client_data", "authenticator_data", "signature"):
            for value in ("", "=", "a", "++++", "ü", "AA==", "A" * 6145, "AB"):
                form = self.other.get(HOME).form("/account/passkey")
                page = self.other.post(form, {**self.device.get(form["options"]), name: value})
                self.assertIn("not accepted", page.text, (name, value))
                self.assertIsNone(self.other.token)

    @covers("threats/82")
    def test_large_body(self) -> None:
        """64 KiB are refused before they are read."""
        form = self.browser.get(NEW).form("/add-passkey")
        fields = {**Authenticator().create(form["options"]), "passkey_name": "x"}
        for content in (b"\x81" * 65536, b"\x5b" + b"\xff" * 65535):
            self.assertEqual(self.browser.post(form, {**fields, "attestation": base64url(content)}).status, 413)

    def test_foreign_form(self) -> None:
        """Another site's page, or a form of another browser, sends nothing."""
        form = self.other.get(HOME).form("/account/passkey")
        fields = self.device.get(form["options"])
        self.assertEqual(self.other.post(form, fields, Sec_Fetch_Site="cross-site").status, 403)
        self.assertEqual(self.new_account_browser().post(form, fields).status, 403)


class RegistrationTests(PasskeyCase):
    """Registrations; none may leave a passkey."""

    def setUp(self) -> None:
        super().setUp()
        self.browser.sign_in()

    def test_spoilt_parts(self) -> None:
        """Each part that differs refuses the registration."""
        rsa = {1: 3, 3: -257, -1: b"\x01" * 256, -2: b"\x01\x00\x01"}
        off_curve = {1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)}
        wrong: list[dict[str, Any]] = [
            {"client_data": {"origin": "https://evil.example"}},
            {"client_data": {"challenge": base64url(bytes(32))}},
            {"client_data": {"type": "webauthn.get"}},
            {"rp_id": "evil.example"},
            {"flags": UP},
            {"flags": UV},
            {"flags": UP | UV | BS},
            {"public_key": cbor.encode({**rsa, 3: -65535})},
            {"public_key": cbor.encode({**rsa, -1: b"\xff" * 128})},
            {"public_key": cbor.encode({**rsa, -1: b"\xff" * 513})},
            {"public_key": cbor.encode({**rsa, -1: b"\xff" * 384, -2: b"\x7f" * 383})},
            {"public_key": cbor.encode({**rsa, -1: b"\xff" * 256, -2: b"\x03"})},
            {"public_key": cbor.encode({**rsa, -1: 1})},
            {"public_key": cbor.encode(off_curve)},
            {"public_key": cbor.encode({1: 2, 3: -7})},
            {"public_key": b"\x81" * 3000},
            {"public_key": b"\xa0"},
            {"attestation": b"\x81" * 4000},
            {"attestation": b"\x9b" + b"\xff" * 8},
            {"attestation": b"\xa1\x80\x80"},
            {"attestation": b"\xc0"},
            {"attestation": b""},
        ]
        for spoilt in wrong:
            self.server.clock.advance(6)
            page = self.add(Authenticator(), **spoilt)
            self.assertEqual(page.status, 400, spoilt)
            self.assertIn("That passkey was not accepted.", page.text)
        self.assertEqual(self.passkeys, [])

    def test_replay(self) -> None:
        """A registration counts once, and in its own session alone."""
        form = self.browser.get(NEW).form("/add-passkey")
        fields = {**self.device.create(form["options"]), "passkey_name": "x"}
        bert = self.new_account_browser()
        bert.sign_in()
        theirs = bert.get(NEW).form("/add-passkey")
        self.assertEqual(bert.post(theirs, {**fields, "ceremony": form["fields"]["ceremony"]}).status, 400)
        self.assertEqual(self.browser.post(form, fields).status, 200)
        self.execute("DELETE FROM passkey")
        self.assertEqual(self.browser.post(form, fields).status, 400)
        self.assertEqual(self.passkeys, [])

    @covers("threats/82")
    def test_a_thousand_registrations(self) -> None:
        """They wait for the limit of changes after twenty, whether or not they are accepted."""
        form = self.browser.get(NEW).form("/add-passkey")
        statuses = []
        for _ in range(1000):
            fields = {"passkey_name": "x", "client_data": "AA", "attestation": "AA"}
            statuses.append(self.browser.post(form, fields).status)
        self.assertEqual(statuses[:20], [400] * 20)
        self.assertEqual(set(statuses[20:]), {429})
        self.assertEqual(self.passkeys, [])

    def test_long_credential(self) -> None:
        """An id of a credential has 16 to 1,023 bytes (WebAuthn 4)."""
        for length, status in ((15, 400), (1024, 400), (1023, 200)):
            device = Authenticator()
            device.credential_id = b"i" * length
            self.assertEqual(self.add(device).status, status)
