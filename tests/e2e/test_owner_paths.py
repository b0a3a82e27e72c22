"""An owner's changes over the years, each by editing, setting variables and restarting (SPEC operational)."""

from typing import ClassVar

from tests.e2e.cases import NAME, PASSWORD, Player
from tests.e2e.chromium import Window
from tests.e2e.providers import DISCORD, FAKE_GOOGLE, SECRET, ProviderCase
from tests.e2e.test_providers import SAVE, at_development
from tests.support.covers import covers
from tests.support.python_client import gamed_client as gc
from tests.support.stores import POSTGRESQL, sqlite_files


class FromLocal(ProviderCase):
    """A change from `local` to `oauth`."""

    stands: ClassVar = (DISCORD,)

    def setUp(self) -> None:
        self.prepare()
        self.service.configure({"mode": "local"})
        self.service.start()
        self.local = self.created(self.window())
        self.local.put("auto", SAVE, base=None)
        self.restart(self.configuration())

    def restart(self, configuration: dict[str, object]) -> None:
        self.service.terminate()
        self.service.configure(configuration)
        self.service.start()

    def adopts(self, window: Window, name: str, password: str) -> None:
        window.step(lambda page: page.get_by_label("Name").fill(name))
        window.step(lambda page: page.get_by_label("Password").fill(password))
        window.press("Continue with Discord")

    @covers("2.1/6")
    def test_adopt(self) -> None:
        """A player who enters name and password once stays the same player with the same save at the provider."""
        if not POSTGRESQL:  # whose server had the master key before
            self.assertIn("1 local account", self.service.text())
            self.assertRaises(gc.SignInRequired, self.local.whoami)
        client, window = gc.GamedClient(self.service.base, folder=self.folder / "new"), self.window()
        said = []

        def steps() -> None:
            self.adopts(window, NAME, "not the password")
            said.append(window.text)
            self.adopts(window, NAME, PASSWORD)
            window.press("Continue as Anna")

        client.sign_in(Player(), open_browser=self.opens(window, steps), adopt=True)
        self.assertIn("Wrong name or password.", said[0])
        self.assertEqual(client.get("auto").data, SAVE)
        window = self.window()
        again = self.on_device("again", DISCORD, window, at_development(window, "Anna"))
        self.assertEqual(again.credential.player_id, client.credential.player_id)
        self.assertEqual(self.service.rows()["player"], 1)

    def test_without(self) -> None:
        """A sign-in at the provider without adoption creates a new player, and merges none."""
        window = self.window()
        client = self.on_device("new", DISCORD, window, at_development(window, "Anna"))
        self.assertIsNone(client.get("auto"))
        self.assertEqual(self.service.rows()["player"], 2)

    @sqlite_files("a key file that a master key replaces, which ends all sessions")
    def test_next_start(self) -> None:
        """The game's usual call signs in again, with the provider, on a device with its old session."""
        window, before = self.window(), self.local.credential
        browser = self.opens(window, at_development(window, "Anna"))
        self.assertTrue(self.local.ensure_signed_in(Player(), open_browser=browser))
        self.assertEqual(self.local.credential.provider, DISCORD.name)
        self.assertNotEqual(self.local.credential.session_id, before.session_id)
        self.assertTrue(self.local.ensure_signed_in(Player(), open_browser=None))


@covers("operational/9")
class Domain(ProviderCase):
    """127.0.0.1 is the old name, localhost the new one."""

    forked = False

    stands: ClassVar = (DISCORD,)

    @covers("operational/2", "operational/3")
    def test_domain_change(self) -> None:
        """After `public_url` and the registered redirect URI have changed, players and saves are the same."""
        window = self.window()
        first = self.signed_in(DISCORD, window, at_development(window, "Anna"))
        first.put("auto", SAVE, base=None)
        self.service.terminate()
        self.service.base = f"http://localhost:{self.service.port}"
        self.register(DISCORD)
        self.recorders["discord"].exchanges.clear()
        self.service.configure(self.configuration())
        self.service.start()
        self.assertFalse(self.client().signed_in)  # credentials are kept by the server's address
        window = self.window()
        second = self.on_device("player", DISCORD, window, at_development(window, "Anna"))
        self.assertEqual(second.credential.player_id, first.credential.player_id)
        self.assertEqual(second.get("auto").data, SAVE)
        self.assertSent(DISCORD)


class SecretReset(ProviderCase):
    """The provider has a new secret; the service still has the old one."""

    stands: ClassVar = (DISCORD,)
    secret: ClassVar = "the-old-secret"

    @covers("operational/4", "operational/5")
    def test_reset(self) -> None:
        """Sign-ins get a typed error until the variable is set and the service restarted; games need no change."""
        client, window = self.client(), self.window()
        browser = self.opens(window, at_development(window, "Anna"))
        error = self.assertRaises(gc.LoginFailed, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_misconfigured")
        self.service.terminate()
        self.service.environ[DISCORD.variable] = SECRET
        self.service.start()
        window = self.window()
        self.on_device("player", DISCORD, window, at_development(window, "Anna"))
        self.assertTrue(client.signed_in)


class ProviderDown(ProviderCase):
    """The service starts while its provider is down."""

    stands: ClassVar = (FAKE_GOOGLE,)

    def prepare(self) -> None:
        super().prepare()
        self.withdraw(FAKE_GOOGLE)

    @covers("threats/21")
    def test_comes_back(self) -> None:
        """Game, page and the owner's log report it at once; once the provider is back the next sign-in succeeds."""
        client, window = self.client(), self.window()
        opens = self.opens(window)
        error = self.assertRaises(gc.LoginFailed, client.sign_in, Player(), open_browser=opens)
        self.assertEqual(error.code, "provider_unavailable")
        window.wait_for("Try again from the game in a few minutes.")
        self.assertIn("provider_unavailable", self.service.text())
        self.register(FAKE_GOOGLE)
        client.sign_in(Player(), open_browser=self.opens(window, lambda: window.press("Continue as Anna")))
        self.assertTrue(client.signed_in)
