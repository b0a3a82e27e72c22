"""The pages of an invite and of a reset link; showing one uses nothing up, only its form does."""

from collections.abc import Mapping

from msgspec import Struct
from twisted.web.template import tags

from gamed.account.pages import texts
from gamed.account.pages.parts import HOME, button, link
from gamed.login.pages.forms import FormFeedback, error_message, name_field, password_field
from gamed.login.pages.layout import Content, ServerName, bidi_isolated, muted, page, paragraph
from gamed.login.pages.texts import NAME_HINT, PASSWORD_HINT
from gamed.structs import redacts

INVITE, RESET = "/auth/invite", "/auth/reset"


@redacts("token", "form")
class LinkView(Struct, frozen=True):
    """The things that the page of one link needs: the server, the link's token, the hidden field of its form."""

    server: ServerName
    token: str
    form: str

    def post(self, path: str, *content: Content) -> Content:
        hidden = tags.input(type="hidden", name="form", value=self.form)
        return tags.form(hidden, *content, method="post", action=f"{path}/{self.token}")


def invite_page(view: LinkView, suggested: str, feedback: FormFeedback | None = None) -> bytes:
    """Return the page of an invite in local mode; `suggested` is a name for the account, or ""."""
    form = view.post(
        INVITE,
        *error_message(feedback),
        name_field("name", feedback, NAME_HINT, suggested=suggested),
        password_field("password", feedback, "new-password", PASSWORD_HINT),
        button(texts.INVITE_CREATE, quiet=False),
    )
    lead = paragraph(texts.INVITE_LEAD, server=bidi_isolated(view.server.title))
    return page(texts.INVITE_TITLE, lead, form, muted(texts.LINK_ONCE), server=view.server)


def invite_provider_page(view: LinkView, labels: Mapping[str, str]) -> bytes:
    buttons = [
        tags.button(texts.INVITE_PROVIDER.format(provider=label), type="submit", name="provider", value=name)
        for name, label in labels.items()
    ]
    lead = paragraph(texts.INVITE_PROVIDER_LEAD, server=bidi_isolated(view.server.title))
    form = view.post(INVITE, tags.div(*buttons, class_="choice"))
    return page(texts.INVITE_TITLE, lead, form, muted(texts.LINK_ONCE), server=view.server)


def reset_page(view: LinkView, account_name: str, feedback: FormFeedback | None = None) -> bytes:
    """Return the page of a reset link; a password manager finds the account by its hidden name."""
    account = tags.input(name="account", type="text", value=account_name, autocomplete="username", readonly="readonly")
    form = view.post(
        RESET,
        *error_message(feedback),
        tags.div(account, hidden="hidden"),
        password_field("password", feedback, "new-password", PASSWORD_HINT),
        button(texts.RESET_SET, quiet=False),
    )
    slots = {"name": bidi_isolated(account_name), "server": bidi_isolated(view.server.title)}
    return page(
        texts.RESET_TITLE, paragraph(texts.RESET_LEAD, **slots), form, muted(texts.LINK_ONCE), server=view.server
    )


def reset_done_page(server: ServerName) -> bytes:
    content = (paragraph(texts.RESET_DONE_LEAD), link(texts.TO_YOUR_PAGE, HOME))
    return page(texts.RESET_DONE_TITLE, *content, server=server)


def link_failure_page(server: ServerName, sentence: str) -> bytes:
    return page(texts.LINK_FAILURE_TITLE, paragraph("{sentence}", sentence=sentence), server=server)
