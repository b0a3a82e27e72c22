"""Pages that say what went wrong and what to do now; the request id of a 5xx is the one technical thing on them."""

from twisted.web.template import tags

from gamed.http.app import RenderedError
from gamed.http.problems import Problem
from gamed.login.outcome import Outcome
from gamed.web.pages import texts
from gamed.web.pages.layout import PAGE_HEADERS, Server, page, paragraph, reference

SERVER_ERROR = 500
"""From this status on a page shows its request id: the player can only report it to the owner."""


def error_page(status: int, code: str, detail: str, server: Server | None = None, *, request_id: str) -> bytes:
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


def over_page(outcome: Outcome | None, server: Server, approval_code: str | None = None) -> bytes:
    """A sign-in that came to its end; None: it was collected. The code is what a newcomer tells the owner."""
    if outcome is None:
        return page(texts.BACK_TITLE, paragraph(texts.COLLECTED), server=server)
    title, advice = texts.OVER[outcome]
    if approval_code is None:
        return page(title, paragraph(advice), server=server)
    shown = tags.p(approval_code, class_="code")
    return page(title, paragraph(advice), paragraph(texts.APPROVAL_CODE), shown, server=server)
