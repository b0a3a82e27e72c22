"""Callbacks that the provider has not written for this browser (docs/protocol.md: Signing in)."""

from typing import Any
from urllib.parse import quote

from gamed.login import sentences
from gamed.outcomes import LoginFailure
from tests.hostile.callbacks import BURNING, NO_EFFECT, Bad
from tests.hostile.fake_provider import ISSUER, MARK, TOKEN, Reply
from tests.hostile.helpers import HostileCase, SignIn, method_name
from tests.login.browser_fixtures import Page
from tests.login.fake_provider import FakeProvider
from tests.support.covers import covers

PROMISED = "authorization_response_iss_parameter_supported"


class CallbackCase(HostileCase):
    def setUp(self) -> None:
        self.serve_hostile()
        self.server.providers["discord"] = FakeProvider("discord")

    def untouched(self, sign_in: SignIn, page: Page) -> None:
        """Assert that the provider got no request, the database did not change, and the access log has the request's
        id.
        """
        self.assertEqual(self.fake.calls(TOKEN), [])
        self.assertEqual((self.lasting(), self.saves()), (self.before, self.saved))
        if sign_in.poll.answers:  # another attempt does not change the stage; the browser's visit may have
            self.assertEqual(sign_in.poll.answer.status, 202)
        for secret in (sign_in.state, sign_in.code, MARK, "alert"):
            self.assertNotIn(secret, page.html + repr(page.headers) + repr(self.heard) + str(self.site.log.lines))
        self.assertNotIn("location", page.headers)
        if page.html:
            self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        request = page.headers["x-request-id"]
        self.assertEqual(len([line for line in self.site.log.lines if request in str(line)]), 1)

    def refused(self, bad: Bad) -> None:
        """Send a bad callback; then the true one is accepted, or the player opens the link again."""
        self.before, self.saved = self.lasting(), self.saves()
        if bad.burned:
            self.fake.metadata[PROMISED] = True
        sign_in = self.depart()
        page = bad.act(self, sign_in)
        self.assertEqual((page.status, bad.sentence in page.text), (bad.status, True), page.text)
        self.untouched(sign_in, page)
        if not bad.burned:
            self.assertEqual(self.owner_lines(), [])
            self.finishes(sign_in)
            return
        [line] = self.owner_lines()
        path = "discord" if bad.burned == "other_provider" else "idp"
        request = page.headers["x-request-id"]
        self.assertEqual(line, f"callback_rejected provider={path} check={bad.burned} request={request}")
        self.assertEqual(sign_in.browser.get(self.callback(sign_in, iss=ISSUER)).status, 410)
        self.assertEqual(self.fake.calls(TOKEN), [])
        again = sign_in.browser.post(sign_in.browser.get(sign_in.game.url).form("/continue"))
        self.fake.visited(again.headers["location"])
        sign_in.url = again.headers["location"]
        page = sign_in.browser.get(sign_in.browser.get(self.callback(sign_in, iss=ISSUER)).headers["location"])
        self.assertIn("Type this code into your game", page.text)


@covers("7/8")
class NoEffect(CallbackCase): ...


@covers("threats/13")
class Burned(CallbackCase): ...


def _made(bad: Bad) -> Any:
    method = lambda self: self.refused(bad)  # noqa: E731
    method.__doc__ = f"{bad.name}: {bad.status}, {bad.burned or 'no effect'}."
    return method


for _case, _table in ((NoEffect, NO_EFFECT), (Burned, BURNING)):
    for _bad in _table:
        assert not hasattr(_case, method_name(_bad.name)), _bad.name
        setattr(_case, method_name(_bad.name), _made(_bad))
del _case  # a second name for a class makes trial run its tests twice


@covers("threats/23")
class Errors(CallbackCase):
    def test_errors_of_the_provider(self) -> None:
        """Each `error` ends the login: a code for the game, a sentence for the player, own words for the owner."""
        unavailable, denied, wrong = "provider_unavailable", "provider_denied", "provider_misconfigured"
        for error, code in (
            *(("access_denied", denied), ("user_cancelled_authorize", denied)),
            *(("temporarily_unavailable", unavailable), ("server_error", unavailable)),
            *(("invalid_request", wrong), ("unauthorized_client", wrong), ("unsupported_response_type", wrong)),
            *(("invalid_scope", wrong), ("redirect_uri_mismatch", wrong), ("login_required", wrong), (MARK, wrong)),
            *((f"<script>alert('{MARK}')</script>", wrong), ("access_denied ", wrong), (f"x  {MARK}: 1", wrong)),
            *(("ACCESS_DENIED", wrong), ("x" * 3000, wrong)),
        ):
            self.heard.clear()
            self.before, self.saved = self.lasting(), self.saves()
            sign_in = self.depart()
            page = self.return_(
                sign_in, code="", error=error, error_description=f"<b>{MARK}</b>", error_uri=f"//{MARK}"
            )
            self.ends(sign_in, page, LoginFailure(code), "callback: ")
            self.assertEqual((self.lasting(), self.saves(), self.fake.calls(TOKEN)), (self.before, self.saved, []))
            self.nothing_leaks()
            self.assertLess(len(self.owner_lines()[0]), 400)

    def test_the_code_of_another(self) -> None:
        """A code of another person's sign-in goes with this attempt's verifier, and the provider refuses it."""
        sign_in, attacker = self.depart(), self.depart()
        self.fake.visited(attacker.url)
        self.heard.clear()
        self.ends(
            sign_in, self.return_(sign_in, code=attacker.code), LoginFailure.PROVIDER_ERROR, "nonce is not the one"
        )
        self.sent_once()


@covers("7/8")
class Late(CallbackCase):
    def test_replayed(self) -> None:
        """After a callback was accepted no second code is sent, and the browser gets its page."""
        sign_in = self.depart()
        self.finishes(sign_in)
        for code in (sign_in.code, "code-of-another"):
            page = sign_in.browser.get(self.callback(sign_in, code=code))
            self.assertEqual((page.status, page.heading), (409, "One moment"))
            self.assertIn("/auth/login/done?", page.headers["refresh"])
        self.assertEqual(len(self.fake.calls(TOKEN)), 1)

    def test_replayed_after_a_failure(self) -> None:
        """A code that failed is not sent again; the page shows the outcome."""
        self.fake.changes["sub"] = 7
        sign_in = self.depart()
        self.return_(sign_in)
        self.repair()
        page = sign_in.browser.get(self.callback(sign_in, code="code-of-another"))
        self.assertEqual((page.status, page.heading), (410, sentences.ENDED[LoginFailure.PROVIDER_ERROR][0].source))
        self.assertEqual(len(self.fake.calls(TOKEN)), 1)
        self.signs_in()

    def test_over(self) -> None:
        """A callback after a cancel, a decline or the expiry gets 410; no code is sent, and the game is notified."""
        for end, outcome in (
            (self.cancelled, LoginFailure.LOGIN_CANCELLED),
            (self.declined, LoginFailure.LOGIN_DENIED),
            (self.expired, LoginFailure.LOGIN_EXPIRED),
        ):
            sign_in = self.depart()
            end(sign_in)
            page = sign_in.browser.get(self.callback(sign_in))
            self.assertEqual((page.status, page.heading), (410, sentences.ENDED[outcome][0].source))
            self.assertEqual(sign_in.game.collect().json["problem"]["code"], outcome.value)
        self.assertEqual(self.fake.calls(TOKEN), [])
        self.signs_in()

    def cancelled(self, sign_in: SignIn) -> None:
        self.assertEqual(sign_in.game.cancel().status, 204)

    def declined(self, sign_in: SignIn) -> None:
        sign_in.browser.post(sign_in.browser.get(sign_in.game.url).form("/decline"))

    def expired(self, sign_in: SignIn) -> None:
        self.pass_time(3600)

    def test_two_at_once(self) -> None:
        """Two callbacks with different codes at a slow provider get one outcome, and only one code is sent."""
        sign_in = self.depart()
        self.fake.script(TOKEN, Reply(hang=True))
        first, second = (
            self.site.send("GET", self.callback(sign_in, code=code), sign_in.browser.headers())
            for code in ("one", "two")
        )
        self.assertEqual((first.answers, second.answers), ([], []))
        [held] = self.fake.held
        held.write(self.fake.write(held, self.fake.usual[TOKEN](None)))
        held.finish()
        self.wire.flush()
        self.server.clock.advance(0)
        self.assertEqual((first.answer.status, second.answer.status), (303, 409))
        self.assertEqual([call.form["code"] for call in self.fake.calls(TOKEN)], ["one"])

    def test_every_cause_stays_here(self) -> None:
        """The address that the browser is redirected to does not have the provider's text."""
        sign_in = self.depart()
        page = sign_in.browser.get(self.callback(sign_in) + f"&iss={quote(ISSUER)}&scope={MARK}&prompt={MARK}")
        self.assertEqual(page.status, 303)
        self.assertNotIn(MARK, repr(page.headers))
