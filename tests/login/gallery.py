"""The gallery has every page of a browser in each of its forms, with short and long texts and other scripts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from gamed.config.model import Look, Registration
from gamed.http.problems import HTTP_ERRORS, plain_problem
from gamed.login import sentences, views
from gamed.login.browser_routes import REJECTED
from gamed.login.local import FormError
from gamed.login.sentences import Place
from gamed.login.transaction import ClientInfo, LoginIntent
from gamed.login.views import DeviceInfo, FormFeedback
from gamed.outcomes import LoginFailure
from gamed.pages.language import Language
from gamed.pages.languages import Languages
from gamed.pages.model import Frame, LanguageChoice, Page, ServerName, Text
from gamed.pages.render import PageRenderer

TOKEN, FORM, CODE, NUMBER = "A" * 22, "F" * 43, "BKT-RVW", "482917"
RETURN = "http://127.0.0.1:51004/gamed/return?login_id=lgn_1&ticket=" + "t" * 43
APP = "com.example.game:/signin?login_id=lgn_1&ticket=" + "t" * 43
DONE = "https://game.example/auth/login/done?login_id=lgn_1"
ID = "4461851faeea5437a5c78e27"
LABEL = "Discord"
NOW_MS = 1_790_000_000_000

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
    "confirming": ClientInfo("MyGame", confirms=True),
    "half": ClientInfo(name="MyGame", platform="linux"),
    "long": ClientInfo("W" * 64, "9" * 64, "m" * 64, "An Extremely Long Device Name " + "x" * 34),
    "hebrew": ClientInfo("\u05de\u05e9\u05d7\u05e7", "1.0", "windows", "\u05d4\u05de\u05d7\u05e9\u05d1 (2)"),
    "markup": ClientInfo("<script>alert(1)</script>", "{0}", "&amp;", '"><h1>'),
}
BROWSER_REJECTIONS = (
    sentences.UNKNOWN_LINK,
    sentences.FORM_REFUSED,
    sentences.NO_COOKIE,
    sentences.NOT_A_PAGE,
    sentences.PREFETCH,
    sentences.OTHER_BROWSER,
    sentences.CALLBACK_MALFORMED,
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


RENDERER = PageRenderer()
CHOICES = [LanguageChoice(tag, name, f"/auth/language/{tag}") for tag, name in Languages().names]


class Shown(Struct, frozen=True):
    """A page with a name; `failure`: the page has to say what to do now."""

    name: str
    html: bytes
    failure: bool = False
    page: Page | None = None
    server: ServerName | None = None

    @classmethod
    def of(cls, name: str, page: Page, server: ServerName | None = None, *, failure: bool = False) -> "Shown":
        """Return the page as the server renders it; `server` is Anna's by default."""
        server = server or SERVERS["plain"]
        return cls(name, RENDERER.render(page, _frame(server)), failure, page, server)

    def spoken(self, language: Language) -> bytes:
        """Return the page in this language."""
        assert self.page is not None
        return RENDERER.render(self.page, _frame(self.server), language)


def _frame(server: ServerName | None) -> Frame:
    return Frame(server, ID, NOW_MS, CHOICES)


def asked(client: str = "plain", age_seconds: int = 125) -> DeviceInfo:
    return DeviceInfo(TOKEN, FORM, CLIENTS[client], age_seconds)


@cache
def every_page() -> Sequence[Shown]:
    """Return all pages of this gallery; a process makes them once."""
    pages = [*sign_ins(), *at_providers(), *afterwards(), *failures()]
    assert len({page.name for page in pages}) == len(pages)
    return pages


def sign_ins() -> Iterator[Shown]:
    """Yield the sign-in pages of local mode, by registration, form error and client texts."""
    for registration in Registration:
        yield Shown.of(f"sign-in {registration.value}", views.sign_in_page(asked(), registration))
    for registration in (Registration.OPEN, Registration.APPROVAL):
        yield Shown.of(f"account {registration.value}", views.create_page(asked(), registration))
    for refusal in FormError:
        for creating in (False, True):
            code, request_id = refusal is FormError.RECOVERY and not creating, ID if refusal is FormError.BUSY else ""
            returned = FormFeedback(refusal, 12, creating, "Anna", request_id, recovering=code)
            write = views.create_page if creating else views.sign_in_page
            page = write(asked(), Registration.APPROVAL, returned)
            yield Shown.of(f"{'account' if creating else 'sign-in'} refused {refusal.value}", page, failure=True)
    nearly = views.sign_in_page(asked(), Registration.OPEN, FormFeedback(FormError.LIMIT, 1, name="Anna"))
    yield Shown.of("sign-in limit nearly over", nearly, failure=True)
    limited = FormFeedback(FormError.LIMIT, 12, name="W" * 32, recovering=True)
    page = views.sign_in_page(asked(), Registration.CLOSED, limited)
    yield Shown.of("sign-in with a recovery code limited", page, failure=True)
    for name, server in SERVERS.items():
        yield Shown.of(f"sign-in at {name}", views.sign_in_page(asked(age_seconds=0), Registration.OPEN), server)
    yield Shown.of("account at long", views.create_page(asked("long"), Registration.APPROVAL), SERVERS["long"])
    for name in CLIENTS:
        yield Shown.of(f"sign-in from {name}", views.sign_in_page(asked(name, 60), Registration.OPEN))


def at_providers() -> Iterator[Shown]:
    """Yield the pages before a provider, by intent, form error and client texts."""
    for intent in (LoginIntent.LOGIN, LoginIntent.LINK, LoginIntent.ADOPT):
        wanted = views.ProviderPrompt(LABEL, intent, "Anna" if intent is LoginIntent.LINK else None)
        yield Shown.of(f"provider {intent.value}", views.provider_page(asked(), wanted))
        typed = (FormError.WRONG, FormError.LIMIT, FormError.BUSY) if intent is LoginIntent.ADOPT else ()
        for refusal in typed:
            page = views.provider_page(asked(), wanted, FormFeedback(refusal, 12, name="Anna"))
            yield Shown.of(f"provider {intent.value} refused {refusal.value}", page, failure=True)
        long = views.ProviderPrompt(
            "The Provider With " + "N" * 46, intent, "W" * 32 if intent is LoginIntent.LINK else None
        )
        yield Shown.of(f"provider {intent.value} long", views.provider_page(asked("long"), long), SERVERS["long"])
        page = views.provider_page(asked("hebrew"), wanted)
        yield Shown.of(f"provider {intent.value} other scripts", page, SERVERS["arabic"])


def afterwards() -> Iterator[Shown]:
    for name, server in SERVERS.items():
        yield Shown.of(f"return at {name}", views.return_page(RETURN, DONE), server)
        yield Shown.of(f"app at {name}", views.return_page(APP, DONE, app=True), server)
        yield Shown.of(f"back at {name}", views.back_page(), server)
        yield Shown.of(f"home at {name}", views.home_page(f"https://{server.host}"), server)
    for name in CLIENTS:
        yield Shown.of(f"code from {name}", views.code_page(asked(name), CODE), SERVERS.get(name))
    for name in (None, "Anna \U0001f44d", "W" * 32):
        yield Shown.of(f"code with name {name}", views.code_page(asked(), CODE, asks_name=True, shown_name=name))
    for name in (None, "Anna \U0001f44d"):
        yield Shown.of(f"name {name or 'not chosen'}", views.display_name_page(asked(), name, DONE))
    yield Shown.of("name refused", views.display_name_page(asked(), None, DONE, "Anna\u200b"), failure=True)
    yield Shown.of("naming", views.naming_page(asked()))
    yield Shown.of("settled", views.settled_page())
    for write in (views.working_page, views.waiting_page, views.linked_page, views.denied_page):
        yield Shown.of(write.__name__, write())
    yield Shown.of("waiting with a name", views.waiting_page(asked(), "Anna"))
    yield Shown.of("back with a name", views.back_page("Anna"))
    yield Shown.of("back with an offer", views.offer_page(f"{DONE}&later=yes"))
    yield Shown.of("back with a recovery code", views.back_page(codes_left=9))
    for name in ("Anna", "\u2068\u202eAnna\u2069 (" + "W" * 32 + ")"):
        yield Shown.of(f"linked to {name}", views.linked_page(name))
        yield Shown.of(f"adopted {name}", views.adopted_page("Discord", name))
    welcome = ServerName("Anna's Arena", "game.example", Look(welcome="Be kind.", contact="mailto:anna@game.example"))
    yield Shown.of("home with words", views.home_page("https://game.example"), welcome)
    yield Shown.of("callback twice", views.second_callback_page(DONE))


def failures() -> Iterator[Shown]:
    """Yield the pages of every outcome, rejection and problem that a browser can receive."""
    yield Shown.of("collected", views.ended_page(None))
    for outcome in LoginFailure:
        yield Shown.of(f"outcome {outcome.value}", views.ended_page(outcome), failure=True)
    waiting = views.ended_page(LoginFailure.PLAYER_PENDING, NUMBER)
    yield Shown.of("new player with a code", waiting, failure=True)
    for number, sentence in enumerate(dict.fromkeys(each.source for each in BROWSER_REJECTIONS)):
        refused = views.error_page(403, Text(sentence), request_id=ID)
        yield Shown.of(f"refused {number}", refused, failure=True)
    other = views.problem_page(plain_problem("provider_unknown"), request_id=ID, place=Place.ACCOUNT)
    yield Shown.of("problem without a sentence", other, failure=True)
    for code in COMMON:
        for place in Place:
            page = views.problem_page(plain_problem(code), request_id=ID, place=place, address="https://game.example")
            name = f"problem {code}" if place is Place.GAME else f"problem {code} {place.name}"
            yield Shown.of(name, page, failure=True)
