"""The page of one save lists its versions, each with what can be done with it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct, convert
from twisted.web.template import Tag

from gamed.login.pages.layout import Content, bidi_isolated
from gamed.players.pages import texts
from gamed.players.pages.parts import HOME, PageView, box, button, line, link, notice
from gamed.readable import size
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

    @property
    def head(self) -> ShownVersion | None:
        """Return the version that is current, or the delete that emptied the slot."""
        return next((version for version in self.versions if version.kind != CONFLICT), None)


def slot_page(view: PageView, listed: dict[str, object], done: str = "") -> bytes:
    """Return the page of a slot; `listed` is the body of the versions list."""
    found = convert(listed, ShownVersions)
    content: list[Content] = [*notice(done), *(_version(view, found, each) for each in found.versions)]
    return view.page(texts.SLOT_TITLE.format(slot=found.slot), *content, link(texts.BACK, HOME))


def _version(view: PageView, found: ShownVersions, version: ShownVersion) -> Tag:
    is_head = version is found.head
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
    return box(title, *lines, actions=[*_actions(view, found, version, is_head=is_head)])


def _actions(view: PageView, found: ShownVersions, version: ShownVersion, *, is_head: bool) -> Iterator[Tag]:
    number = str(version.version)
    yield link(texts.DOWNLOAD.format(number=number), f"{HOME}/saves/{found.slot}/versions/{number}")
    named = {"slot": found.slot, "version": number}
    head = found.head
    restoring = {**named, "etag": "" if head is None or head.etag is None else head.etag}
    if version.kind == CONFLICT:
        yield view.post("keep", button(texts.KEEP), **restoring)
        yield view.post("dismiss", button(texts.DISMISS), **named)
    elif not is_head:
        yield view.post("restore", button(texts.RESTORE.format(number=number)), **restoring)
