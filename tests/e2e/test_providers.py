"""Whole sign-ins in a browser: three foreign providers, and the development provider (SPEC 1, 4, 5)."""

import subprocess
import sys
from collections.abc import Callable
from typing import ClassVar

from tests.e2e.cases import PATIENCE_SECONDS, Player
from tests.e2e.chromium import Window
from tests.e2e.providers import (
    APPLE,
    DISCORD,
    FAKE_GOOGLE,
    GITHUB,
    GOOGLE,
    MICROSOFT,
    MICROSOFT_COMMON,
    MOCK_SERVER,
    MOCK_SERVER_OAUTH2,
    PROVIDER_MOCK,
    STEAM,
    TWITCH,
    ProviderCase,
    Stand,
)
from tests.support.covers import covers
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import gamed_client as gc

SAVE = bytes(range(256)) * 64


def at_oidc_provider(window: Window, account: str) -> Callable[[], object]:
    """Choose an account, and consent."""

    def steps() -> None:
        window.step(lambda page: page.get_by_label("Account").fill(account))
        window.press("Next")
        window.press("Continue")

    return steps


def at_provider_mock(window: Window, account: str) -> Callable[[], object]:
    def steps() -> None:
        window.step(lambda page: page.get_by_placeholder("sub").fill(account))
        window.press("Authorize")

    return steps


def at_development(window: Window, person: str) -> Callable[[], object]:
    return lambda: window.press(f"Continue as {person}")


class WholeCase(ProviderCase):
    """A redirect to the provider, the return, a collect, a save, and the provider's requests.

    The service is a process of its own, as its environment is searched for the secret.
    """

    forked = False

    def whole(self, stand: Stand, *steps: Callable[[Window], Callable[[], object]]) -> None:
        window = self.window()
        client = self.signed_in(stand, window, *(step(window) for step in steps))
        self.assertEqual(client.credential.provider, stand.name)
        client.put("auto", SAVE, base=None)
        self.assertEqual(self.client().get("auto").data, SAVE)
        self.assertSent(stand)
        self.assertEqual(self.service.rows()["player"], 1)


class WholeGoogle(WholeCase):
    """npm oidc-provider, as `google` with another issuer."""

    stands: ClassVar = (GOOGLE,)

    @covers("1/4", "4/10", "5/2", "5/8")
    def test_whole(self) -> None:
        """A sign-in with account chooser and consent at a certified provider ends with a save."""
        self.whole(GOOGLE, lambda window: at_oidc_provider(window, "marvin"))


class Google(ProviderCase):
    """The same provider."""

    stands: ClassVar = (GOOGLE,)

    def test_same_person(self) -> None:
        """The same account is the same player, also on another device; another account is another player."""
        window = self.window()
        first = self.signed_in(GOOGLE, window, at_oidc_provider(window, "marvin"))
        first.put("auto", SAVE, base=None)
        window = self.window()
        second = self.on_device("laptop", GOOGLE, window, at_oidc_provider(window, "marvin"))
        self.assertEqual(second.credential.player_id, first.credential.player_id)
        self.assertEqual(second.get("auto").data, SAVE)
        window = self.window()
        other = self.on_device("phone", GOOGLE, window, at_oidc_provider(window, "trillian"))
        self.assertNotEqual(other.credential.player_id, first.credential.player_id)

    def test_abort(self) -> None:
        """After a cancel at the provider the game gets the failure, and no player is created."""
        client, window = self.client(), self.window()

        def cancels() -> None:
            window.step(lambda page: page.get_by_label("Account").fill("marvin"))
            window.press("Next")
            window.press("Cancel")

        browser = self.opens(window, cancels)
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), provider="google", open_browser=browser)
        self.assertEqual(error.code, "provider_denied")
        self.assertEqual(self.service.rows()["player"], 0)
        self.assertEqual([sent for sent in self.recorders["google"].exchanges if sent.path == "/token"], [])


class MockServer(WholeCase):
    """npm oauth2-mock-server by its issuer."""

    stands: ClassVar = (MOCK_SERVER,)

    def test_whole(self) -> None:
        """The provider shows no page and redirects back at once."""
        self.whole(MOCK_SERVER)


class MockServerOAuth2(WholeCase):
    """The same provider with OAuth 2.0 only."""

    stands: ClassVar = (MOCK_SERVER_OAUTH2,)

    def test_whole(self) -> None:
        """Three addresses and a member of the account are enough; the ID token is ignored."""
        self.whole(MOCK_SERVER_OAUTH2)


class ProviderMock(WholeCase):
    """PyPI oidc-provider-mock by its issuer."""

    stands: ClassVar = (PROVIDER_MOCK,)

    def test_whole(self) -> None:
        """The provider shows a form with a name, and redirects back."""
        self.whole(PROVIDER_MOCK, lambda window: at_provider_mock(window, "zaphod"))


class WholeDiscord(WholeCase):
    """The development provider's Discord, which is as strict as possible."""

    stands: ClassVar = (DISCORD,)

    @covers("1/7", "1/9", "1/16", "5/7")
    def test_whole(self) -> None:
        """Anna signs in; the user endpoint returns her account."""
        self.whole(DISCORD, lambda window: at_development(window, "Anna"))


class WholeGitHub(WholeCase):
    """The development provider's GitHub."""

    stands: ClassVar = (GITHUB,)

    def test_whole(self) -> None:
        """Chidi signs in without any scope; the secret is in the form."""
        self.whole(GITHUB, lambda window: at_development(window, "Chidi"))


class WholeTwitch(WholeCase):
    """The development provider's Twitch."""

    stands: ClassVar = (TWITCH,)

    def test_whole(self) -> None:
        """Dilek signs in and confirms her account."""
        self.whole(TWITCH, lambda window: at_development(window, "Dilek"))


class WholeMicrosoft(WholeCase):
    """The development provider's Microsoft, where personal accounts alone may sign in; the secret is in HTTP Basic."""

    stands: ClassVar = (MICROSOFT,)

    def test_whole(self) -> None:
        """Bo signs in with a personal account."""
        self.whole(MICROSOFT, lambda window: at_development(window, "Bo"))


class WholeMicrosoftCommon(WholeCase):
    """The same with accounts of all tenants, whose metadata and keys have the template of issuers."""

    stands: ClassVar = (MICROSOFT_COMMON,)

    def test_whole(self) -> None:
        """Chidi signs in with an account of an organization."""
        self.whole(MICROSOFT_COMMON, lambda window: at_development(window, "Chidi"))


class WholeApple(WholeCase):
    """The development provider's Apple, which verifies the signed client secret."""

    stands: ClassVar = (APPLE,)

    def test_whole(self) -> None:
        """Anna signs in; the key that signs the secrets is sent nowhere."""
        self.whole(APPLE, lambda window: at_development(window, "Anna"))

    def test_deny(self) -> None:
        """Apple's own error after a person cancels is no fault of the owner."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.press("Deny"))
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_denied")


class Steam(ProviderCase):
    """The development provider's Steam, where no application is registered."""

    stands: ClassVar = (STEAM,)

    def test_whole(self) -> None:
        """Bo signs in and saves; Steam is asked once, with what it signed, and is sent no secret and no cookie."""
        window = self.window()
        client = self.signed_in(STEAM, window, at_development(window, "Bo"))
        self.assertEqual(client.credential.provider, "steam")
        client.put("auto", SAVE, base=None)
        self.assertEqual(self.client().get("auto").data, SAVE)
        [check] = self.recorders["steam"].of_service()
        form = dict(check.form)
        self.assertEqual((check.method, check.path, check.status), ("POST", STEAM.authorize, 200))
        self.assertEqual(form["openid.mode"], "check_authentication")
        self.assertTrue(form["openid.return_to"].startswith(f"{self.redirect_uri(STEAM)}?state="))
        self.assertEqual(check.answer, b"ns:http://specs.openid.net/auth/2.0\nis_valid:true\n")
        self.assertNotIn("cookie", check.headers)
        self.assertNotIn("authorization", check.headers)

    def test_deny(self) -> None:
        """After a denial at Steam the game gets the failure, and Steam is asked nothing."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.press("Deny"))
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_denied")
        self.assertEqual(self.recorders["steam"].of_service(), [])


class Discord(ProviderCase):
    """The same provider."""

    stands: ClassVar = (DISCORD,)

    def test_deny(self) -> None:
        """After a denial there the game gets the failure, and a page has the next step."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.press("Deny"))
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_denied")
        self.assertEqual(self.service.rows()["player"], 0)

    def test_fail(self) -> None:
        """A provider that fails at the exchange is a typed error for the game, and its cause is in the owner's log."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: self.with_manner(window, "fails"))
        error = self.assertRaises(gc.LoginFailed, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_unavailable")
        self.assertIn("token_endpoint: answered 503", self.service.text())

    def test_slow(self) -> None:
        """The service waits for a provider that takes a few seconds."""
        window = self.window()
        client = self.signed_in(DISCORD, window, lambda: self.with_manner(window, "takes 3 seconds"))
        self.assertTrue(client.signed_in)

    def with_manner(self, window: Window, manner: str) -> None:
        window.step(lambda page: page.get_by_label(manner).check())
        window.press("Continue as Bo")


@covers("5/1")
class WholeChoice(WholeCase):
    """Two providers."""

    stands: ClassVar = (DISCORD, FAKE_GOOGLE)

    def test_page(self) -> None:
        """Without a loopback port the page names the provider, then the player types the code."""
        client, window = self.client(), self.window()
        steps = [lambda: window.press("Continue with Google"), at_development(window, "Chidi")]
        browser = self.opens(window, *steps)
        client.sign_in(Player(window.code), provider="google", open_browser=browser, loopback=False)
        self.assertEqual(client.credential.provider, "google")
        self.assertSent(FAKE_GOOGLE)
        self.assertEqual(self.recorders["discord"].exchanges, [])


@covers("5/1")
class Choice(ProviderCase):
    """The same providers."""

    stands: ClassVar = (DISCORD, FAKE_GOOGLE)

    def test_decline(self) -> None:
        """After "This was not me" on that page no provider receives a request."""
        client, window = self.client(), self.window()
        browser = self.opens(window, lambda: window.press("This was not me"))
        how = {"provider": "discord", "open_browser": browser, "loopback": False}
        error = self.assertRaises(gc.LoginDeclined, client.sign_in, Player(), **how)
        self.assertEqual(error.code, "login_denied")
        self.assertEqual([recorder.exchanges for recorder in self.recorders.values()], [[], []])

    def test_two_accounts(self) -> None:
        """The same person at two providers is two players, until they link them."""
        found = set()
        for stand in self.stands:
            window = self.window()
            client = self.on_device(stand.name, stand, window, at_development(window, "Anna"))
            found.add(client.credential.player_id)
        self.assertEqual(len(found), 2)

    @covers("operational/8")
    def test_terminal(self) -> None:
        """The reference client shows the label of each provider in the order of /auth/config; a number chooses."""
        self.assertEqual(self.client().policy(), ("oauth", ("discord", "google")))
        place = ["--server", self.service.base, "--folder", str(self.folder / "player")]
        process = subprocess.Popen(
            [sys.executable, "-u", str(PATH), *place, "login", "--no-browser"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        self.assertEqual(process.stderr.readline(), b"  1  Sign in with Discord\n")
        self.assertEqual(process.stderr.readline(), b"  2  Sign in with Google\n")
        process.stdin.write(b"2\n")
        process.stdin.flush()
        lines = iter(process.stderr.readline, b"")
        url = next(line.strip().decode() for line in lines if b"/auth/login/" in line)
        window = self.window()
        window.open(url)
        window.press("Continue with Google")
        window.press("Continue as Dilek")
        out, err = process.communicate(window.code().encode() + b"\n", timeout=PATIENCE_SECONDS)
        self.assertEqual((process.returncode, out[:17]), (0, b"Signed in as ply_"), err)


@covers("7/5", "7/6", "7/7")
class Misconfigured(ProviderCase):
    """The registered values do not match the owner's file (SPEC 7)."""

    stands: ClassVar = (DISCORD,)
    secret: ClassVar = "not-the-secret"

    def test_wrong_secret(self) -> None:
        """A wrong secret is a typed error for the game, named for the owner, and no save or player changes."""
        client, window, before = self.client(), self.window(), self.service.rows()
        browser = self.opens(window, at_development(window, "Anna"))
        error = self.assertRaises(gc.LoginFailed, client.sign_in, Player(), open_browser=browser)
        self.assertEqual(error.code, "provider_misconfigured")
        self.assertNotIn("secret", window.text.lower())
        said = self.service.text()
        self.assertIn("invalid_client", said)
        self.assertIn("client_secret", said)
        self.assertNotIn(self.secret, said)
        after = self.service.rows()
        for table in ("player", "session", "save", "save_version"):
            self.assertEqual(after[table], before[table])


@covers("7/5")
class WrongClient(ProviderCase):
    stands: ClassVar = (DISCORD,)
    client_id: ClassVar = "somebody-else"

    def test_wrong_client_id(self) -> None:
        """For a wrong client_id the provider shows its own page; no callback arrives, and nothing was written."""
        client, window = self.client(), self.window()
        seen = []

        def looks() -> None:
            seen.append(window.text)
            login.cancel()

        login = client.begin_sign_in(Player(), provider="discord", open_browser=self.opens(window, looks))
        error = self.assertRaises(gc.LoginCancelled, login.run, client.keep)
        self.assertEqual(error.code, "login_cancelled")
        self.assertIn("Unknown client_id", seen[0])
        self.assertEqual(self.recorders["discord"].of_service(), [])
        self.assertEqual(self.service.rows()["player"], 0)
