"""Every page a browser can get, in each of its forms, with words that are short, long, and of other scripts."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gamed.config.model import Registration
from gamed.http.problem_codes import CODES
from gamed.http.problems import HTTP_ERRORS
from gamed.login.account_check import Refusal
from gamed.login.client import Client
from gamed.login.outcome import Outcome
from gamed.login.transaction import Intent
from gamed.web.callback import REFUSED
from gamed.web.pages import done, errors, provider, sign_in, texts
from gamed.web.pages.account_fields import Returned
from gamed.web.pages.device import Asked
from gamed.web.pages.layout import Server

TOKEN, FORM, CODE = "A" * 22, "F" * 43, "BKT-RVW"
RETURN = "http://127.0.0.1:51004/gamed/return?login_id=lgn_1&ticket=" + "t" * 43
DONE = "https://game.example/auth/login/done?login_id=lgn_1"
ID = "4461851faeea5437a5c78e27"
LABEL = "Discord"

LONG_HOST = f"{'play-' * 12}here.{'sub.' * 20}example.org:8443"
SERVERS: Mapping[str, Server] = {
    "plain": Server("Anna's Arena", "game.example"),
    "nameless": Server(None, "127.0.0.1:8080"),
    "long": Server("The Extraordinarily Long-Winded Guild of " + "W" * 40, LONG_HOST),
    "arabic": Server("\u062e\u0627\u062f\u0645 \u0627\u0644\u0623\u0644\u0639\u0627\u0628", "game.example"),
}
CLIENTS: Mapping[str, Client] = {
    "plain": Client("MyGame", "1.4.2", "windows", "ANNA-PC"),
    "silent": Client(),
    "half": Client(name="MyGame", platform="linux"),
    "long": Client("W" * 64, "9" * 64, "m" * 64, "An Extremely Long Device Name " + "x" * 34),
    "hebrew": Client("\u05de\u05e9\u05d7\u05e7", "1.0", "windows", "\u05d4\u05de\u05d7\u05e9\u05d1 (2)"),
    "markup": Client("<script>alert(1)</script>", "{0}", "&amp;", '"><h1>'),
}
CHANNEL_REFUSALS = (
    texts.UNKNOWN_LINK,
    texts.FORM_REFUSED,
    texts.NOT_A_PAGE,
    texts.PREFETCH,
    texts.OTHER_BROWSER,
    texts.CALLBACK_MALFORMED,
    *(sentence for _, sentence in REFUSED.values()),
)
"""What the rooms of browser routes say themselves."""
ANYWHERE = ("gamed.http.errors", "gamed.store", "gamed.limits")
NOT_IN_BROWSERS = {"unhealthy", "bad_precondition"}
"""Of /healthz, and of rooms that answer conditional requests."""
COMMON = sorted(
    {code for kind, (_, code) in HTTP_ERRORS.items() if kind.__module__ in ANYWHERE} - NOT_IN_BROWSERS
    | {"internal_error"}
)
"""Problems any room may meet: in a browser room they are pages."""


class Shown(Struct, frozen=True):
    """One page under a name for people; `failure`: somebody must be told what to do now."""

    name: str
    html: bytes
    failure: bool = False


def asked(client: str = "plain", age_seconds: int = 125) -> Asked:
    return Asked(TOKEN, FORM, CLIENTS[client], age_seconds)


def every_page() -> list[Shown]:
    pages = [*sign_ins(), *at_providers(), *afterwards(), *failures()]
    assert len({page.name for page in pages}) == len(pages)
    return pages


def sign_ins() -> Iterator[Shown]:
    """The page of local mode: by registration, by what came back, by words."""
    plain = SERVERS["plain"]
    for registration in Registration:
        yield Shown(f"sign-in {registration.value}", sign_in.sign_in_page(plain, asked(), registration))
    for refusal in Refusal:
        for creating in (False, True):
            returned = Returned(refusal, 12, creating, "Anna", ID if refusal is Refusal.BUSY else "")
            page = sign_in.sign_in_page(plain, asked(), Registration.APPROVAL, returned)
            yield Shown(f"{'account' if creating else 'sign-in'} refused {refusal.value}", page, failure=True)
    nearly = sign_in.sign_in_page(plain, asked(), Registration.OPEN, Returned(Refusal.LIMIT, 1, name="Anna"))
    yield Shown("sign-in limit nearly over", nearly, failure=True)
    for name, server in SERVERS.items():
        yield Shown(f"sign-in at {name}", sign_in.sign_in_page(server, asked(age_seconds=0), Registration.OPEN))
    for name in CLIENTS:
        yield Shown(f"sign-in from {name}", sign_in.sign_in_page(plain, asked(name, 60), Registration.OPEN))


def at_providers() -> Iterator[Shown]:
    """The page before a provider: by intent, by what came back, by words."""
    for intent in Intent:
        wanted = provider.Wanted(LABEL, intent, "Anna" if intent is Intent.LINK else None)
        yield Shown(f"provider {intent.value}", provider.provider_page(SERVERS["plain"], asked(), wanted))
        typed = (Refusal.WRONG, Refusal.LIMIT, Refusal.BUSY) if intent is Intent.ADOPT else ()
        for refusal in typed:
            page = provider.provider_page(SERVERS["plain"], asked(), wanted, Returned(refusal, 12, name="Anna"))
            yield Shown(f"provider {intent.value} refused {refusal.value}", page, failure=True)
        long = provider.Wanted("The Provider With " + "N" * 46, intent, "W" * 32 if intent is Intent.LINK else None)
        yield Shown(f"provider {intent.value} long", provider.provider_page(SERVERS["long"], asked("long"), long))
        page = provider.provider_page(SERVERS["arabic"], asked("hebrew"), wanted)
        yield Shown(f"provider {intent.value} other scripts", page)


def afterwards() -> Iterator[Shown]:
    for name, server in SERVERS.items():
        yield Shown(f"return at {name}", done.return_page(server, RETURN, DONE))
        yield Shown(f"back at {name}", done.back_page(server))
    for name in CLIENTS:
        server = SERVERS.get(name, SERVERS["plain"])
        yield Shown(f"code from {name}", done.code_page(server, asked(name), CODE))
    for write in (done.working_page, done.waiting_page, done.linked_page, done.denied_page):
        yield Shown(write.__name__, write(SERVERS["plain"]))
    yield Shown("callback twice", done.twice_page(SERVERS["plain"], DONE))


def failures() -> Iterator[Shown]:
    """Every outcome, every refusal of a browser room, every problem such a room can meet."""
    yield Shown("collected", errors.over_page(None, SERVERS["plain"]))
    for outcome in Outcome:
        yield Shown(f"outcome {outcome.value}", errors.over_page(outcome, SERVERS["plain"]), failure=True)
    waiting = errors.over_page(Outcome.PLAYER_PENDING, SERVERS["plain"], CODE)
    yield Shown("newcomer with a code", waiting, failure=True)
    for number, sentence in enumerate(dict.fromkeys(CHANNEL_REFUSALS)):
        yield Shown(
            f"refused {number}", errors.error_page(403, "", sentence, SERVERS["plain"], request_id=ID), failure=True
        )
    for code in COMMON:
        problem = CODES[code]
        yield Shown(
            f"problem {code}", errors.error_page(problem.status, code, problem.detail, request_id=ID), failure=True
        )
