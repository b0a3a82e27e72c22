"""Assertions that Steam has not made for this sign-in, and answers that do not confirm one (OpenID 2.0 10, 11)."""

from collections.abc import Callable
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from gamed.login import sentences
from gamed.outcomes import LoginFailure
from gamed.providers.client import TIMEOUT_SECONDS
from tests.hostile.fake_provider import MARK, Reply
from tests.hostile.helpers import HostileCase, SignIn, tests_of
from tests.login.browser_fixtures import Game, Page, PageBrowser
from tests.providers.fake_steam import (
    ABSENT,
    ACCOUNT,
    CHECK,
    CLAIMED,
    ENDPOINT,
    NAMESPACE,
    ORDER,
    FakeSteam,
    confirmed,
    return_to,
)
from tests.support.covers import covers
from tests.support.http import Connection

ERROR, UNAVAILABLE = LoginFailure.PROVIDER_ERROR, LoginFailure.PROVIDER_UNAVAILABLE
Twist = Callable[[FakeSteam], object]


class SteamSignIn(SignIn, eq=False):
    """A sign-in whose state is in the address that Steam signs."""

    @property
    def state(self) -> str:
        return return_to(self.url).partition("?state=")[2]

    def secrets(self) -> tuple[str, ...]:
        return (self.state, ACCOUNT)


class SteamCase(HostileCase):
    def setUp(self) -> None:
        self.serve_hostile("steam")

    def sign_in(self, game: Game, browser: PageBrowser, poll: Connection, url: str = "") -> SignIn:
        return SteamSignIn(game, browser, url, "", poll)

    def callback(self, sign_in: SignIn, **query: str) -> str:
        """Return the address of the callback as Steam writes it, with the fake's changes."""
        fields = self.fake.fields(return_to(sign_in.url))
        return self.callback_of(sign_in, {f"openid.{name}": value for name, value in fields.items()} | query)

    def callback_of(self, sign_in: SignIn, query: dict[str, str]) -> str:
        return f"/auth/steam/callback?{urlencode({'state': sign_in.state, **query})}"

    def checks(self) -> int:
        return len(self.fake.calls(CHECK))


class Bad(Struct, frozen=True):
    name: str
    twist: Twist
    cause: str = ""
    outcome: LoginFailure = ERROR
    asked: bool = False
    """Whether Steam is asked, as only it can tell."""
    waits: float = 0
    heals: float = 31


def changed(**fields: object) -> Twist:
    return lambda fake: fake.changes.update(fields)


def signed(**fields: object) -> Twist:
    """Change fields before the fake signs them: a Steam, or a provider of the attacker, that says so itself."""
    return lambda fake: fake.before.update(fields)


def claims(claimed: str) -> Twist:
    return signed(claimed_id=claimed, identity=claimed)


def says(reply: Reply) -> Twist:
    return lambda fake: fake.always(CHECK, reply)


def _nonce(seconds: float) -> Twist:
    def twist(fake: FakeSteam) -> None:
        true_ms = fake.now_ms
        fake.now_ms = lambda: true_ms() + int(seconds * 1000)

    return twist


NOT_FIELDS, NOT_ACCOUNT, NOT_SIGNED = "not the fields of a positive", "claimed_id is not an account", "is not signed"
BARE = ("op_endpoint", "claimed_id", "identity", "return_to", "response_nonce", "assoc_handle")
FOREIGN = f"https://{MARK.lower()}.example/openid"
ASSERTIONS = (
    Bad("foreign endpoint", signed(op_endpoint=f"{FOREIGN}/login"), "op_endpoint is another provider"),
    Bad("endpoint with a slash", signed(op_endpoint=f"{ENDPOINT}/"), "op_endpoint is another provider"),
    Bad("endpoint http", signed(op_endpoint=ENDPOINT.replace("https", "http")), "op_endpoint is another"),
    Bad("endpoint in capitals", signed(op_endpoint=ENDPOINT.upper()), "op_endpoint is another provider"),
    Bad("return_to of another site", signed(return_to="https://evil.example/auth/steam/callback"), "return_to is not"),
    Bad("return_to of another state", lambda fake: fake.before.update(return_to=_other(fake)), "return_to is not"),
    Bad("return_to without a state", signed(return_to="https://game.example/auth/steam/callback"), "return_to is not"),
    Bad("return_to of another realm", signed(return_to="https://game.example.evil/auth/steam/callback"), "return_to"),
    *(
        Bad(f"not signed {name}", signed(signed=",".join(each for each in BARE if each != name)), NOT_SIGNED)
        for name in BARE
    ),
    Bad("signed nothing", signed(signed=""), NOT_FIELDS),
    Bad("signed a field twice", signed(signed=",".join((*ORDER, "identity"))), NOT_SIGNED),
    Bad("signed a foreign field", signed(signed=",".join((*ORDER, "ax.mode"))), NOT_SIGNED),
    Bad("signed with blanks", signed(signed=", ".join(ORDER)), NOT_FIELDS),
    Bad("signed in another order", changed(signed=",".join(reversed(ORDER))), "did not sign", asked=True),
    Bad("claimed_id changed", changed(claimed_id=f"{CLAIMED}76561197960287931"), NOT_ACCOUNT),
    Bad(
        "claimed_id and identity changed",
        changed(claimed_id=f"{CLAIMED}76561197960287931", identity=f"{CLAIMED}76561197960287931"),
        "did not sign",
        asked=True,
    ),
    Bad("identity of another", signed(identity=f"{CLAIMED}76561197960287931"), NOT_ACCOUNT),
    *(
        Bad(f"claimed_id {number}", claims(claimed), NOT_ACCOUNT)
        for number, claimed in enumerate(
            (
                f"https://steamcommunity.com.{MARK}.example/openid/id/{ACCOUNT}",
                f"https://steamcommunity.com@{MARK}.example/openid/id/{ACCOUNT}",
                f"https://steamcommunlty.com/openid/id/{ACCOUNT}",
                f"http://steamcommunity.com/openid/id/{ACCOUNT}",
                f"https://STEAMCOMMUNITY.COM/openid/id/{ACCOUNT}",
                f"https://steamcommunity.com/openid/id/{ACCOUNT}/",
                f"https://steamcommunity.com/openid/id/{ACCOUNT}#x",
                f"https://steamcommunity.com/openid/id/../id/{ACCOUNT}",
                f"https://steamcommunity.com/openid/id//{ACCOUNT}",
                f"https://steamcommunity.com/id/{ACCOUNT}",
                f"{CLAIMED}{ACCOUNT}0",
                f"{CLAIMED}{ACCOUNT[:-1]}",
                f"{CLAIMED}{ACCOUNT[:-1]}x",
                f"{CLAIMED}-{ACCOUNT[:-1]}",
                CLAIMED,
                ACCOUNT,
                "http://specs.openid.net/auth/2.0/identifier_select",
            )
        )
    ),
    Bad("claimed_id in another script", claims(CLAIMED + "\u0667" * 17), NOT_FIELDS),
    Bad("claimed_id with a line end", claims(f"{CLAIMED}{ACCOUNT}\n"), NOT_FIELDS),
    Bad("ns of OpenID 1.1", changed(ns="http://openid.net/signon/1.1"), "not of OpenID 2.0"),
    Bad("sig empty", changed(sig=""), NOT_FIELDS),
    Bad("sig another", changed(sig="AAAAAAAAAAAAAAAAAAAAAAAAAAA="), "did not sign", asked=True),
    *(Bad(f"{name} absent", changed(**{name: ABSENT}), NOT_FIELDS) for name in (*BARE, "ns", "sig", "signed")),
    Bad("a field more", changed(invalidate_handle="1234567890"), NOT_FIELDS),
    Bad("an extension", changed(**{"ns.sreg": f"https://{MARK}", "sreg.email": MARK}), NOT_FIELDS),
    Bad("nonce old", _nonce(-301), "older or newer", asked=True),
    Bad("nonce to come", _nonce(301), "older or newer", asked=True),
    Bad("nonce without a time", signed(response_nonce="abc"), "does not begin with a time"),
    Bad("nonce of the 32nd", signed(response_nonce="2027-01-32T08:00:00Zabc"), "with a time", asked=True),
    Bad("nonce in another zone", signed(response_nonce="2027-01-15T08:00:00+00:00abc"), "does not begin with a time"),
    Bad("nonce too long", signed(response_nonce="2027-01-15T08:00:00Z" + "x" * 236), "does not begin with a time"),
)
ANSWERS = (
    Bad("is_valid false", says(confirmed(False)), "did not sign"),
    Bad("is_valid True", says(Reply(200, f"ns:{NAMESPACE}\nis_valid:True\n".encode())), "did not sign"),
    Bad("is_valid with a blank", says(Reply(200, f"ns:{NAMESPACE}\nis_valid: true\n".encode())), "did not sign"),
    Bad("is_valid absent", says(Reply(200, f"ns:{NAMESPACE}\n".encode())), "did not sign"),
    Bad("ns absent", says(Reply(200, b"is_valid:true\n")), "did not sign"),
    Bad("ns another", says(Reply(200, b"ns:http://openid.net/signon/1.1\nis_valid:true\n")), "did not sign"),
    Bad("is_valid twice", says(Reply(200, f"ns:{NAMESPACE}\nis_valid:false\nis_valid:true\n".encode())), "Key-Value"),
    Bad(
        "a line end of another kind", says(Reply(200, f"ns:{NAMESPACE}\r\nis_valid:true\r\n".encode())), "did not sign"
    ),
    Bad("HTML", says(Reply(200, f"<html>{MARK}</html>".encode())), "Key-Value"),
    Bad("JSON", says(Reply.json({"ns": NAMESPACE, "is_valid": "true"})), "Key-Value"),
    Bad("empty", says(Reply(200, b"")), "Key-Value"),
    Bad("not UTF-8", says(Reply(200, b"ns:\xff\nis_valid:true\n")), "not UTF-8"),
    Bad("oversized", says(Reply(200, confirmed().body + b"x:" + b"x" * 70_000)), "more than 65536 bytes"),
    Bad("a gzip", says(Reply(200, b"", {"Content-Encoding": "gzip"})), "coding"),
    Bad("elsewhere", says(Reply(302, b"", {"Location": f"{FOREIGN}/login"})), "redirects"),
    Bad("201", says(Reply(201, confirmed().body)), "answered 201"),
    Bad("400", says(Reply(400, confirmed().body)), "answered 400"),
    Bad("403", says(Reply(403, MARK.encode())), "answered 403"),
    Bad("429", says(Reply(429, MARK.encode())), "answered 429", UNAVAILABLE),
    Bad("503", says(Reply(503, b"", {"Retry-After": "1"})), "answered 503", UNAVAILABLE),
    Bad("slow", says(Reply(hang=True)), "within 10 s", UNAVAILABLE, waits=TIMEOUT_SECONDS),
)


def _other(fake: FakeSteam) -> str:
    return f"https://game.example/auth/steam/callback?state={'A' * 43}"


class BadCase(SteamCase):
    def refused(self, bad: Bad) -> None:
        """Sign in while Steam or the browser is as `bad` sets it, and once after it."""
        before, saves = self.lasting(), self.saves()
        sign_in = self.depart()
        bad.twist(self.fake)
        self.ends(sign_in, self.return_(sign_in, bad.waits), bad.outcome, bad.cause)
        self.assertEqual((self.lasting(), self.saves()), (before, saves))
        self.assertEqual(self.checks(), 1 if bad in ANSWERS or bad.asked else 0)
        self.nothing_leaks()
        self.repair()
        self.pass_time(bad.heals)
        self.signs_in()


@covers("threats/78")
class Assertions(BadCase): ...


@covers("threats/78", "threats/20")
class Answers(BadCase): ...


for _case, _bad in ((Assertions, ASSERTIONS), (Answers, ANSWERS)):
    tests_of(_case, _bad, BadCase.refused)
del _case  # a second name for a class makes trial run its tests twice


@covers("threats/78", "threats/14")
class CallbackTests(SteamCase):
    def test_replayed(self) -> None:
        """An assertion opens one sign-in: not again, not another one, and Steam is asked once."""
        sign_in = self.depart()
        url = self.callback(sign_in)
        page = sign_in.browser.get(url)
        self.assertEqual(page.status, 303)
        self.assertEqual((sign_in.browser.get(url).status, self.checks()), (409, 1))
        other = self.depart()
        stolen = url.replace(f"state={sign_in.state}&", f"state={other.state}&", 1)
        self.heard.clear()
        page = other.browser.get(stolen)
        other.pages.append(page)
        other.pages.append(other.browser.get(page.headers["location"]))
        self.ends(other, other.pages[1], ERROR, "return_to is not the address of this sign-in")
        self.assertEqual(self.checks(), 1)

    def test_another_browser(self) -> None:
        """The assertion of an attacker, or a stolen one, has no effect in another browser."""
        sign_in = self.depart()
        url = self.callback(sign_in)
        for cookie in (None, "__Host-gl=" + "A" * 43):
            stranger = self.new_browser()
            stranger.cookie = cookie
            page = stranger.get(url)
            self.assertEqual((page.status, sentences.CALLBACK_BROWSER.source in page.text), (403, True))
        self.assertEqual(self.checks(), 0)
        self.finishes(sign_in)

    def test_malformed(self) -> None:
        """A query that is no assertion has no effect: the true one still opens the sign-in."""
        sign_in = self.depart()
        good = urlsplit(self.callback(sign_in)).query
        state = f"state={sign_in.state}"
        for query in (
            "",
            state,
            f"{state}&code=abc",
            f"{state}&error=access_denied",
            f"{state}&openid.mode=",
            f"{state}&openid.mode=setup_needed",
            f"{state}&openid.mode=check_authentication",
            f"{good}&openid.mode=id_res",
            f"{good}&{state}",
            f"{good}&openid.sig={quote(MARK)}",
            f"{good}&%6fpenid.sig={quote(MARK)}",
            good.replace("openid.mode=id_res", "openid.mode=id_res&openid.mode=cancel"),
            f"{good}&x={'x' * 4096}",
            f"{good}&x=%ff",
            good.replace("openid.", "openid_"),
        ):
            page = sign_in.browser.get(f"/auth/steam/callback?{query}")
            self.assertEqual((page.status, sentences.CALLBACK_MALFORMED.source in page.text), (400, True), query[:80])
        self.assertEqual(self.checks(), 0)
        self.assertEqual(self.owner_lines(), [])
        self.finishes(sign_in)

    def test_another_parameter(self) -> None:
        """A parameter without a meaning is ignored, and not sent to Steam."""
        sign_in = self.depart()
        page = sign_in.browser.get(self.callback(sign_in, utm_source=MARK))
        self.assertEqual(page.status, 303)
        [check] = self.fake.calls(CHECK)
        self.assertEqual({name for name in check.form if not name.startswith("openid.")}, set())

    def test_errors(self) -> None:
        """A cancellation and an error of Steam end the sign-in, each with its outcome."""
        for mode, outcome in (("cancel", LoginFailure.PROVIDER_DENIED), ("error", UNAVAILABLE)):
            self.heard.clear()
            sign_in = self.depart()
            fields = {"openid.ns": NAMESPACE, "openid.mode": mode, "openid.error": f"<b>{MARK}"}
            page = sign_in.browser.get(self.callback_of(sign_in, fields))
            sign_in.pages += [page, sign_in.browser.get(page.headers["location"])]
            self.ends(sign_in, sign_in.pages[1], outcome, "callback: ")
        self.assertEqual(self.checks(), 0)
        self.nothing_leaks()

    def test_at_another_provider(self) -> None:
        """An assertion at the callback of another provider is no code there, and a code is none here."""
        steam = self.depart()
        url = self.callback(steam)
        self.enable("discord")
        page: Page = steam.browser.get(url.replace("/auth/steam/", "/auth/discord/"))
        self.assertEqual((page.status, sentences.CALLBACK_MALFORMED.source in page.text), (400, True))


class ClockTests(SteamCase):
    def test_this_machine(self) -> None:
        """If this machine's clock is wrong, and Steam's Date shows that, the owner reads by how much."""
        for seconds in (-3_700, 3_700):
            self.serve_hostile("steam")
            true_ms = lambda late=seconds: self.server.now_ms() - late * 1000  # noqa: E731
            self.fake.now_ms = self.fake.clock_ms = true_ms
            sign_in = self.depart()
            side = "ahead of" if seconds > 0 else "behind"
            cause = f"clock is {abs(seconds)} s {side} the provider's; correct it"
            self.ends(sign_in, self.return_(sign_in), LoginFailure.SERVER_CLOCK_SKEW, cause)

    def test_small(self) -> None:
        """Five minutes are no difference."""
        for seconds in (-300, 300):
            self.serve_hostile("steam")
            self.fake.now_ms = lambda late=seconds: self.server.now_ms() - late * 1000
            self.signs_in()
