"""The page of a finished sign-in, for the browser that finished it (PROTOCOL 3.4)."""

from urllib.parse import urlencode

from gamed.http.app import make_html_app
from gamed.http.bodies import DEFAULT_BODY_POLICIES
from gamed.http.request import Request
from gamed.login.done import Done, DoneSide, GoBack, Over, Return, ShowCode, Working
from gamed.structs import Part
from gamed.web.browser_guard import require_earnest
from gamed.web.login_errors import LOGIN_ERRORS
from gamed.web.page_room import PageRoom, page
from gamed.web.pages import done, errors
from gamed.web.pages.errors import error_response
from gamed.web.players_errors import PLAYER_ERRORS
from gamed.web.query import read_query
from gamed.web.sessions_errors import SESSION_ERRORS

RETURN_SECONDS = 2
"""With 0 or 1 the Back button skips the page in some browsers, and nobody reads it."""
WORKING_SECONDS = 1
STANDING_SECONDS = 20
"""Between two loads of a page that waits for the game: each takes away the keyboard's focus and what was selected,
and a screen reader begins anew, so a page can first be read to its end."""


class DoneRoutes(Part, frozen=True):
    app = make_html_app(error_response, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS)
    prefixes = ("/auth/login/done",)
    body_policies = DEFAULT_BODY_POLICIES

    _done: DoneSide
    _room: PageRoom

    @app.route("/auth/login/done", methods=["GET"])
    async def see_done(self, request: Request) -> bytes:
        return await self._room.answered(request, self._see(request))

    async def _see(self, request: Request) -> bytes:
        require_earnest(request)
        login_id = read_query(request).get("login_id", "")
        return self._seen(request, await self._done.done(login_id, self._room.guard.browser(request)))

    def _seen(self, request: Request, seen: Done) -> bytes:
        server = self._room.server
        match seen:
            case Return(login, ticket):
                back = f"http://127.0.0.1:{login.loopback_port}/gamed/return?"
                back += urlencode({"login_id": login.login_id, "ticket": ticket})
                request.setHeader("Refresh", f"{RETURN_SECONDS}; url={back}")
                return page(request, 200, done.return_page(server, back, self._room.done_url(login.login_id)))
            case ShowCode(login, code, token):
                request.setHeader("Refresh", str(STANDING_SECONDS))
                asked = self._room.asked(login, token, self._room.guard.offered(request))
                return page(request, 200, done.code_page(server, asked, code))
            case Working():
                request.setHeader("Refresh", str(WORKING_SECONDS))
                return page(request, 200, done.working_page(server))
            case GoBack(signed_in, linked, final):
                if not final:
                    request.setHeader("Refresh", str(STANDING_SECONDS))
                write = done.linked_page if linked else done.back_page if signed_in else done.waiting_page
                return page(request, 200, write(server))
            case Over(outcome, code):
                return page(request, 200, errors.over_page(outcome, server, code))
