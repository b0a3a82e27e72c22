"""The player's page shows devices, saves, ways to sign in, and what can be changed; before it there is a sign-in."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.json import decode
from twisted.web.template import Tag, tags

from gamed.account.browser import SLOTS_AT_ONCE, AccountOverview
from gamed.account.pages import texts
from gamed.account.pages.parts import HOME, PageView, alert, box, button, line, link, notice, section
from gamed.login.browser import Ended
from gamed.login.pages.forms import FormFeedback, error_message, name_field, password_field
from gamed.login.pages.layout import Content, ServerName, bidi_isolated, fill, muted, paragraph
from gamed.login.pages.layout import page as plain_page
from gamed.login.transaction import ClientInfo
from gamed.outcomes import LoginFailure
from gamed.players.names import LOCAL, PASSWORD_MIN, SignInMethod
from gamed.readable import size
from gamed.saves.model import SlotEntry
from gamed.sessions.credentials import SessionInfo

SHOWN = 100
"""The most devices that the page lists."""
AFTER = "after"
"""The member of the query with the last slot of the page before."""


class SignInChoice(Struct, frozen=True):
    """The ways to sign in that the server offers: labels by provider, or none in local mode."""

    labels: Mapping[str, str]


def sign_in_page(
    view: PageView, choice: SignInChoice, feedback: FormFeedback | None = None, *, title: str, lead: str
) -> bytes:
    content: list[Content] = [paragraph(lead, server=bidi_isolated(view.server.title))]
    if not choice.labels:
        fields = name_field("name", feedback), password_field("password", feedback, "current-password")
        content.append(view.post("sign-in", *error_message(feedback), *fields, button(texts.SIGN_IN, quiet=False)))
    for name, label in choice.labels.items():
        content.append(view.post("sign-in", button(texts.SIGN_IN_AT.format(provider=label)), provider=name))
    return view.page(title, *content)


def working_page(server: ServerName) -> bytes:
    """Return the page of a sign-in whose provider has not answered."""
    return plain_page(texts.WORKING_TITLE, paragraph(texts.WORKING_LEAD), server=server)


def ended_page(server: ServerName, ended: Ended) -> bytes:
    content: list[Content] = [paragraph(_FAILED.get(ended.outcome, texts.FAILED_LEAD))]
    if ended.approval_code is not None:
        content = [paragraph(texts.FAILED_PENDING), tags.p(ended.approval_code, class_="code")]
    return plain_page(texts.FAILED_TITLE, *content, link(texts.TRY_AGAIN, HOME), server=server)


def deleted_page(server: ServerName) -> bytes:
    return plain_page(texts.DELETED_TITLE, paragraph(texts.DELETED_LEAD), server=server)


def unlinked_page(server: ServerName) -> bytes:
    """Return the page after a way to sign in was unlinked that this browser had signed in with."""
    content = (paragraph(texts.UNLINKED_LEAD), link(texts.AGAIN_TITLE, HOME))
    return plain_page(texts.UNLINKED_TITLE, *content, server=server)


_FAILED = {
    LoginFailure.REGISTRATION_CLOSED: texts.FAILED_NOBODY,
    LoginFailure.IDENTITY_IN_USE: texts.FAILED_LINK,
    LoginFailure.PROVIDER_ALREADY_LINKED: texts.FAILED_LINK,
}


def account_page(
    view: PageView, overview: AccountOverview, choice: SignInChoice, *, done: str = "", error: str | None = None
) -> bytes:
    """Return the page; `done` is the key of a notice, `error` a sentence about the password that was sent."""
    server = bidi_isolated(view.server.title)
    lead = paragraph(texts.PLAYER, server=server)
    names = overview.names
    if (name := names.display or names.account) is not None:
        lead = paragraph(texts.ACCOUNT, server=server, name=bidi_isolated(name))
    content: list[Content] = [*notice(done), lead, view.post("sign-out", button(texts.SIGN_OUT))]
    content.append(section(texts.DEVICES_TITLE, *_devices(view, overview.sessions)))
    content.append(section(texts.SAVES_TITLE, *_saves(view, overview)))
    content.append(section(texts.WAYS_TITLE, *_ways(view, overview.methods, choice)))
    content.append(section(texts.NAME_TITLE, _name(view, names.display or "")))
    if names.account is not None and not choice.labels:
        content.append(section(texts.PASSWORD_TITLE, *_password(view, names.account, error)))
    content.append(section(texts.DELETE_TITLE, _delete(view)))
    return view.page(texts.TITLE, *content)


def _devices(view: PageView, sessions: Sequence[SessionInfo]) -> Iterator[Tag]:
    if not sessions:
        yield paragraph(texts.DEVICES_NONE)
    for session in sessions[:SHOWN]:
        used = line(texts.DEVICE_USED, time=view.time(session.last_used_ms))
        signed_in = line(texts.DEVICE_SIGNED_IN, time=view.time(session.created_ms))
        form = view.post("sign-out-device", button(texts.DEVICE_SIGN_OUT), session_id=session.session_id)
        yield box(tags.span(*_device(session.client)), used, signed_in, actions=[form])
    if len(sessions) > SHOWN:
        yield muted(texts.MORE, count=str(len(sessions) - SHOWN))
    yield view.post("sign-out-others", button(texts.DEVICES_OTHERS))


def _device(client: str) -> list[Content]:
    """Return the device's own words about itself, each in an element that isolates it."""
    info = decode(client, type=ClientInfo)
    words = [bidi_isolated(word) for word in (info.device_name or info.platform, info.name) if word is not None]
    if len(words) < 2:
        return list(words) or [texts.DEVICE_UNNAMED]
    return fill(texts.DEVICE_WORDS, first=words[0], second=words[1])


def _saves(view: PageView, overview: AccountOverview) -> Iterator[Tag]:
    if overview.slots is None:
        yield alert(texts.SAVES_UNREADABLE)
        return
    if not overview.slots:
        yield paragraph(texts.SAVES_NONE)
        return
    usage = overview.usage
    yield muted(texts.SAVES_USAGE, saves=size(usage.bytes), history=size(usage.history_bytes))
    page = overview.slots[:SLOTS_AT_ONCE]
    for entry in page:
        yield _save(view, entry)
    if len(overview.slots) > len(page):
        yield link(texts.MORE_SAVES, f"{HOME}?{AFTER}={page[-1].slot}")
    yield tags.div(link(texts.EXPORT, f"{HOME}/export"), muted(texts.EXPORT_LEAD))


def _save(view: PageView, entry: SlotEntry) -> Tag:
    current = entry.current
    if entry.damaged:
        lines = [line(texts.SAVE_LOST)]
    elif current is None:
        lines = [line(texts.SAVE_DELETED, time=view.time(entry.deleted_ms or 0))]
    else:
        lines = [line(texts.SAVE_SAVED, size=size(current.size), time=view.time(current.created_ms))]
    if entry.conflicts:
        lines.append(line(texts.SAVE_COPIES, count=str(len(entry.conflicts))))
    versions = link(texts.SAVE_OPEN.format(slot=entry.slot), f"{HOME}/saves/{entry.slot}")
    return box(entry.slot, *lines, actions=[versions])


def _ways(view: PageView, methods: Sequence[tuple[SignInMethod, bool]], choice: SignInChoice) -> Iterator[Tag]:
    for method, usable in methods:
        local = method.provider == LOCAL
        label = texts.WAY_LOCAL if local else choice.labels.get(method.provider, method.provider)
        lines = [line(texts.WAY_USED, time=view.time(method.last_used_ms))]
        lines += [] if usable else [tags.span(texts.WAY_UNUSABLE)]
        unlink = view.post("unlink", button(texts.UNLINK.format(provider=label)), provider=method.provider)
        yield box(bidi_isolated(label), *lines, actions=[unlink] if len(methods) > 1 else [])
    linked = {method.provider for method, _ in methods}
    for name, label in choice.labels.items():
        if name not in linked:
            yield view.post("link", button(texts.LINK.format(provider=label)), provider=name)
    if len(methods) > 1:
        yield muted(texts.UNLINK_LEAD)


def _name(view: PageView, shown: str) -> Tag:
    field = tags.input(id="name", name="name", type="text", value=shown, autocomplete="nickname", spellcheck="false")
    field(**{"aria-describedby": "name-hint"})
    label, hint = tags.label(texts.NAME_LABEL, for_="name"), tags.p(texts.NAME_HINT, id="name-hint", class_="soft")
    return view.post("name", tags.div(label, hint, field), button(texts.NAME_CHANGE))


def _password(view: PageView, account_name: str, error: str | None) -> Iterator[Tag]:
    """Return the form; a password manager finds the account by its hidden name."""
    described = {} if error is None else {"aria-describedby": "refused", "autofocus": "autofocus"}
    old = tags.input(id="old", name="old", type="password", autocomplete="current-password", required="required")
    new = tags.input(id="new", name="new", type="password", autocomplete="new-password", required="required")
    new(minlength=str(PASSWORD_MIN), **{"aria-describedby": "new-hint"})
    account = tags.input(type="hidden", name="account", value=account_name, autocomplete="username")
    yield view.post(
        "password",
        *([] if error is None else [alert(error)]),
        paragraph(texts.PASSWORD_LEAD),
        account,
        tags.div(tags.label(texts.PASSWORD_OLD, for_="old"), old(**described)),
        tags.div(
            tags.label(texts.PASSWORD_NEW, for_="new"),
            tags.p(texts.PASSWORD_HINT, id="new-hint", class_="soft"),
            new,
        ),
        button(texts.PASSWORD_CHANGE),
    )


def _delete(view: PageView) -> Tag:
    word = tags.input(id="word", name="word", type="text", autocomplete="off", required="required")
    word(autocapitalize="none", spellcheck="false")
    label = tags.label(*fill(texts.DELETE_LABEL, word=tags.strong(texts.DELETE_WORD)), for_="word")
    return view.post("delete", paragraph(texts.DELETE_LEAD), tags.div(label, word), button(texts.DELETE))
