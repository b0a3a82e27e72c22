"""Every callback that is not what the provider wrote for this browser, by name, and what it is answered.

Each is tried while the true one is still to come. Where it has no effect, the honest parties finish afterwards as if
nothing had happened; where it burns the attempt, they finish by opening the link again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from gamed.login import sentences
from tests.hostile.fake_provider import ISSUER, MARK
from tests.login.browser_fixtures import Page

if TYPE_CHECKING:
    from tests.hostile.helpers import HostileCase, SignIn

Act = Callable[[Any, Any], Page]
MALFORMED, UNKNOWN, OTHER = (
    sentences.CALLBACK_MALFORMED.source,
    sentences.CALLBACK_UNKNOWN.source,
    sentences.CALLBACK_BROWSER.source,
)
NOWHERE, BURNED, NO_PAGE = (
    sentences.CALLBACK_UNKNOWN_PROVIDER.source,
    sentences.CALLBACK_INVALID.source,
    sentences.NOT_A_PAGE.source,
)


class Bad(Struct, frozen=True):
    """One request, sent by the right browser unless `act` does otherwise."""

    name: str
    act: Act
    status: int = 400
    sentence: str = MALFORMED
    burned: str = ""
    """The check that ends the attempt, if one does."""


def raw(query: str, path: str = "/auth/idp/callback", **headers: str) -> Act:
    """Return a request with this query; `{state}` and `{code}` are the true ones."""

    def act(_: "HostileCase", sign_in: "SignIn") -> Page:
        filled = query.replace("{state}", sign_in.state).replace("{code}", sign_in.code)
        return sign_in.browser.get(f"{path}?{filled}", **headers)

    return act


def by(cookie: Callable[[str], str | None], query: str = "state={state}&code={code}") -> Act:
    """Return a request of a browser whose cookie is made from the right one's."""

    def act(case: "HostileCase", sign_in: "SignIn") -> Page:
        stranger = case.new_browser()
        stranger.cookie = cookie(str(sign_in.browser.cookie))
        filled = query.replace("{state}", sign_in.state).replace("{code}", sign_in.code)
        page = stranger.get(f"/auth/idp/callback?{filled}")
        case.assertEqual(stranger.cookie, cookie(str(sign_in.browser.cookie)), "no cookie is set here")
        return page

    return act


def method(name: str) -> Act:
    def act(case: "HostileCase", sign_in: "SignIn") -> Page:
        body = urlencode({"state": sign_in.state, "code": sign_in.code}).encode() if name == "POST" else b""
        headers = sign_in.browser.headers(Content_Type="application/x-www-form-urlencoded")
        return Page(case.site.request(name, case.callback(sign_in), headers, body))

    return act


def _of_another_browser(case: "HostileCase", sign_in: "SignIn") -> Page:
    """Send an attacker's own callback in the victim's browser (RFC 6749 10.12)."""
    page = sign_in.browser.get(case.callback(case.depart()))
    case.fake.visited(sign_in.url)
    return page


def _of_another_login(case: "HostileCase", sign_in: "SignIn") -> Page:
    """Send the victim's state from a stranger who has begun an attempt of their own at the victim's link."""
    stranger = case.new_browser()
    page = stranger.post(stranger.get(sign_in.game.url).form("/continue"))
    case.assertEqual(page.status, 303)
    return stranger.get(case.callback(sign_in))


def _dropped(case: "HostileCase", sign_in: "SignIn") -> Page:
    """Send the oldest of six attempts, the sixth of which is the true one."""
    first = sign_in.state
    for _ in range(5):
        page = sign_in.browser.post(sign_in.browser.get(sign_in.game.url).form("/continue"))
        sign_in.url = page.headers["location"]
        case.fake.visited(sign_in.url)
    return sign_in.browser.get(f"/auth/idp/callback?state={first}&code={sign_in.code}")


GOOD = "state={state}&code={code}"
_EVIL = quote(f"<script>alert('{MARK}')</script>")

NO_EFFECT = (
    Bad("nothing", raw("")),
    Bad("no state", raw("code={code}"), sentence=UNKNOWN),
    Bad("no code", raw("state={state}")),
    Bad("empty state", raw("state=&code={code}"), sentence=UNKNOWN),
    Bad("empty code", raw("state={state}&code=")),
    Bad("only members without a meaning", raw("scope=openid&session_state=1&authuser=0")),
    Bad("state doubled", raw(GOOD + "&state={state}")),
    Bad("state doubled in another spelling", raw(GOOD + "&%73tate={state}")),
    Bad("state doubled, once empty", raw(GOOD + "&state=")),
    Bad("code doubled", raw(GOOD + f"&code={MARK}")),
    Bad("code doubled, first the foreign one", raw(f"code={MARK}&" + GOOD)),
    Bad("code with a control character", raw(f"state={{state}}&code=%00{MARK}")),
    Bad("code with a line end", raw(f"state={{state}}&code={{code}}%0d%0a{MARK}")),
    Bad("code in another script", raw(f"state={{state}}&code={{code}}%e2%80%ae{MARK}")),
    Bad("error with a line end", raw(f"state={{state}}&error=x%0d%0a{MARK}:+1")),
    Bad("error in another script", raw(f"state={{state}}&error=%e2%80%ae{MARK}")),
    Bad("error with a quotation mark", raw(f"state={{state}}&error=%22{MARK}")),
    Bad("error doubled", raw("state={state}&error=access_denied&error=server_error")),
    Bad("iss doubled", raw(GOOD + f"&iss={quote(ISSUER)}&iss={quote(ISSUER)}")),
    Bad("code and error", raw(GOOD + "&error=access_denied")),
    Bad("code and error, swapped", raw("error=access_denied&" + GOOD)),
    Bad("state and code swapped", raw("state={code}&code={state}"), sentence=UNKNOWN),
    Bad("state of nobody", raw("state=" + "A" * 43 + "&code={code}"), sentence=UNKNOWN),
    Bad("state with a space", raw("state={state}+&code={code}"), sentence=UNKNOWN),
    Bad("state with a zero byte", raw("state={state}%00&code={code}"), sentence=UNKNOWN),
    Bad("state an injection", raw("state=%27%20OR%20%271%27%3D%271&code={code}"), sentence=UNKNOWN),
    Bad("state a wildcard", raw("state=%25&code={code}"), sentence=UNKNOWN),
    Bad("state as a list", raw("state[]={state}&code={code}"), sentence=UNKNOWN),
    Bad("parted by semicolons", raw("state={state};code={code}")),
    Bad("markup in state", raw(f"state={_EVIL}&code={_EVIL}"), sentence=UNKNOWN),
    Bad("markup in error, no state", raw(f"error={_EVIL}&error_description={_EVIL}"), sentence=UNKNOWN),
    Bad("not UTF-8", raw(GOOD + "&x=%ff")),
    Bad("overlong UTF-8", raw("state={state}&code=%c0%af")),
    Bad("half a surrogate", raw("state={state}&code=%ed%a0%80")),
    Bad("too long", raw(GOOD + "&x=" + "x" * 4096)),
    Bad("in front of too much", raw("x=" + "x" * 4096 + "&" + GOOD)),
    Bad("no cookie", by(lambda _: None), 403, OTHER),
    Bad("a cookie of nobody", by(lambda _: "__Host-gl=" + "A" * 43), 403, OTHER),
    Bad("a cookie without value", by(lambda _: "__Host-gl="), 403, OTHER),
    Bad("the cookie without prefix", by(lambda own: own.removeprefix("__Host-")), 403, OTHER),
    Bad("the cookie cut", by(lambda own: own[:-1]), 403, OTHER),
    Bad("the cookie in capitals", by(lambda own: "__Host-gl=" + own.partition("=")[2].swapcase()), 403, OTHER),
    Bad("no cookie and an error", by(lambda _: None, "state={state}&error=access_denied"), 403, OTHER),
    Bad("a stranger at the same link", _of_another_login, 403, OTHER),
    Bad("the callback of an attacker", _of_another_browser, 403, OTHER),
    Bad("the oldest of six", _dropped, 400, UNKNOWN),
    Bad("no such provider", raw(GOOD, "/auth/nobody/callback"), 404, NOWHERE),
    Bad("a provider that is not enabled", raw(GOOD, "/auth/google/callback"), 404, NOWHERE),
    Bad("the provider in capitals", raw(GOOD, "/auth/IDP/callback"), 404, NOWHERE),
    Bad("a path below", raw(GOOD, "/auth/idp/callback/x"), 404, ""),
    Bad("a stray slash", raw(GOOD, "/auth/idp/callback/"), 404, ""),
    Bad("POST", method("POST"), 405, ""),
    Bad("HEAD", method("HEAD"), 405, ""),
    Bad("PUT", method("PUT"), 405, ""),
    Bad("OPTIONS", method("OPTIONS"), 405, ""),
    Bad("a prefetch", raw(GOOD, Sec_Purpose="prefetch"), 503, sentences.PREFETCH.source),
    Bad("a prerender", raw(GOOD, Sec_Purpose="prefetch;prerender"), 503, sentences.PREFETCH.source),
    Bad("in a frame", raw(GOOD, Sec_Fetch_Dest="iframe"), 403, NO_PAGE),
    Bad("as an image", raw(GOOD, Sec_Fetch_Dest="image"), 403, NO_PAGE),
    Bad("by a script", raw(GOOD, Sec_Fetch_Dest="empty"), 403, NO_PAGE),
)

BURNING = (
    Bad("iss another", raw(GOOD + f"&iss={quote(f'https://{MARK}.example')}"), 400, BURNED, "other_issuer"),
    Bad("iss with a slash", raw(GOOD + f"&iss={quote(ISSUER + '/')}"), 400, BURNED, "other_issuer"),
    Bad("iss in capitals", raw(GOOD + f"&iss={quote(ISSUER.upper())}"), 400, BURNED, "other_issuer"),
    Bad("iss http", raw(GOOD + f"&iss={quote(ISSUER.replace('https', 'http'))}"), 400, BURNED, "other_issuer"),
    Bad("iss not here though promised", raw(GOOD), 400, BURNED, "other_issuer"),
    Bad("iss empty though promised", raw(GOOD + "&iss="), 400, BURNED, "other_issuer"),
    Bad("iss another beside an error", raw("state={state}&error=access_denied&iss=x"), 400, BURNED, "other_issuer"),
    Bad("the other provider's path", raw(GOOD, "/auth/discord/callback"), 400, BURNED, "other_provider"),
)

CALLBACKS = (*NO_EFFECT, *BURNING)

if __name__ == "__main__":
    for bad in CALLBACKS:
        print(f"{bad.name:40} {bad.status} {bad.burned or 'no effect':16} {bad.sentence}")
