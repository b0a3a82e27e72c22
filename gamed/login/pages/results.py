"""The pages after a sign-in return to the game, show the finish code, or say how it ended.

See docs/protocol.md: Collect.
"""

from twisted.web.template import Tag, tags

from gamed.http.problems import Problem, RenderedError
from gamed.login.pages import texts
from gamed.login.pages.forms import DeviceInfo, device_box, display_name_form, not_me
from gamed.login.pages.layout import (
    PAGE_HEADERS,
    Content,
    ServerName,
    Sign,
    bidi_isolated,
    muted,
    page,
    paragraph,
    reference,
)
from gamed.outcomes import LoginFailure


def return_page(server: ServerName, game: str, code_url: str) -> bytes:
    """Return a page that redirects to the game's loopback port (Refresh) and links to the finish code.

    Only the player can know that the game is on another machine, where the loopback redirect cannot work.
    """
    return _way_back(server, texts.RETURN_TITLE, texts.RETURN_LEAD, game, code_url)


def app_page(server: ServerName, app: str, code_url: str) -> bytes:
    """Return the page with the button that opens the app; the finish code is for an app that does not open."""
    return _way_back(server, texts.APP_TITLE, texts.APP_LEAD, app, code_url)


def _way_back(server: ServerName, title: str, lead: str, game: str, code_url: str) -> bytes:
    button = tags.a(texts.RETURN, href=game, class_="button")
    code = tags.a(texts.RETURN_CODE, href=code_url, class_="button quiet")
    foot = tags.div(paragraph(texts.RETURN_ELSEWHERE), code, class_="foot")
    return page(title, paragraph(lead), button, foot, server=server)


def code_page(server: ServerName, device: DeviceInfo, code: str, *more: Content) -> bytes:
    """Return the page with the finish code; `more` comes before the device."""
    shown = tags.p(code, class_="code")
    notes = (muted(texts.CODE_NOTE), muted(texts.CODE_MOVES))
    content = (paragraph(texts.CODE_LEAD), shown, *notes, *more, device_box(device), not_me(device))
    return page(texts.CODE_TITLE, *content, server=server)


def working_page(server: ServerName) -> bytes:
    return page(texts.WORKING_TITLE, paragraph(texts.WORKING_LEAD), server=server, sign=Sign.WAITING)


def waiting_page(server: ServerName, *more: Content) -> bytes:
    """Return the page of a sign-in that the game collects without a proof."""
    return page(texts.WAITING_TITLE, paragraph(texts.WAITING_LEAD), *more, server=server, sign=Sign.WAITING)


def back_page(server: ServerName, *more: Content) -> bytes:
    return page(texts.BACK_TITLE, paragraph(texts.BACK_LEAD), *more, server=server, sign=Sign.DONE)


def naming_page(server: ServerName, device: DeviceInfo) -> bytes:
    """Return the page of a new player who is signed in and has no name yet."""
    form = tags.div(Tag("h2")(texts.CALLED_TITLE), paragraph(texts.CALLED_LEAD), display_name_form(device, None))
    return back_page(server, form)


def settled_page(server: ServerName) -> bytes:
    """Return the page for a name that only the game can change."""
    return page(texts.SETTLED_TITLE, paragraph(texts.SETTLED_LEAD), server=server)


def linked_page(server: ServerName, player: str | None = None) -> bytes:
    """Return the page after a link; the player is named while the session that asked for it is valid."""
    lead = paragraph(texts.LINKED_LEAD) if player is None else paragraph(texts.LINKED_TO, player=bidi_isolated(player))
    return page(texts.LINKED_TITLE, lead, server=server, sign=Sign.DONE)


def adopted_page(server: ServerName, provider: str, player: str) -> bytes:
    """Return the page after a local account was adopted."""
    lead = paragraph(texts.ADOPTED_LEAD, provider=provider, player=bidi_isolated(player))
    return page(texts.BACK_TITLE, lead, server=server, sign=Sign.DONE)


def second_callback_page(server: ServerName, url: str) -> bytes:
    """Return the page of a second callback, which links to the result of the first one."""
    button = tags.a(texts.CALLBACK_ON, href=url, class_="button")
    return page(texts.CALLBACK_TWICE_TITLE, paragraph(texts.CALLBACK_TWICE), button, server=server)


def denied_page(server: ServerName) -> bytes:
    """Return the page after a decline."""
    return page(texts.DENIED_TITLE, paragraph(texts.DENIED_LEAD), server=server, sign=Sign.DECLINED)


SERVER_ERROR = 500
"""From this status on a page shows its request id, because the player can only report it to the owner."""


def error_page(status: int, code: str, detail: str, server: ServerName | None = None, *, request_id: str) -> bytes:
    """Return the page of a refused request: a heading by status, a sentence by `code`, else the error's own.

    A 5xx page shows `request_id`, by which the owner finds the request in the log.
    """
    title = texts.ERROR_TITLE.get(status, texts.ERROR_TITLE_OTHER)
    sentence = texts.ERROR_LEAD.get(code) or detail or texts.ERROR_LEAD_OTHER
    shown = [reference(request_id)] if status >= SERVER_ERROR else []
    return page(title, paragraph("{sentence}", sentence=sentence), *shown, server=server)


def error_response(problem: Problem, request_id: str) -> RenderedError:
    """Return the header fields and the page for a problem of a browser route."""
    return PAGE_HEADERS, error_page(problem.status, problem.code, problem.detail, request_id=request_id)


_SIGNS = {
    LoginFailure.LOGIN_DENIED: Sign.DECLINED,
    LoginFailure.PROVIDER_DENIED: Sign.DECLINED,
    LoginFailure.LOGIN_CANCELLED: Sign.DECLINED,
    LoginFailure.LOGIN_EXPIRED: Sign.EXPIRED,
    LoginFailure.PROOF_ATTEMPTS_EXCEEDED: Sign.BLOCKED,
    LoginFailure.PLAYER_BLOCKED: Sign.BLOCKED,
    LoginFailure.REGISTRATION_CLOSED: Sign.BLOCKED,
    LoginFailure.PLAYER_PENDING: Sign.WAITING,
}
"""The drawings of outcomes; a fault of the server or of a provider has none."""


def ended_page(outcome: LoginFailure | None, server: ServerName, approval_code: str | None = None) -> bytes:
    """Return the page of a login that has ended; an outcome of None means collected.

    A new player reports the approval code to the owner.
    """
    if outcome is None:
        return page(texts.BACK_TITLE, paragraph(texts.COLLECTED), server=server, sign=Sign.DONE)
    title, advice = texts.ENDED[outcome]
    content = [paragraph(advice)]
    if approval_code is not None:
        shown = tags.p(approval_code, class_="approval")
        content += [paragraph(texts.APPROVAL_CODE), shown, muted(texts.APPROVAL_NOTE)]
    return page(title, *content, server=server, sign=_SIGNS.get(outcome))
