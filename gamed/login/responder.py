"""The pages of all browser routes: what surrounds them, their language, redirects, and the pages of errors."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import Look, Mark
from gamed.config.settings import Intervals
from gamed.http.app import HtmlApp, make_html_app
from gamed.http.background import ShieldedTasks
from gamed.http.problems import Problem, RenderedError
from gamed.http.request import Request
from gamed.login import sentences, views
from gamed.login.authorize import RedirectToProvider
from gamed.login.browser import RedirectToResult
from gamed.login.csrf import BrowserGuard, CsrfError, FramedRequest, PrefetchRequest
from gamed.login.errors import LoginEnded, NameSettled, UnknownLoginLink, WrongBrowser
from gamed.login.places import place_of
from gamed.login.problems import LOGIN_ERRORS
from gamed.login.sentences import Place
from gamed.login.transaction import LoginTransaction
from gamed.login.views import SERVER_ERROR, DeviceInfo, FormFeedback
from gamed.pages.language import Language
from gamed.pages.languages import Languages
from gamed.pages.model import PAGE_HEADERS, Frame, LanguageChoice, Page, ServerName, Text
from gamed.pages.render import PageFailed, PageRenderer, Pause, built_in_mark
from gamed.players.problems import PLAYER_ERRORS
from gamed.sessions.problems import SESSION_ERRORS
from gamed.timestamps import Now

LANGUAGE: Final = "/auth/language"


async def at_once() -> None:
    """Do not pause: for pages that nobody else waits for."""


class PageResponder(Struct, frozen=True):
    """The parts that all browser routes share; `base_url` is a function, because the port may decide the URL."""

    guard: BrowserGuard
    base_url: Callable[[], str]
    server_name: str | None
    now_ms: Now
    tasks: ShieldedTasks
    renderer: PageRenderer
    languages: Languages
    look: Look | None = None
    intervals: Intervals = Intervals()
    pause: Pause = at_once

    @property
    def server(self) -> ServerName:
        return ServerName(self.server_name, urlsplit(self.base_url()).netloc, self.look)

    @property
    def mark(self) -> Mark:
        """Return the owner's picture, or the built-in one."""
        return (self.look and self.look.mark) or built_in_mark()

    def page(self, request: Request, status: int, shown: Page, *, at: str | None = None) -> bytes:
        """Return the page, and set its status and header fields.

        `at` is the path of the page that GET shows again where the request's address does not tell it, "" if none does:
        the page says what has just happened, and offers no languages.
        """
        request.setResponseCode(status)
        request.setHeaders(self.renderer.headers_of(shown))
        return self.render(request, shown, at)

    async def page_in_turns(self, request: Request, status: int, shown: Page, *, at: str | None = None) -> bytes:
        """Return the page as page() does, with pauses for other requests: for pages whose rows people or games add."""
        request.setResponseCode(status)
        request.setHeaders(self.renderer.headers_of(shown))
        frame, language = self._frame(request, at), self.language(request)
        try:
            return await self.renderer.render_in_turns(shown, frame, language, self.pause)
        except PageFailed as e:
            request.setResponseCode(500)
            return e.plain

    def render(self, request: Request, shown: Page, at: str | None = None) -> bytes:
        """Return the page; set the status to 500 if its template fails."""
        try:
            return self.renderer.render(shown, self._frame(request, at), self.language(request))
        except PageFailed as e:
            request.setResponseCode(500)
            return e.plain

    def _frame(self, request: Request, at: str | None) -> Frame:
        place = place_of(request.head.path, request.head.query) if at is None else place_of(at)
        choices: Sequence[LanguageChoice] = ()
        if place is not None:
            choices = [LanguageChoice(tag, name, f"{LANGUAGE}/{tag}{place}") for tag, name in self.languages.names]
        return Frame(self.server, request.request_id, self.now_ms(), choices)

    @property
    def language_cookie(self) -> str:
        return "__Host-language" if self.guard.secure else "language"

    def language(self, request: Request) -> Language:
        accepted = ",".join(request.head.headers.values("accept-language"))
        return self.languages.choose(request.getCookie(self.language_cookie) or "", request.locale, accepted)

    def device(self, request: Request, login: LoginTransaction, token: str, cookie: str) -> DeviceInfo:
        """Return the device that asks; from now on the page of this request is in the language of its game."""
        request.locale = login.client.locale
        age_seconds = max(0, self.now_ms() - login.created_ms) // 1000
        return DeviceInfo(token, self.guard.field(cookie, token), login.client, age_seconds)

    def result_url(self, login_id: str) -> str:
        return f"{self.base_url()}/auth/login/done?{urlencode({'login_id': login_id})}"

    def redirect(self, request: Request, target: RedirectToProvider | RedirectToResult) -> bytes:
        url = target.url if isinstance(target, RedirectToProvider) else self.result_url(target.login_id)
        return see_other(request, url)

    def error(self, request: Request, status: int, sentence: Text) -> bytes:
        return self.page(request, status, views.error_page(status, sentence, request_id=request.request_id))

    def problem(self, problem: Problem, request: Request, place: Place, *, at: str | None = None) -> RenderedError:
        """Return the header fields and the page of a problem that is not special to a group of routes; see page()."""
        shown = views.problem_page(problem, request_id=request.request_id, place=place, address=self.base_url())
        return self.renderer.headers, self.render(request, shown, at)

    def failure_page(self, request: Request, error: Exception) -> bytes | None:
        """Return the page of an error that only the browser routes of a login have, None for any other."""
        match error:
            case UnknownLoginLink():
                return self.error(request, 404, sentences.UNKNOWN_LINK)
            case LoginEnded():
                request.locale = error.locale
                return self.page(request, 410, views.ended_page(error.outcome))
            case WrongBrowser():
                return self.error(request, 409, sentences.OTHER_BROWSER)
            case NameSettled():
                return self.page(request, 409, views.settled_page())
            case CsrfError():
                return self.error(request, 403, self.form_refused(request))
            case FramedRequest():
                return self.error(request, 403, sentences.NOT_A_PAGE)
            case PrefetchRequest():
                request.setHeader("Retry-After", "1")
                return self.error(request, 503, sentences.PREFETCH)
            case _:
                return None

    def form_refused(self, request: Request) -> Text:
        """Return why a form was refused: most often the browser keeps no cookies."""
        return sentences.FORM_REFUSED if self.guard.cookie(request) else sentences.NO_COOKIE


def report(request: Request, feedback: FormFeedback | None) -> tuple[int, FormFeedback | None]:
    """Set Retry-After; return the status, and the feedback with the request's id if the server is the reason."""
    if feedback is None:
        return 200, None
    if feedback.retry_after:
        request.setHeader("Retry-After", str(feedback.retry_after))
    status = feedback.error.status
    return status, feedback if status < SERVER_ERROR else replace(feedback, request_id=request.request_id)


def see_other(request: Request, url: str) -> bytes:
    """Redirect with 303."""
    request.setHeader("Location", url)
    request.setResponseCode(303)
    request.setHeaders(PAGE_HEADERS)
    return b""


def _problem_page(group: Any, problem: Problem, request: Request) -> RenderedError:
    rendered: RenderedError = group.pages.problem(problem, request, Place.GAME)
    return rendered


def _failure_page(routes: Any, request: Request, error: Exception) -> bytes | None:
    shown: bytes | None = routes.pages.failure_page(request, error)
    return shown


def make_login_app() -> HtmlApp:
    """Return the app of a group of browser routes that have a PageResponder."""
    return make_html_app(_problem_page, LOGIN_ERRORS, PLAYER_ERRORS, SESSION_ERRORS, failure_page=_failure_page)
