"""The pages of a player's account, of invites and of reset links: the values that their templates show."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import DecodeError, Struct, convert
from msgspec.json import decode

from gamed.account import sentences
from gamed.account.browser import SLOTS_AT_ONCE, AccountOverview
from gamed.audit import WARNINGS, RecordedEvent, SecurityEvent
from gamed.login.browser import Ended
from gamed.login.transaction import ClientInfo
from gamed.login.views import FormFeedback, message
from gamed.pages.model import Page, Text, Way, page, text
from gamed.players.names import LOCAL
from gamed.saves.model import SlotEntry, Version
from gamed.sessions.credentials import SessionInfo
from gamed.structs import redacts
from gamed.timestamps import parse_rfc3339
from gamed.visible_text import visible

HOME: Final = "/auth/account"
INVITE, RESET = "/auth/invite", "/auth/reset"
AFTER: Final = "after"
"""The member of the query with the last slot of the page before."""
BEFORE: Final = "before"
"""The member of the query with the last version number of the page before."""
SHOWN: Final = 100
"""The most devices that the page lists."""
FACE_CHARACTERS: Final = 64
MOST_PLAYED_SECONDS: Final = 10**10
"""More is no time that anybody has played."""
DELETE_WORD: Final = "delete"
CONFLICT, DELETE = "conflict", "delete"
_TO_ACCOUNT = Way(text("Back to your account"), HOME)


class SignInChoice(Struct, frozen=True):
    """The ways to sign in that the server offers: labels by provider, or none in local mode."""

    labels: Mapping[str, str]


@redacts("form")
class Visit(Struct, frozen=True):
    """What every page of an account needs: the hidden field of its forms, the player, and what was just done."""

    form: str
    player_id: str
    name: str | None = None
    done: Text | None = None


class SaveFace(Struct, frozen=True):
    """What a game says of a save in Save-Meta (docs/protocol.md: Saves); None or 0 without it."""

    title: str | None = None
    place: str | None = None
    played_seconds: int = 0

    @classmethod
    def of(cls, meta: object) -> "SaveFace":
        """Return the face of a decoded Save-Meta; a member of another form than the documented one is left out."""
        members = meta if isinstance(meta, dict) else {}
        played = members.get("playtime_seconds")
        if isinstance(played, bool) or not isinstance(played, int | float) or not 0 <= played < MOST_PLAYED_SECONDS:
            played = 0
        return cls(_words(members.get("title")), _words(members.get("place")), int(played))


def _words(value: object) -> str | None:
    """Return a text or number as one line of at most 64 visible characters, the last "…" if it has more."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    line = visible(" ".join(str(value)[:1024].split()))
    return f"{line[: FACE_CHARACTERS - 1].rstrip()}…" if len(line) > FACE_CHARACTERS else line or None


class ShownSave(Struct, frozen=True):
    """A row of the saves."""

    slot: str
    face: SaveFace
    entry: SlotEntry


class ShownDevice(Struct, frozen=True):
    """A row of the devices, in the device's own words."""

    session: SessionInfo
    client: ClientInfo


class ShownEvent(Struct, frozen=True):
    """A row of the activity; `alarming` if it may not have been the player."""

    words: Text
    at_ms: int
    times: int
    alarming: bool = False


class ShownWay(Struct, frozen=True):
    """A way to sign in: linked, with the instant of its last use, or not."""

    provider: str
    label: str | None
    """None for a name and a password."""
    last_used_ms: int | None
    usable: bool = True


def sign_in_page(
    form: str, choice: SignInChoice, feedback: FormFeedback | None = None, *, title: Text, lead: Text
) -> Page:
    return page("account_sign_in", form=form, labels=choice.labels, feedback=feedback, title=title, lead=lead)


def working_page() -> Page:
    """Return the page of a sign-in whose provider has not answered."""
    lead = text("Your sign-in is being checked. This page goes on by itself.")
    return message(text("One moment"), lead, sign="waiting")


def ended_page(ended: Ended) -> Page:
    title, sentence = sentences.ENDED.get(ended.outcome, (sentences.NOT_SIGNED_IN, sentences.AGAIN_LATER))
    again = Way(text("Try again"), HOME)
    sign = "blocked" if ended.approval_code is None else "waiting"
    return message(title, sentence, sign=sign, ways=(again,), approval_code=ended.approval_code)


def deleted_page() -> Page:
    lead = text("Your saves and everything else about you are gone from this server. You can close this page.")
    return message(text("Your account is deleted"), lead, sign="done")


def unlinked_page() -> Page:
    """Return the page after a way to sign in was unlinked that this browser had signed in with."""
    lead = text(
        "It cannot sign in as you any more. You had signed in with it here, so you are signed out of this page, too."
    )
    return message(text("It is unlinked"), lead, sign="done", ways=(Way(text("Sign in again"), HOME),))


def failure_page(sentence: Text, *, title: Text | None = None, way: Way = _TO_ACCOUNT) -> Page:
    """Return the page of an action that was refused, with a way back."""
    return message(title or text("Nothing was changed"), sentence, sign="declined", ways=(way,))


def account_page(
    visit: Visit,
    overview: AccountOverview,
    choice: SignInChoice,
    *,
    after: str = "",
    error: Text | None = None,
) -> Page:
    """Return the page; `error` is a sentence about the password that was sent."""
    names = overview.names
    page_of_slots = None if overview.slots is None else overview.slots[:SLOTS_AT_ONCE]
    devices = [ShownDevice(each, decode(each.client, type=ClientInfo)) for each in overview.sessions[:SHOWN]]
    return page(
        "account",
        visit=visit,
        name=names.display or names.account,
        shown_name=names.display or "",
        account_name=names.account if not choice.labels else None,
        error=error,
        saves=None if page_of_slots is None else _saves(overview.copied, page_of_slots),
        more_after=page_of_slots[-1].slot if page_of_slots and len(overview.slots or ()) > SLOTS_AT_ONCE else None,
        after=after,
        usage=overview.usage,
        devices=devices,
        more_devices=max(0, len(overview.sessions) - SHOWN),
        ways=_ways(overview, choice),
        activity=_activity(overview.activity, choice),
        delete_word=DELETE_WORD,
    )


def _saves(copied: Sequence[SlotEntry], page_of_slots: Sequence[SlotEntry]) -> Sequence[ShownSave]:
    """Return those with copies first, then the page, each once."""
    first = {each.slot for each in copied}
    return [_shown_save(each) for each in (*copied, *(each for each in page_of_slots if each.slot not in first))]


def _shown_save(entry: SlotEntry) -> ShownSave:
    content = None if entry.current is None else entry.current.content
    return ShownSave(entry.slot, SaveFace.of(_decoded(None if content is None else content.meta)), entry)


def _decoded(meta: str | None) -> object:
    try:
        return None if meta is None else decode(meta)
    except DecodeError:
        return None


def _ways(overview: AccountOverview, choice: SignInChoice) -> Sequence[ShownWay]:
    ways = [
        ShownWay(method.provider, _label(method.provider, choice), method.last_used_ms, usable)
        for method, usable in overview.methods
    ]
    linked = {way.provider for way in ways}
    ways += [ShownWay(name, label, None) for name, label in choice.labels.items() if name not in linked]
    return ways


def _activity(events: Sequence[RecordedEvent], choice: SignInChoice) -> Sequence[ShownEvent]:
    """Return the events that say something to a player."""
    shown = []
    for each in events:
        event, values = each.event, each.values
        words = sentences.ACTIVITY.get(event)
        if event is SecurityEvent.SIGN_IN_REFUSED and values.get("outcome") == "wrong_password":
            words = sentences.WRONG_PASSWORD
        elif event is SecurityEvent.SIGNED_OUT and values.get("scope") == "others":
            words = sentences.SIGNED_OUT_OTHERS
        if words is not None:
            way = _label(values.get("provider", LOCAL), choice) or sentences.LOCAL_WAY
            filled = Text(words.source, {"provider": way, "command": values.get("command", "")})
            alarming = words is sentences.WRONG_PASSWORD or event in WARNINGS
            shown.append(ShownEvent(filled, each.last_ms, each.times, alarming))
    return shown


def _label(provider: str, choice: SignInChoice) -> str | None:
    return None if provider == LOCAL else choice.labels.get(provider, provider)


class ShownVersion(Struct, frozen=True):
    """The members of a version, as `GET /game/saves/{slot}/versions` lists them, that the page shows."""

    version: int
    etag: str | None
    size: int
    modified: str
    kind: str
    expires: str | None
    device: str | None
    meta: object = None

    @property
    def modified_ms(self) -> int:
        return parse_rfc3339(self.modified) or 0

    @property
    def expires_ms(self) -> int | None:
        return None if self.expires is None else parse_rfc3339(self.expires)

    @property
    def face(self) -> SaveFace:
        return SaveFace.of(self.meta)


class ShownVersions(Struct, frozen=True):
    """The versions of a slot, newest first."""

    slot: str
    versions: Sequence[ShownVersion]
    more: bool = False

    @property
    def head(self) -> ShownVersion | None:
        """Return the version that is current, or the delete that emptied the slot."""
        return next((version for version in self.versions if version.kind != CONFLICT), None)


def slot_page(visit: Visit, listed: dict[str, object], newest: dict[str, object]) -> Page:
    """Return the page of a slot; `listed` and `newest` are bodies of the versions list, of this page and the first."""
    found, first = convert(listed, ShownVersions), convert(newest, ShownVersions)
    return page(
        "versions",
        visit=visit,
        slot=found.slot,
        head=first.head,
        copies=[each for each in first.versions if each.kind == CONFLICT],
        versions=[each for each in found.versions if each.kind != CONFLICT],
        older=found.versions[-1].version if found.more else None,
    )


def dismiss_page(visit: Visit, copy: Version) -> Page:
    """Return the page that asks before a conflict copy is deleted."""
    face = SaveFace.of(_decoded(copy.content.meta if copy.content else None))
    return page("delete_copy", visit=visit, copy=copy, face=face)


@redacts("token", "form")
class LinkView(Struct, frozen=True):
    """What the page of an invite or reset link needs: the link's token, and the hidden field of its form."""

    token: str
    form: str


def invite_page(view: LinkView, suggested: str, feedback: FormFeedback | None = None) -> Page:
    """Return the page of an invite in local mode; `suggested` is a name for the account, or ""."""
    return page("invite", view=view, path=f"{INVITE}/{view.token}", suggested=suggested, feedback=feedback, labels={})


def invite_provider_page(view: LinkView, labels: Mapping[str, str]) -> Page:
    return page("invite", view=view, path=f"{INVITE}/{view.token}", suggested="", feedback=None, labels=labels)


def reset_page(view: LinkView, account_name: str, feedback: FormFeedback | None = None) -> Page:
    """Return the page of a reset link; a password manager finds the account by its hidden name."""
    return page("reset", view=view, path=f"{RESET}/{view.token}", account_name=account_name, feedback=feedback)


def reset_done_page() -> Page:
    lead = text("You are signed out everywhere. Sign in again from the game, or open your account.")
    return message(text("Your new password is set"), lead, sign="done", ways=(Way(text("Open your account"), HOME),))


def link_failure_page(sentence: Text, *, account: bool = False) -> Page:
    """Return the page of a link that does not work; `account`: this browser is signed in to an account."""
    ways = (Way(text("Open your account"), HOME),) if account else ()
    return message(text("This link does not work"), sentence, sign="declined", ways=ways)
