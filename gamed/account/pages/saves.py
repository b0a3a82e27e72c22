"""The page of one save lists its versions, each with what can be done with it; a page asks before a deletion."""

from collections.abc import Iterator, Sequence

from msgspec import Struct, convert
from twisted.web.template import Tag

from gamed.account.pages import texts
from gamed.account.pages.parts import HOME, PageView, box, button, line, link, notice
from gamed.login.pages.layout import Content, bidi_isolated, paragraph
from gamed.readable import size
from gamed.saves.model import Version
from gamed.timestamps import parse_rfc3339

CONFLICT, DELETE = "conflict", "delete"


class ShownVersion(Struct, frozen=True):
    """The members of a version, as `GET /game/saves/{slot}/versions` lists them, that the page shows."""

    version: int
    etag: str | None
    size: int
    modified: str
    kind: str
    expires: str | None
    device: str | None


class ShownVersions(Struct, frozen=True):
    """The versions of a slot, newest first."""

    slot: str
    versions: Sequence[ShownVersion]
    more: bool = False

    @property
    def head(self) -> ShownVersion | None:
        """Return the version that is current, or the delete that emptied the slot."""
        return next((version for version in self.versions if version.kind != CONFLICT), None)


BEFORE = "before"
"""The member of the query with the last version number of the page before."""


def slot_page(view: PageView, listed: dict[str, object], newest: dict[str, object], done: str = "") -> bytes:
    """Return the page of a slot; `listed` and `newest` are bodies of the versions list, of this page and the first."""
    found, head = convert(listed, ShownVersions), convert(newest, ShownVersions).head
    content: list[Content] = [*notice(done), *(_version(view, found.slot, each, head) for each in found.versions)]
    if found.more:
        content.append(link(texts.OLDER, f"{HOME}/saves/{found.slot}?{BEFORE}={found.versions[-1].version}"))
    return view.page(texts.SLOT_TITLE.format(slot=found.slot), *content, link(texts.BACK, HOME))


def _version(view: PageView, slot: str, version: ShownVersion, head: ShownVersion | None) -> Tag:
    is_head = version == head
    if version.kind == DELETE:
        return box(texts.REMOVED, view.time(parse_rfc3339(version.modified) or 0))
    title = texts.CURRENT if is_head else texts.VERSION.format(number=version.version)
    time = view.time(parse_rfc3339(version.modified) or 0)
    lines: list[Content] = [line(texts.VERSION_SAVED, size=size(version.size), time=time)]
    if version.device is not None:
        lines.append(line(texts.VERSION_FROM, device=bidi_isolated(version.device)))
    if version.kind == CONFLICT:
        title = texts.COPY
        lines.append(texts.COPY_LEAD)
    if version.expires is not None:
        lines.append(line(texts.VERSION_KEPT, time=view.date(parse_rfc3339(version.expires) or 0)))
    return box(title, *lines, actions=[*_actions(view, slot, version, head)])


def _actions(view: PageView, slot: str, version: ShownVersion, head: ShownVersion | None) -> Iterator[Tag]:
    number = str(version.version)
    yield link(texts.DOWNLOAD.format(number=number), f"{HOME}/saves/{slot}/versions/{number}")
    named = {"slot": slot, "version": number}
    restoring = {**named, "etag": "" if head is None or head.etag is None else head.etag}
    if version.kind == CONFLICT:
        yield view.post("keep", button(texts.KEEP), **restoring)
        yield link(texts.DISMISS, f"{HOME}/saves/{slot}/versions/{number}/delete")
    elif version != head:
        yield view.post("restore", button(texts.RESTORE.format(number=number)), **restoring)


def dismiss_page(view: PageView, copy: Version) -> bytes:
    lines: list[Content] = [line(texts.VERSION_SAVED, size=size(copy.size), time=view.time(copy.created_ms))]
    if copy.device is not None:
        lines.append(line(texts.VERSION_FROM, device=bidi_isolated(copy.device)))
    delete = view.post("dismiss", button(texts.DISMISS), slot=copy.slot, version=str(copy.version))
    keep = link(texts.DISMISS_BACK, f"{HOME}/saves/{copy.slot}")
    return view.page(texts.DISMISS_TITLE, box(copy.slot, *lines), paragraph(texts.DISMISS_LEAD), delete, keep)
