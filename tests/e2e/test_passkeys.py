"""Passkeys in Chromium, whose DevTools have authenticators in software (CTAP2)."""

from functools import partial
from typing import Any, ClassVar

from playwright.sync_api import CDPSession, Page

from tests.e2e.cases import NAME, PASSWORD, QUICK, ServiceCase
from tests.e2e.chromium import Window
from tests.e2e.passkeys import AUTHENTICATOR, NO_AUTOFILL, type_recovery_code

SIGN = """async ([text, rpId]) => {
    const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
    const base64url = (raw) => btoa(String.fromCharCode(...new Uint8Array(raw)))
        .replace(/[+]/g, '-').replace(/[/]/g, '_').replace(/=+$/, '');
    const challenge = bytes(JSON.parse(text).publicKey.challenge);
    const made = await navigator.credentials.get({publicKey: {challenge, rpId, userVerification: 'required'}});
    const {clientDataJSON, authenticatorData, signature, userHandle} = made.response;
    return {credential_id: base64url(made.rawId), client_data: base64url(clientDataJSON),
        authenticator_data: base64url(authenticatorData), signature: base64url(signature),
        user_handle: base64url(userHandle)};
}"""
"""The script of a page that lets the device sign a challenge."""
SEND = """(fields) => {
    const form = document.getElementById('passkey');
    for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
    form.submit();
}"""


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

    def test_recovery_codes(self) -> None:
        """Codes come with the first passkey, shown once; each signs in once, and the page says how many are left."""
        self.sign_in()
        self.add()
        codes = self.browser.step(lambda page: page.locator(".codes li").all_inner_texts())
        self.assertEqual(len({*codes}), 10)
        self.press("Back to your account", "Recovery codes left: 10")
        self.assertNotIn(codes[0], self.browser.step(lambda page: page.content()))
        self.browser.step(lambda page: page.add_init_script(NO_AUTOFILL))
        self.sign_out()
        self.browser.open(self.home)
        self.type_code(codes[0].replace("-", " ").lower())
        self.browser.step(
            lambda page: page.get_by_text("You signed in with a recovery code. Recovery codes left: 9").wait_for()
        )
        self.sign_out()
        self.browser.open(self.home)
        self.type_code(codes[0])
        self.browser.step(lambda page: page.get_by_text("Wrong name or recovery code.").wait_for())
        login = self.start()
        self.browser.open(login["login_url"])
        self.type_code(codes[1])
        code = self.browser.step(lambda page: page.inner_text(".code"))
        self.assertEqual(self.collect(login, finish_code=code).json["status"], "complete")
        self.browser.step(lambda page: page.get_by_text("Recovery codes left: 8").wait_for())

    def type_code(self, code: str) -> None:
        self.browser.step(partial(type_recovery_code, name=NAME, code=code))

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

    def test_offer(self) -> None:
        """The end of a sign-up leads to a passkey by the password, or past it by one press."""
        for number, press in enumerate(("Add a passkey", "Not now")):
            window, login = self.browser, self.start()
            window.open(f"{login['login_url']}/create")
            window.create_account(f"cleo{number}", PASSWORD)
            window.wait_for("Type this code")
            code = window.step(lambda page: page.inner_text(".code"))
            self.assertEqual(self.collect(login, finish_code=code).json["status"], "complete")
            window.wait_for("Sign in without a password next time?")
            self.press(press, "Sign in again" if number == 0 else "You can go back to the game")
            if number == 0:
                window.step(lambda page: page.fill("#name", "cleo0"))
                window.step(lambda page: page.fill("#password", PASSWORD))
                self.press("Sign in", "Name of the passkey")
        self.assertFalse(window.step(lambda page: page.get_by_text("Add a passkey").count()))

    def test_wrong_site(self) -> None:
        """A page of another port or host that passes our challenge on signs nobody in with what the device signs.

        On the same host the browser signs for any port; for another host a device has a copy of the same key. The same
        page at our own origin gets in, so that the way of the response is no reason for the refusals. No browser signs
        our origin with another rpId: tests.passkeys.test_hostile has that response.
        """
        self.sign_in()
        self.add()
        [credential] = self.credentials(self.device)
        port, refused = self.service.port, "That passkey was not accepted"
        self.relay(f"http://localhost:{port % 60000 + 1024}", "localhost", refused)
        self.relay(self.service.base, "localhost", f"Hello, {NAME}")
        self.devtool("removeVirtualAuthenticator", authenticatorId=self.device)
        copied = {**credential, "rpId": "evil.localhost", "signCount": 9}
        self.devtool("addCredential", authenticatorId=self.new_device(), credential=copied)
        self.relay(f"http://evil.localhost:{port}", "evil.localhost", refused)
        self.assertEqual(self.service.text().count("outcome=passkey_other_origin"), 2)

    def relay(self, origin: str, rp_id: str, then: str) -> None:
        """Let a thief show a page of this origin to the player, and send what the device signs there."""
        thief = self.window()
        thief.open(self.home)
        self.pass_on(self.signed_at(origin, rp_id, thief), thief, then)

    def signed_at(self, origin: str, rp_id: str, thief: Window) -> dict[str, str]:
        """Return what the device signs on a page of this origin for the challenge on the thief's page."""
        options = thief.step(lambda page: page.get_attribute("#passkey", "data-options"))

        def step(page: Page) -> dict[str, str]:
            page.route(f"{origin}/relay", lambda route: route.fulfill(body="<p>", content_type="text/html"))
            page.goto(f"{origin}/relay")
            return dict(page.evaluate(SIGN, [options, rp_id]))

        return self.browser.step(step)

    def pass_on(self, fields: dict[str, str], thief: Window, then: str) -> None:
        """Send the thief's form with these fields, and wait for the words."""

        def step(page: Page) -> None:
            page.evaluate(SEND, fields)
            page.get_by_text(then).first.wait_for()

        thief.step(step)
