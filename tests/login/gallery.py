"""The gallery has every page of a browser in each of its forms, with short and long texts and other scripts."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gamed.account.home_routes import home_page
from gamed.config.model import Registration
from gamed.http.problems import CODES, HTTP_ERRORS
from gamed.login.browser_routes import REJECTED
from gamed.login.local import FormError
from gamed.login.pages import forms, results, texts
from gamed.login.pages.forms import DeviceInfo, FormFeedback
from gamed.login.pages.layout import ServerName
from gamed.login.transaction import ClientInfo, LoginIntent
from gamed.outcomes import LoginFailure

TOKEN, FORM, CODE, NUMBER = "A" * 22, "F" * 43, "BKT-RVW", "482917"
RETURN = "http://127.0.0.1:51004/gamed/return?login_id=lgn_1&ticket=" + "t" * 43
APP = "com.example.game:/signin?login_id=lgn_1&ticket=" + "t" * 43
DONE = "https://game.example/auth/login/done?login_id=lgn_1"
ID = "4461851faeea5437a5c78e27"
LABEL = "Discord"

LONG_HOST = f"{'play-' * 12}here.{'sub.' * 20}example.org:8443"
SERVERS: Mapping[str, ServerName] = {
    "plain": ServerName("Anna's Arena", "game.example"),
    "nameless": ServerName(None, "127.0.0.1:8080"),
    "long": ServerName("The Extraordinarily Long-Winded Guild of " + "W" * 40, LONG_HOST),
    "arabic": ServerName("\u062e\u0627\u062f\u0645 \u0627\u0644\u0623\u0644\u0639\u0627\u0628", "game.example"),
}
CLIENTS: Mapping[str, ClientInfo] = {
    "plain": ClientInfo("MyGame", "1.4.2", "windows", "ANNA-PC"),
    "silent": ClientInfo(),
    "half": ClientInfo(name="MyGame", platform="linux"),
    "long": ClientInfo("W" * 64, "9" * 64, "m" * 64, "An Extremely Long Device Name " + "x" * 34),
    "hebrew": ClientInfo("\u05de\u05e9\u05d7\u05e7", "1.0", "windows", "\u05d4\u05de\u05d7\u05e9\u05d1 (2)"),
    "markup": ClientInfo("<script>alert(1)</script>", "{0}", "&amp;", '"><h1>'),
}
BROWSER_REJECTIONS = (
    texts.UNKNOWN_LINK,
    texts.FORM_REFUSED,
    texts.NOT_A_PAGE,
    texts.PREFETCH,
    texts.OTHER_BROWSER,
    texts.CALLBACK_MALFORMED,
    *(sentence for _, sentence in REJECTED.values()),
)
"""The sentences of the browser routes."""
ANYWHERE = ("gamed.http.errors", "gamed.database.errors", "gamed.rate_limit")
NOT_IN_BROWSERS = {"unhealthy", "bad_precondition"}
"""The codes of /healthz and of routes with conditional requests."""
COMMON = sorted(
    {code for kind, (_, code) in HTTP_ERRORS.items() if kind.__module__ in ANYWHERE} - NOT_IN_BROWSERS
    | {"internal_error"}
)
"""The codes of any route; on a browser route they are pages."""


class Shown(Struct, frozen=True):
    """A page with a name; `failure`: the page has to say what to do now."""

    name: str
    html: bytes
    failure: bool = False


def asked(client: str = "plain", age_seconds: int = 125) -> DeviceInfo:
    return DeviceInfo(TOKEN, FORM, CLIENTS[client], age_seconds)


def every_page() -> list[Shown]:
    pages = [*sign_ins(), *at_providers(), *afterwards(), *failures()]
    assert len({page.name for page in pages}) == len(pages)
    return pages


def sign_ins() -> Iterator[Shown]:
    """Yield the sign-in pages of local mode, by registration, form error and client texts."""
    plain = SERVERS["plain"]
    for registration in Registration:
        yield Shown(f"sign-in {registration.value}", forms.sign_in_page(plain, asked(), registration))
    for registration in (Registration.OPEN, Registration.APPROVAL):
        yield Shown(f"account {registration.value}", forms.create_page(plain, asked(), registration))
    for refusal in FormError:
        for creating in (False, True):
            returned = FormFeedback(refusal, 12, creating, "Anna", ID if refusal is FormError.BUSY else "")
            write = forms.create_page if creating else forms.sign_in_page
            page = write(plain, asked(), Registration.APPROVAL, returned)
            yield Shown(f"{'account' if creating else 'sign-in'} refused {refusal.value}", page, failure=True)
    nearly = forms.sign_in_page(plain, asked(), Registration.OPEN, FormFeedback(FormError.LIMIT, 1, name="Anna"))
    yield Shown("sign-in limit nearly over", nearly, failure=True)
    for name, server in SERVERS.items():
        yield Shown(f"sign-in at {name}", forms.sign_in_page(server, asked(age_seconds=0), Registration.OPEN))
    yield Shown("account at long", forms.create_page(SERVERS["long"], asked("long"), Registration.APPROVAL))
    for name in CLIENTS:
        yield Shown(f"sign-in from {name}", forms.sign_in_page(plain, asked(name, 60), Registration.OPEN))


def at_providers() -> Iterator[Shown]:
    """Yield the pages before a provider, by intent, form error and client texts."""
    for intent in (LoginIntent.LOGIN, LoginIntent.LINK, LoginIntent.ADOPT):
        wanted = forms.ProviderPrompt(LABEL, intent, "Anna" if intent is LoginIntent.LINK else None)
        yield Shown(f"provider {intent.value}", forms.provider_page(SERVERS["plain"], asked(), wanted))
        typed = (FormError.WRONG, FormError.LIMIT, FormError.BUSY) if intent is LoginIntent.ADOPT else ()
        for refusal in typed:
            page = forms.provider_page(SERVERS["plain"], asked(), wanted, FormFeedback(refusal, 12, name="Anna"))
            yield Shown(f"provider {intent.value} refused {refusal.value}", page, failure=True)
        long = forms.ProviderPrompt(
            "The Provider With " + "N" * 46, intent, "W" * 32 if intent is LoginIntent.LINK else None
        )
        yield Shown(f"provider {intent.value} long", forms.provider_page(SERVERS["long"], asked("long"), long))
        page = forms.provider_page(SERVERS["arabic"], asked("hebrew"), wanted)
        yield Shown(f"provider {intent.value} other scripts", page)


def afterwards() -> Iterator[Shown]:
    for name, server in SERVERS.items():
        yield Shown(f"return at {name}", results.return_page(server, RETURN, DONE))
        yield Shown(f"app at {name}", results.app_page(server, APP, DONE))
        yield Shown(f"back at {name}", results.back_page(server))
        yield Shown(f"home at {name}", home_page(server, f"https://{server.host}"))
    for name in CLIENTS:
        server = SERVERS.get(name, SERVERS["plain"])
        yield Shown(f"code from {name}", results.code_page(server, asked(name), CODE))
    plain = SERVERS["plain"]
    for name in (None, "Anna \U0001f44d", "W" * 32):
        link = forms.display_name_link(asked(), name)
        yield Shown(f"code with name {name}", results.code_page(plain, asked(), CODE, link))
    for name in (None, "Anna \U0001f44d"):
        yield Shown(f"name {name or 'not chosen'}", forms.display_name_page(plain, asked(), name, DONE))
    yield Shown("name refused", forms.display_name_page(plain, asked(), None, DONE, "Anna\u200b"), failure=True)
    yield Shown("naming", results.naming_page(plain, asked()))
    yield Shown("settled", results.settled_page(plain))
    for write in (results.working_page, results.waiting_page, results.linked_page, results.denied_page):
        yield Shown(write.__name__, write(SERVERS["plain"]))
    for name in ("Anna", "\u2068\u202eAnna\u2069 (" + "W" * 32 + ")"):
        yield Shown(f"linked to {name}", results.linked_page(SERVERS["plain"], name))
        yield Shown(f"adopted {name}", results.adopted_page(SERVERS["plain"], "Discord", name))
    yield Shown("callback twice", results.second_callback_page(SERVERS["plain"], DONE))


def failures() -> Iterator[Shown]:
    """Yield the pages of every outcome, rejection and problem that a browser can receive."""
    yield Shown("collected", results.ended_page(None, SERVERS["plain"]))
    for outcome in LoginFailure:
        yield Shown(f"outcome {outcome.value}", results.ended_page(outcome, SERVERS["plain"]), failure=True)
    waiting = results.ended_page(LoginFailure.PLAYER_PENDING, SERVERS["plain"], NUMBER)
    yield Shown("new player with a code", waiting, failure=True)
    for number, sentence in enumerate(dict.fromkeys(BROWSER_REJECTIONS)):
        yield Shown(
            f"refused {number}", results.error_page(403, "", sentence, SERVERS["plain"], request_id=ID), failure=True
        )
    for code in COMMON:
        problem = CODES[code]
        yield Shown(
            f"problem {code}", results.error_page(problem.status, code, problem.detail, request_id=ID), failure=True
        )
