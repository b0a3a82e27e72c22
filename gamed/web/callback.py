"""Where a provider sends the browser back to (SPEC 4.2, PROTOCOL 3.3)."""

from collections.abc import Mapping

from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.login.browser import SeeDone
from gamed.login.callback import CallbackRefused, Ruling
from gamed.login.errors import CallbackMalformed, OtherBrowser
from gamed.login.returning import Arrival, Returning
from gamed.structs import Part
from gamed.web.browser_guard import require_earnest
from gamed.web.login_errors import LOGIN_ERRORS
from gamed.web.page_room import PageRoom, page
from gamed.web.pages import done, texts
from gamed.web.pages.errors import error_response
from gamed.web.players_errors import PLAYER_ERRORS
from gamed.web.sessions_errors import SESSION_ERRORS

REFUSED: Mapping[Ruling, tuple[int, str]] = {
    Ruling.PROVIDER_UNKNOWN: (404, texts.CALLBACK_UNKNOWN_PROVIDER),
    Ruling.STATE_UNKNOWN: (400, texts.CALLBACK_UNKNOWN),
    Ruling.OTHER_BROWSER: (403, texts.CALLBACK_BROWSER),
    Ruling.OTHER_PROVIDER: (400, texts.CALLBACK_BURNED),
    Ruling.OTHER_ISSUER: (400, texts.CALLBACK_BURNED),
    Ruling.OVER: (410, texts.CALLBACK_BURNED),
}


class CallbackRoutes(Part, frozen=True):
    """The work runs on when the browser leaves: a code can be redeemed only once."""

    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/*/callback",)
    body_policies = DEFAULT_BODY_POLICIES

    _returning: Returning
    _room: PageRoom

    @app.route("/auth/<string:provider>/callback", methods=["GET"])
    async def take_callback(self, request: Request, provider: str) -> bytes:
        return await self._room.answered(request, self._take(request, provider))

    async def _take(self, request: Request, provider: str) -> bytes:
        require_earnest(request)
        head, browser = request.head, self._room.guard.browser(request)
        arrival = Arrival(provider, head.query, browser, head.address, request.request_id)
        try:
            answer = await self._room.detached.run(self._returning.complete(arrival))
        except CallbackMalformed:
            return self._room.refused(request, 400, texts.CALLBACK_MALFORMED)
        except CallbackRefused as e:
            return self._room.refused(request, *REFUSED[e.ruling])
        if isinstance(answer, SeeDone):
            return self._room.see_done(request, answer)
        if not answer.mine:
            raise OtherBrowser
        where = self._room.done_url(answer.login_id)
        request.setHeader("Refresh", f"0; url={where}")
        return page(request, 409, done.twice_page(self._room.server, where))
