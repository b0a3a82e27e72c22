"""The pages of a player's account, of invites and of reset links: the values that their templates show."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, convert
from msgspec.json import decode

from gamed.account import sentences
from gamed.account.browser import SLOTS_AT_ONCE, AccountOverview, SavesPlace
from gamed.account.return_rules import ACCOUNT
from gamed.audit import WARNINGS, RecordedEvent, SecurityEvent
from gamed.login.browser import Ended
from gamed.login.transaction import ClientInfo
from gamed.login.views import FIRST_PAGE, FormFeedback, message
from gamed.outcomes import LoginFailure
from gamed.pages.model import Page, Text, Way, page, text
from gamed.passkeys.ceremony import PasskeyPrompt
from gamed.passkeys.limits import MAX_PASSKEYS
from gamed.players.names import LOCAL, OtherWays
from gamed.saves.model import SlotEntry, Version
from gamed.sessions.browser_rules import BrowserName
from gamed.sessions.credentials import SessionInfo
from gamed.structs import redacts
from gamed.timestamps import parse_rfc3339
from gamed.visible_text import visible

if TYPE_CHECKING:
    from gamed.passkeys.model import Passkey
    from gamed.passkeys.recovery_rules import CodeStock, RecoveryCodes

HOME: Final = ACCOUNT
INVITE, RESET = "/auth/invite", "/auth/reset"
AFTER: Final = "after"
"""The member of the query with the last slot of the page before."""
COPIED: Final = "copied"
"""The same for a page of saves with copies to choose from."""
BEFORE: Final = "before"
"""The member of the query with the last version number of the page before."""
SHOWN: Final = 100
"""The most games' devices that the page lists."""
FACE_CHARACTERS: Final = 64
MOST_PLAYED_SECONDS: Final = 10**10
"""More is no time that anybody has played."""
TYPED_CHARACTERS: Final = 260
"""The part of a name that is too long which its field shows again."""
DELETE_WORD: Final = "delete"
CONFLICT, DELETE = "conflict", "delete"
_FIRST_SAVES = SavesPlace()
_NO_WAYS = OtherWays(passkeys=False, codes=False)
_ALARMING = WARNINGS | {
    SecurityEvent.SIGN_IN_REFUSED,
    SecurityEvent.RECOVERY_CODES_MADE,
    SecurityEvent.RECOVERY_CODE_USED,
}
"""The events that a player reads and that another person may have caused."""
_TO_ACCOUNT = Way(text("Back to your account"), HOME)


class SignInChoice(Struct, frozen=True):
    """The ways to sign in that the server offers: labels by provider, or none in local mode."""

    labels: Mapping[str, str]
    silent: Sequence[str] = ()
    """The labels of providers that cannot be made to ask a player who is signed in there."""


class AccountForms(Struct, frozen=True):
    """The content of forms that are shown again: typed texts by field, and the field of a refused text with the reason.

    A password is never shown again.
    """

    typed: Mapping[str, str] = {}
    refused: str = ""
    sentence: Text | None = None
    again: str = ""
    """The section with the form that was sent before a sign-in, and was not carried out."""


@redacts("form")
class Visit(Struct, frozen=True):
    """The parts of every page of an account: the hidden field of its forms, the player, and what was just done."""

    form: str
    player_id: str
    name: str | None = None
    done: Text | None = None


class SaveFace(Struct, frozen=True):
    """A save in the words of its game, from Save-Meta (docs/protocol.md: Saves); None or 0 without it."""

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
    """A row of the devices: a game's session in the device's own words, or a browser; `own` is the one that asks."""

    session_id: str
    last_used_ms: int
    created_ms: int
    client: ClientInfo = ClientInfo()
    browser: BrowserName | None = None
    own: bool = False

    @property
    def name(self) -> str | Text:
        client, browser = self.client, self.browser
        if browser is None:
            reported = client.device_name or client.platform_name or client.name
            return reported or text("A device without a name")
        if browser.program and browser.system:
            return text("{browser} on {system}", browser=browser.program, system=browser.system)
        if browser.system:
            return text("A browser on {system}", system=browser.system)
        return browser.program or text("A browser")


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
    form: str,
    choice: SignInChoice,
    feedback: FormFeedback | None = None,
    *,
    title: Text,
    lead: Text,
    back: str = "",
    passkey: PasskeyPrompt | None = None,
    recovery: bool = False,
) -> Page:
    """Return the page before the account; `back` is the sealed place to which the sign-in leads.

    Without `passkey` it has no button for one, and no script; with `recovery` it has the form of recovery codes.
    """
    fields = {"back": back} if back else {}
    return page(
        "account_sign_in",
        form=form,
        labels=choice.labels,
        silent=", ".join(choice.silent),
        feedback=feedback,
        title=title,
        lead=lead,
        fields=fields,
        passkey=passkey,
        recovery=recovery,
    )


def working_page() -> Page:
    """Return the page of a sign-in whose provider has not answered."""
    lead = text("Your sign-in is being checked. This page continues once that is done.")
    return message(text("One moment"), lead, sign="waiting")


def ended_page(ended: Ended, form: str = "", back: str = "", *, by_code: bool = False) -> Page:
    """Return the end of a sign-in or link; `back` is the sealed place to which another sign-in leads, if any.

    `by_code`: the person has typed a recovery code.
    """
    title, sentence = sentences.ENDED.get(ended.outcome, (sentences.NOT_SIGNED_IN, sentences.AGAIN_LATER))
    if ended.linking:
        title, sentence = sentences.NOT_LINKED, sentences.LINK_ENDED.get(ended.outcome, sentence)
    if by_code and ended.outcome is LoginFailure.SESSION_REVOKED:
        sentence = sentences.CODE_USED
    again = Way(text("Try again"), f"{HOME}#sign-in" if ended.linking else HOME)
    sign = "blocked" if ended.approval_code is None else "waiting"
    shown = message(title, sentence, sign=sign, ways=(again,), approval_code=ended.approval_code)
    return page("account_ended", **shown.values, form=form, back=back) if back else shown


def deleted_page() -> Page:
    lead = text("Your saves and everything else about you are gone from this server. You can close this page.")
    return message(text("Your account is deleted"), lead, sign="done")


def passkey_removed_page() -> Page:
    """Return the page after a passkey was removed that this browser had signed in with."""
    lead = text(
        "It cannot sign in as you any more. You had signed in with it here, so you are signed out of this page, too."
    )
    return message(text("The passkey is removed"), lead, sign="done", ways=(Way(text("Sign in again"), HOME),))


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
    place: SavesPlace = _FIRST_SAVES,
    *,
    forms: AccountForms | None = None,
) -> Page:
    """Return the page; the saves follow the slot `after`."""
    names = overview.names
    return page(
        "account",
        visit=visit,
        name=names.display or names.account,
        since_ms=names.created_ms,
        shown_name=names.display or "",
        account_name=names.account if not choice.labels else None,
        forms=forms or AccountForms(),
        again=sentences.NOTICES["again"],
        saves=None if overview.slots is None else _saves(overview.copied, overview.slots),
        more_saves=_more_saves(overview),
        later_saves=place != _FIRST_SAVES,
        usage=overview.usage,
        devices=_devices(overview),
        playing=len(overview.sessions) > 0,
        more_devices=max(0, len(overview.sessions) - SHOWN),
        ways=_ways(overview, choice),
        passkeys=overview.passkeys,
        passkey_host=overview.passkey_host,
        codes_left=overview.codes_left,
        more_passkeys=overview.passkey_host != "" and len(overview.passkeys) < MAX_PASSKEYS,
        adoptable=overview.adoptable,
        owner_page=overview.owner_page,
        activity=_activity(overview.activity, choice),
        delete_word=DELETE_WORD,
    )


def _saves(copied: Sequence[SlotEntry], by_name: Sequence[SlotEntry]) -> Sequence[ShownSave]:
    """Return those with copies first, then the page, each once."""
    first = {each.slot: each for each in copied[:SLOTS_AT_ONCE]}
    others = (each for each in by_name[:SLOTS_AT_ONCE] if each.slot not in first)
    return [shown_save(each) for each in (*first.values(), *others)]


def _more_saves(overview: AccountOverview) -> str | None:
    """Return the query of the page after this one."""
    for name, found in ((COPIED, overview.copied), (AFTER, overview.slots or ())):
        if len(found) > SLOTS_AT_ONCE:
            return f"{name}={found[SLOTS_AT_ONCE - 1].slot}"
    return None


def shown_save(entry: SlotEntry) -> ShownSave:
    found = entry.current or entry.kept
    content = None if found is None else found.content
    return ShownSave(entry.slot, SaveFace.of(_decoded(None if content is None else content.meta)), entry)


def _decoded(meta: str | None) -> object:
    try:
        return None if meta is None else decode(meta)
    except DecodeError:
        return None


def _devices(overview: AccountOverview) -> Sequence[ShownDevice]:
    """Return this browser, then games and other browsers, the last used first."""
    rows = [shown_device(each) for each in overview.sessions[:SHOWN]]
    for each in overview.browsers:
        own = each.session_id == overview.own_session
        rows.append(ShownDevice(each.session_id, each.last_used_ms, each.created_ms, browser=each.browser, own=own))
    return sorted(rows, key=lambda row: (not row.own, -row.last_used_ms))


def shown_device(session: SessionInfo) -> ShownDevice:
    client = decode(session.client, type=ClientInfo)
    return ShownDevice(session.session_id, session.last_used_ms, session.created_ms, client)


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
        if event is SecurityEvent.SIGN_IN_REFUSED:
            words = sentences.WRONG.get(values.get("outcome", ""))
        elif event is SecurityEvent.SIGNED_OUT and values.get("scope") == "others":
            words = sentences.SIGNED_OUT_OTHERS
        if words is not None:
            provider = values.get("provider", LOCAL)
            way = sentences.WAYS.get(provider) or _label(provider, choice) or sentences.LOCAL_WAY
            filled = Text(words.source, {"provider": way, "command": values.get("command", "")})
            alarming = event in _ALARMING
            shown.append(ShownEvent(filled, each.last_ms, each.times, alarming))
    return shown


def _label(provider: str, choice: SignInChoice) -> str | None:
    return None if provider == LOCAL else choice.labels.get(provider, provider)


def rename_page(visit: Visit, device: ShownDevice, typed: str | None = None, error: Text | None = None) -> Page:
    """Return the page that gives a device another name; `error` is a sentence about the one that was typed."""
    value = (device.client.device_name or "") if typed is None else typed[:TYPED_CHARACTERS]
    return page("rename_device", visit=visit, device=device, value=value, error=error)


def passkey_page(visit: Visit, passkey: "Passkey", typed: str | None = None, error: Text | None = None) -> Page:
    """Return the page that renames or removes a passkey; `error` is a sentence about the name that was typed."""
    value = passkey.name if typed is None else typed[:TYPED_CHARACTERS]
    return page("passkey", visit=visit, shown=passkey, value=value, error=error)


def recovery_page(visit: Visit, stock: "CodeStock") -> Page:
    """Return the page before recovery codes are made; those that are left become void."""
    return page("recovery", visit=visit, stock=stock)


def codes_page(visit: Visit, made: "RecoveryCodes") -> Page:
    """Return the page that shows new recovery codes, once."""
    return page("recovery_codes", visit=visit, made=made)


def new_passkey_page(visit: Visit, prompt: PasskeyPrompt, name: str, error: Text | None = None) -> Page:
    """Return the page that makes a passkey; `name` is the typed or suggested one."""
    return page("passkey_new", visit=visit, passkey=prompt, value=name[:TYPED_CHARACTERS], error=error)


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

    @property
    def copies(self) -> Sequence[ShownVersion]:
        return [version for version in self.versions if version.kind == CONFLICT]


def sides_of(listed: dict[str, object]) -> ShownVersions:
    """Return the versions to choose from, of the body that SaveService.sides() returns."""
    return convert(listed, ShownVersions)


def slot_page(visit: Visit, listed: dict[str, object], sides: dict[str, object]) -> Page:
    """Return the page of a slot, of two bodies as of the versions list: this page of it, and those to choose from.

    A copy, and the current version, which a restore names, may be older than a page of the list.
    """
    found, choice = convert(listed, ShownVersions), sides_of(sides)
    return page(
        "versions",
        visit=visit,
        slot=found.slot,
        head=choice.head,
        copies=choice.copies,
        versions=[each for each in found.versions if each.kind != CONFLICT],
        older=found.versions[-1].version if found.more else None,
    )


def dismiss_page(visit: Visit, copy: Version) -> Page:
    """Return the page that asks before a conflict copy is deleted."""
    face = SaveFace.of(_decoded(copy.content.meta if copy.content else None))
    return page("delete_copy", visit=visit, copy=copy, face=face)


def keep_page(visit: Visit, head: ShownVersion, sides: ShownVersions) -> Page:
    """Return the page that asks before all conflict copies of a save are deleted."""
    return page("keep_current", visit=visit, slot=sides.slot, head=head, copies=sides.copies)


def delete_save_page(visit: Visit, current: Version, until_ms: int | None) -> Page:
    """Return the page that asks before a save is deleted, which can be brought back until then."""
    face = SaveFace.of(_decoded(current.content.meta if current.content else None))
    return page("delete_save", visit=visit, save=current, face=face, until_ms=until_ms)


@redacts("token", "form")
class LinkView(Struct, frozen=True):
    """The parts of the page of an invite or reset link: the link's token, and the hidden field of its form."""

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


def reset_done_page(kept: OtherWays = _NO_WAYS) -> Page:
    """Return the page; it names the ways that a new password does not end."""
    lines = [text("You are signed out everywhere. Sign in again from the game, or open your account.")]
    if kept.passkeys:
        lines.append(text("Your passkeys still work. Open your account and remove those you do not know."))
    if kept.codes:
        lines.append(
            text("Your recovery codes still work. If somebody else may have them, open your account and make new ones.")
        )
    return message(text("Your new password is set"), *lines, sign="done", ways=(Way(text("Open your account"), HOME),))


def link_failure_page(sentence: Text, *, account: bool = False) -> Page:
    """Return the page of a link that does not work; `account`: this browser is signed in to an account."""
    ways = (Way(text("Open your account"), HOME),) if account else (FIRST_PAGE,)
    return message(text("This link does not work"), sentence, sign="declined", ways=ways)
