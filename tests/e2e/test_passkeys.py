"""Passkeys in Chromium, whose DevTools have authenticators in software (CTAP2)."""

from typing import Any, ClassVar

from playwright.sync_api import CDPSession, Page

from tests.e2e.cases import NAME, PASSWORD, QUICK, ServiceCase
from tests.e2e.chromium import Window

AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}

NO_AUTOFILL = "PublicKeyCredential.isConditionalMediationAvailable = undefined"
"""Lets a browser offer passkeys by the button alone: its authenticator is touched as soon as any page asks."""


class PasskeyWalk(ServiceCase):
    """A server at `http://localhost`, where browsers allow passkeys without https, and a player's browser."""

    intervals: ClassVar = QUICK

    def prepare(self) -> None:
        super().prepare()
        self.service.base = f"http://localhost:{self.service.port}"
        self.service.configure({"mode": "local", "public_url": self.service.base})

    def setUp(self) -> None:
        super().setUp()
        self.home = f"{self.service.base}/auth/account"
        self.browser = self.window()
        self.created(self.browser)
        self.devtools = self.browser.step(self.new_devtools)
        self.device = self.new_device()

    def new_devtools(self, page: Page) -> CDPSession:
        session = page.context.new_cdp_session(page)
        session.send("WebAuthn.enable", {"enableUI": False})
        return session

    def devtool(self, name: str, **values: Any) -> dict[str, Any]:
        return self.browser.step(lambda _: self.devtools.send(f"WebAuthn.{name}", values))

    def new_device(self, **options: Any) -> str:
        """Connect an authenticator; return its id."""
        return str(self.devtool("addVirtualAuthenticator", options={**AUTHENTICATOR, **options})["authenticatorId"])

    def credentials(self, device: str) -> list[dict[str, Any]]:
        return list(self.devtool("getCredentials", authenticatorId=device)["credentials"])

    def press(self, name: str, then: str, window: Window | None = None) -> None:
        """Press a button or link, and wait for these words."""

        def step(page: Page) -> None:
            button = page.get_by_role("button", name=name, exact=True)
            button.or_(page.get_by_role("link", name=name, exact=True)).first.click()
            page.get_by_text(then).first.wait_for()

        (window or self.browser).step(step)

    def sign_in(self) -> None:
        self.browser.open(self.home)
        self.browser.step(lambda page: page.fill("#name", NAME))
        self.browser.step(lambda page: page.fill("#password", PASSWORD))
        self.press("Sign in", f"Hello, {NAME}")

    def add(self, then: str = "The passkey is added") -> None:
        self.browser.open(self.home)
        self.press("Add a passkey", "Name of the passkey")
        self.press("Add a passkey", then)

    def sign_out(self) -> None:
        self.browser.open(self.home)
        self.browser.step(lambda page: page.get_by_role("button", name="Sign out", exact=True).first.click())

    def test_from_registration_to_removal(self) -> None:
        """A passkey is made, signs in to the account and to a game, and is gone after its removal."""
        self.sign_in()
        self.add()
        [credential] = self.credentials(self.device)
        self.assertEqual((credential["rpId"], credential["isResidentCredential"]), ("localhost", True))
        self.browser.step(lambda page: page.add_init_script(NO_AUTOFILL))
        self.sign_out()
        self.press("Sign in with a passkey", f"Hello, {NAME}")
        login = self.start()
        self.browser.open(login["login_url"])
        self.press("Sign in with a passkey", "Type this code")
        code = self.browser.step(lambda page: page.inner_text(".code"))
        collected = self.collect(login, finish_code=code)
        self.assertEqual(collected.json["status"], "complete")
        self.browser.open(self.home)
        self.browser.step(lambda page: page.get_by_role("link", name="Change: ").click())
        self.press("Remove passkey", "The passkey is removed")

    def test_autofill(self) -> None:
        """A page with a field for the name offers the passkey without its button."""
        self.sign_in()
        self.add()
        self.sign_out()
        self.browser.step(lambda page: page.get_by_text(f"Hello, {NAME}").wait_for())

    def test_no_user_verification(self) -> None:
        """A device that cannot verify its user gets no passkey."""
        self.devtool("removeVirtualAuthenticator", authenticatorId=self.device)
        device = self.new_device(hasUserVerification=False, isUserVerified=False)
        self.sign_in()
        self.add("Your browser did not use a passkey.")
        self.assertEqual(self.credentials(device), [])

    def test_two_keys(self) -> None:
        """A second device gets a passkey of its own; the first one is not offered another."""
        self.sign_in()
        self.add()
        self.add("Your browser did not use a passkey.")
        second = self.new_device(transport="usb")
        self.add()
        self.assertEqual(len(self.credentials(second)), 1)
        handles = {self.credentials(each)[0]["userHandle"] for each in (self.device, second)}
        self.assertEqual(len(handles), 1)

    def test_wrong_site(self) -> None:
        """The page of another origin is refused the passkeys of this one by the browser."""
        self.sign_in()
        self.add()
        self.browser.open(f"http://127.0.0.1:{self.service.port}/auth/account")
        self.assertNotIn("passkey", self.browser.text)
