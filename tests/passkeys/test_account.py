"""Players add, use, rename and remove passkeys on their account's pages, and sign in from games with them."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from tests.account.page_fixtures import HOME
from tests.login.fixtures import ANNA
from tests.passkeys.authenticator import BE, BS, UP, UV, Authenticator
from tests.passkeys.fixtures import NEW, PasskeyCase
from tests.support.covers import covers


class PasskeyTests(PasskeyCase):
    """A player's own passkeys."""

    def test_add_and_sign_in(self) -> None:
        """A passkey that was added signs in another browser as the same player."""
        self.added()
        [(_, player_id, count, synced, backed_up)] = self.passkeys
        self.assertEqual((player_id, count, synced, backed_up), (ANNA, 1, 0, 0))
        other = self.new_account_browser()
        self.assertIn("Hello, Anna", self.use(other).text)
        self.assertEqual(self.passkeys[0][2], 2)
        self.assertEqual(
            self.server.rows("SELECT provider FROM browser_session WHERE passkey_id IS NOT NULL")[0][0], "passkey"
        )

    def test_game_sign_in(self) -> None:
        """A passkey signs in a game, whose session ends with the passkey."""
        self.added()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/passkey")
        result = browser.post(form, self.device.get(form["options"]))
        self.assertEqual(result.status, 303, result.text)
        shown = browser.get(result.headers["location"])
        collected = game.collect(finish_code=shown.html.partition('class="code">')[2][:7])
        self.assertEqual(collected.json["player"]["id"], ANNA)
        token = {"Authorization": f"Bearer {collected.json['access_token']}"}
        self.assertEqual(self.site.get("/game/", token).status, 200)
        [(passkey_id, *_)] = self.passkeys
        form = self.browser.get(f"{HOME}/passkeys/{passkey_id}").form("/remove-passkey")
        self.assertIn("The passkey is removed", self.browser.post(form).text)
        self.assertEqual(self.passkeys, [])
        self.assertEqual(self.site.get("/game/", token).json["code"], "session_revoked")

    def test_removed_before_the_game_collects(self) -> None:
        """A sign-in whose passkey was removed before the game collected is refused."""
        self.added()
        game, browser = self.game(), self.new_browser()
        form = browser.get(game.url).form("/passkey")
        shown = browser.get(browser.post(form, self.device.get(form["options"])).headers["location"])
        self.execute("DELETE FROM passkey")
        collected = game.collect(finish_code=shown.html.partition('class="code">')[2][:7])
        self.assertEqual(collected.json["problem"]["code"], "session_revoked")

    def test_removal_ends_its_own_browser(self) -> None:
        """A browser that signed in with a passkey is signed out when that is removed; others stay."""
        self.added()
        other = self.new_account_browser()
        self.use(other)
        [(passkey_id, *_)] = self.passkeys
        page = other.post(other.get(f"{HOME}/passkeys/{passkey_id}").form("/remove-passkey"))
        self.assertEqual(page.heading, "The passkey is removed")
        self.assertIsNone(other.token)
        self.assertIn("Hello, Anna", self.browser.get(HOME).text)

    def test_rename(self) -> None:
        """A passkey gets another name; a name that cannot be used is shown again."""
        self.added()
        [(passkey_id, *_)] = self.passkeys
        form = self.browser.get(f"{HOME}/passkeys/{passkey_id}").form("/rename-passkey")
        self.assertEqual(form["fields"]["passkey_name"], "Phone")
        refused = self.browser.post(form, {"passkey_name": "x" * 65})
        self.assertEqual((refused.status, refused.form("/rename-passkey")["fields"]["passkey_name"]), (400, "x" * 65))
        self.assertIn("Red key", self.browser.post(form, {"passkey_name": "Red key"}).text)

    def test_ten_at_most(self) -> None:
        """A player keeps ten of 30 registrations; the account then offers no more."""
        self.browser.sign_in()
        form = self.browser.get(NEW).form("/add-passkey")
        for number in range(30):
            self.server.clock.advance(6)
            form = self.browser.get(NEW).form("/add-passkey") if number < 10 else form
            self.browser.post(form, {"passkey_name": str(number), **Authenticator().create(form["options"])})
        self.assertEqual(len(self.passkeys), 10)
        self.assertNotIn(NEW, self.browser.get(HOME).html)
        page = self.browser.get(NEW)
        self.assertEqual((page.status, page.forms), (409, []))
        self.assertIn("You have as many passkeys as this server keeps.", page.text)

    def test_unusable_name(self) -> None:
        """A passkey that is on the device already is kept, under a name that this server chooses."""
        self.browser = self.new_account_browser("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0")
        self.browser.sign_in()
        for name in ("\x01", "x" * 65, " "):
            self.assertIn("The passkey is added", self.add(Authenticator(), name).text)
        self.assertEqual(self.own_passkeys(), ["Linux / Firefox"] * 3)

    def test_one_handle(self) -> None:
        """All passkeys of a player have one user handle, which is not the player's id; the page excludes those."""
        self.added()
        second = Authenticator()
        self.add(second)
        self.assertEqual(second.user_handle, self.device.user_handle)
        self.assertEqual(len(second.user_handle), 32)
        self.assertNotIn(ANNA.encode(), second.user_handle)

    @covers("threats/81")
    def test_asks_for_a_recent_sign_in(self) -> None:
        """Making and removing need a sign-in within ten minutes, for which a passkey counts; then the page is back."""
        self.added()
        self.server.clock.advance(601)
        page = self.browser.get(NEW)
        self.assertEqual((page.status, page.heading), (403, "Sign in again"))
        form = page.form("/account/passkey")
        self.assertEqual(self.browser.post(form, self.device.get(form["options"])).heading, "Add a passkey")

    def test_algorithms(self) -> None:
        """Devices with Ed25519, and with RSA as in Windows Hello, sign in, too."""
        self.browser.sign_in()
        for key in (Ed25519PrivateKey.generate(), *(generate_private_key(65537, bits) for bits in (2048, 4096))):
            device = Authenticator(key=key)
            self.assertIn("The passkey is added", self.add(device).text)
            self.assertIn("Hello, Anna", self.use(self.new_account_browser(), device).text)

    def test_count_back(self) -> None:
        """A sign count that goes back is an event for the player, and signs in nevertheless."""
        self.added()
        self.use(self.new_account_browser(), count=7)
        self.assertIn("Hello", self.use(self.new_account_browser(), count=7).text)
        self.assertEqual(len([line for line in self.server.security if "passkey_count_back" in line]), 1)
        self.assertEqual(self.passkeys[0][2], 7)

    def test_synced(self) -> None:
        """A synced passkey does not count, and its backup state is kept up to date."""
        device = Authenticator(counts=False, flags=UP | UV | BE)
        self.browser.sign_in()
        self.add(device)
        for _ in range(2):
            self.assertIn("Hello", self.use(self.new_account_browser(), device, flags=UP | UV | BE | BS).text)
        self.assertEqual(self.passkeys[0][2:], (0, 1, 1))
        self.assertFalse([line for line in self.server.security if "passkey_count_back" in line])

    def test_blocked(self) -> None:
        """A blocked player's passkey signs nobody in."""
        self.added()
        self.execute("UPDATE player SET state = 'blocked'")
        other = self.new_account_browser()
        self.use(other)
        self.assertIsNone(other.token)

    def test_last_way(self) -> None:
        """The last way to sign in stays."""
        self.added()
        self.execute("DELETE FROM local_account")
        [(passkey_id, *_)] = self.passkeys
        form = self.browser.get(f"{HOME}/passkeys/{passkey_id}").form("/remove-passkey")
        self.assertEqual(self.browser.post(form).status, 409)
        self.assertEqual(len(self.passkeys), 1)

    def test_last_of_this_host(self) -> None:
        """A passkey of another host is no way to sign in: it can be removed, and the one of this host stays."""
        self.added()
        self.add(Authenticator(), "Old")
        self.execute("DELETE FROM local_account")
        last = self.passkeys[1][0]
        self.execute(f"UPDATE passkey SET rp_id = 'old.example' WHERE passkey_id = '{last}'")
        void, present = self.id_of("rp_id = 'old.example'"), self.id_of("rp_id = 'game.example'")
        self.assertEqual(self.remove(present).status, 409)
        self.assertEqual(self.remove(void).status, 200)
        self.assertEqual(self.remove(present).status, 409)
        self.assertEqual(len(self.passkeys), 1)

    def test_at_rest(self) -> None:
        """The database holds neither the id of a credential nor the name or handle in clear."""
        self.added()
        [row] = self.server.rows("SELECT * FROM passkey")
        stored = b"".join(each if isinstance(each, bytes) else str(each).encode() for each in row)
        for secret in (self.device.credential_id, self.device.user_handle, b"Phone"):
            self.assertNotIn(secret, stored)

    def test_own_data(self) -> None:
        """The player's export names the passkeys."""
        self.added()
        self.assertEqual(self.own_passkeys(), ["Phone"])


class PolicyTests(PasskeyCase):
    """Which pages may run the script."""

    def test_only_pages_that_ask(self) -> None:
        """Pages that ask for a passkey allow the one script by its hash; the account allows none."""
        page = self.browser.get(HOME)
        self.assertIn("script-src 'sha256-", page.headers["content-security-policy"])
        self.assertNotIn("connect-src", page.headers["content-security-policy"])
        self.assertIn("<script>", page.html)
        self.browser.sign_in()
        page = self.browser.get(HOME)
        self.assertNotIn("script-src", page.headers["content-security-policy"])
        self.assertNotIn("<script>", page.html)

    def test_providers(self) -> None:
        """Beside providers a passkey signs in to the account."""
        self.serve_providers()
        self.play_at()
        self.sign_in_at()
        self.assertIn("The passkey is added", self.add().text)
        self.assertIn("Signing in", self.use(self.new_account_browser()).text)
