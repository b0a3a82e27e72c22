"""The browser's side of passkeys and recovery codes: DevTools of Chromium have authenticators in software (CTAP2)."""

from playwright.sync_api import Page

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


def connect_authenticator(page: Page) -> None:
    """Connect a device with passkeys to the browser, which offers them by the button alone."""
    page.add_init_script(NO_AUTOFILL)
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable", {"enableUI": False})
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})


def type_recovery_code(page: Page, name: str, code: str) -> None:
    """Open the form of recovery codes, unless it is open, and send it."""
    details = page.locator("details", has=page.locator("#recovery-code"))
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    page.fill("#recovery-name", name)
    page.fill("#recovery-code", code)
    details.get_by_role("button", name="Sign in: Recovery code", exact=True).click()
