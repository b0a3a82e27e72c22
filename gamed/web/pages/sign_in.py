"""The page of one sign-in in local mode: who asks, a form to sign in, a form to make an account (PROTOCOL 3.2)."""

from twisted.web.template import Tag, tags

from gamed.config.model import Registration
from gamed.web.pages import texts
from gamed.web.pages.account_fields import Returned, name_field, password_field, refused
from gamed.web.pages.device import Asked, device_box, not_me
from gamed.web.pages.layout import Content, Server, foreign, page, paragraph, soft


def sign_in_page(server: Server, asked: Asked, registration: Registration, returned: Returned | None = None) -> bytes:
    closed = registration is Registration.CLOSED
    creating = returned is not None and returned.creating and not closed
    content: list[Content] = [
        paragraph(texts.SIGN_IN_LEAD, server=foreign(server.title)),
        device_box(asked),
        _sign_in(asked, None if creating else returned),
    ]
    if not closed:
        content.append(_create(asked, registration, returned if creating else None))
    return page(texts.SIGN_IN_TITLE, *content, not_me(asked), server=server)


def _sign_in(asked: Asked, returned: Returned | None) -> Tag:
    return asked.post(
        "local",
        *refused(returned),
        name_field("name", returned),
        password_field("password", returned, "current-password"),
        tags.button(texts.SIGN_IN, type="submit"),
    )


def _create(asked: Asked, registration: Registration, returned: Returned | None) -> Tag:
    """Folded away until it is wanted, open when it comes back."""
    approval = [soft(texts.CREATE_APPROVAL)] if registration is Registration.APPROVAL else []
    form = asked.post(
        "local",
        tags.input(type="hidden", name="create", value="yes"),
        *refused(returned),
        *approval,
        name_field("new-name", returned, texts.NAME_HINT),
        password_field("new-password", returned, "new-password", texts.PASSWORD_HINT),
        tags.button(texts.CREATE, type="submit"),
    )
    unfolded = {"open": "open"} if returned is not None else {}
    return Tag("details")(Tag("summary")(texts.CREATE_TITLE), tags.div(form, class_="inside"), **unfolded)
