"""The pages after a sign-in: back through the loopback port, the finish code, the end (PROTOCOL 3.4).

Pages that say what went wrong and what to do now; the request id of a 5xx is the one technical thing on them.
"""

from twisted.web.template import tags

from gamed.http.app import RenderedError
from gamed.http.problems import Problem
from gamed.login.pages import texts
from gamed.login.pages.forms import DeviceInfo, device_box, not_me
from gamed.login.pages.layout import PAGE_HEADERS, ServerName, muted, page, paragraph, reference
from gamed.outcomes import LoginFailure


def return_page(server: ServerName, address: str, elsewhere: str) -> bytes:
    """Lead to `address`, the game's port, where the browser goes by itself (Refresh), or to the code at `elsewhere`.

    Only the player knows that the game is on another machine: there the browser can only show an error of its own.
    """
    button = tags.a(texts.RETURN, href=address, class_="button")
    code = tags.a(texts.RETURN_CODE, href=elsewhere, class_="button quiet")
    foot = tags.div(paragraph(texts.RETURN_ELSEWHERE), code, class_="foot")
    return page(texts.RETURN_TITLE, paragraph(texts.RETURN_LEAD), button, foot, server=server)


def code_page(server: ServerName, asked: DeviceInfo, code: str) -> bytes:
    """The finish code, for nobody but the person at this browser and the game in front of them."""
    shown = tags.p(code, class_="code")
    notes = (muted(texts.CODE_NOTE), muted(texts.CODE_MOVES))
    content = (paragraph(texts.CODE_LEAD), shown, *notes, device_box(asked), not_me(asked))
    return page(texts.CODE_TITLE, *content, server=server)


def working_page(server: ServerName) -> bytes:
    return page(texts.WORKING_TITLE, paragraph(texts.WORKING_LEAD), server=server)


def waiting_page(server: ServerName) -> bytes:
    """No proof is wanted on this server: the game collects by itself."""
    return page(texts.WAITING_TITLE, paragraph(texts.WAITING_LEAD), server=server)


def back_page(server: ServerName) -> bytes:
    return page(texts.BACK_TITLE, paragraph(texts.BACK_LEAD), server=server)


def linked_page(server: ServerName) -> bytes:
    return page(texts.LINKED_TITLE, paragraph(texts.LINKED_LEAD), server=server)


def twice_page(server: ServerName, address: str) -> bytes:
    """A callback that came a second time: what the first made of it is at `address`."""
    button = tags.a(texts.CALLBACK_ON, href=address, class_="button")
    return page(texts.CALLBACK_TWICE_TITLE, paragraph(texts.CALLBACK_TWICE), button, server=server)


def denied_page(server: ServerName) -> bytes:
    """For whoever just said that this was not them."""
    return page(texts.DENIED_TITLE, paragraph(texts.DENIED_LEAD), server=server)


SERVER_ERROR = 500
"""From this status on a page shows its request id: the player can only report it to the owner."""


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


def over_page(outcome: LoginFailure | None, server: ServerName, approval_code: str | None = None) -> bytes:
    """A sign-in that came to its end; None: it was collected. The code is what a newcomer tells the owner."""
    if outcome is None:
        return page(texts.BACK_TITLE, paragraph(texts.COLLECTED), server=server)
    title, advice = texts.OVER[outcome]
    if approval_code is None:
        return page(title, paragraph(advice), server=server)
    shown = tags.p(approval_code, class_="code")
    return page(title, paragraph(advice), paragraph(texts.APPROVAL_CODE), shown, server=server)
