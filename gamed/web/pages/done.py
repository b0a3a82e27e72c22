"""The pages after a sign-in: back through the loopback port, the finish code, the end (PROTOCOL 3.4)."""

from twisted.web.template import tags

from gamed.web.pages import texts
from gamed.web.pages.device import Asked, device_box, not_me
from gamed.web.pages.layout import Server, page, paragraph, soft


def return_page(server: Server, address: str, elsewhere: str) -> bytes:
    """Lead to `address`, the game's port, where the browser goes by itself (Refresh), or to the code at `elsewhere`.

    Only the player knows that the game is on another machine: there the browser can only show an error of its own.
    """
    button = tags.a(texts.RETURN, href=address, class_="button")
    code = tags.a(texts.RETURN_CODE, href=elsewhere, class_="button quiet")
    foot = tags.div(paragraph(texts.RETURN_ELSEWHERE), code, class_="foot")
    return page(texts.RETURN_TITLE, paragraph(texts.RETURN_LEAD), button, foot, server=server)


def code_page(server: Server, asked: Asked, code: str) -> bytes:
    """The finish code, for nobody but the person at this browser and the game in front of them."""
    shown = tags.p(code, class_="code")
    notes = (soft(texts.CODE_NOTE), soft(texts.CODE_MOVES))
    content = (paragraph(texts.CODE_LEAD), shown, *notes, device_box(asked), not_me(asked))
    return page(texts.CODE_TITLE, *content, server=server)


def working_page(server: Server) -> bytes:
    return page(texts.WORKING_TITLE, paragraph(texts.WORKING_LEAD), server=server)


def waiting_page(server: Server) -> bytes:
    """No proof is wanted on this server: the game collects by itself."""
    return page(texts.WAITING_TITLE, paragraph(texts.WAITING_LEAD), server=server)


def back_page(server: Server) -> bytes:
    return page(texts.BACK_TITLE, paragraph(texts.BACK_LEAD), server=server)


def linked_page(server: Server) -> bytes:
    return page(texts.LINKED_TITLE, paragraph(texts.LINKED_LEAD), server=server)


def twice_page(server: Server, address: str) -> bytes:
    """A callback that came a second time: what the first made of it is at `address`."""
    button = tags.a(texts.CALLBACK_ON, href=address, class_="button")
    return page(texts.CALLBACK_TWICE_TITLE, paragraph(texts.CALLBACK_TWICE), button, server=server)


def denied_page(server: Server) -> bytes:
    """For whoever just said that this was not them."""
    return page(texts.DENIED_TITLE, paragraph(texts.DENIED_LEAD), server=server)
