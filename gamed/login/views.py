"""The pages of a login: the values that their templates show.

See docs/internals/threats.md: Signing in; docs/protocol.md: Accounts, Collect.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gamed.config.model import Registration
from gamed.http.problems import Problem
from gamed.login import sentences
from gamed.login.local import FormError
from gamed.login.sentences import Place
from gamed.login.transaction import ClientInfo, LoginIntent
from gamed.outcomes import LoginFailure
from gamed.pages.model import Page, Text, Way, counted, page, text
from gamed.passkeys.ceremony import PasskeyPrompt
from gamed.structs import redacts

SERVER_ERROR: Final = 500
"""From this status on a page shows its request id, because the player can only report it to the owner."""
_NAME_ERRORS = {FormError.NAME_MALFORMED, FormError.NAME_TAKEN, FormError.CLOSED}


class FormFeedback(Struct, frozen=True):
    """The error of a form that is shown again; `name` is the typed one, the password is not shown again."""

    error: FormError
    retry_after: int = 0
    """Seconds."""
    creating: bool = False
    name: str = ""
    request_id: str = ""
    """Shown if the server is the reason, so that the owner finds the request in the log."""
    display_name: str = ""
    recovering: bool = False
    """The form was that of a recovery code, which is shown again with the error."""

    @property
    def focus(self) -> str:
        """Return the field that has the focus: the one next to the error, or else the empty password; "" for none."""
        if self.error is FormError.DISPLAY_NAME and self.creating:
            return "display_name"
        if self.error is FormError.PASSKEY:
            return ""
        if self.recovering:
            return "recovery_code"
        return "name" if self.creating or self.error in _NAME_ERRORS else "password"

    @property
    def sentence(self) -> Text:
        if self.error is FormError.LIMIT:
            return too_many(self.retry_after)
        return sentences.REFUSED[self.error]


_ACCOUNT = Way(text("Open your account"), "/auth/account")
FIRST_PAGE = Way(text("Open the first page"), "/", forward=False)


def too_many(seconds: int) -> Text:
    return text("Too many tries. Try again in {wait}.", wait=counted("{count} second", "{count} seconds", seconds))


@redacts("token", "form")
class DeviceInfo(Struct, frozen=True):
    """The login as a page shows it: its token, the hidden field of its forms, the device that asks, and its age."""

    token: str
    form: str
    client: ClientInfo
    age_seconds: int

    @property
    def path(self) -> str:
        return f"/auth/login/{self.token}"


def home_page(address: str) -> Page:
    """Return the page of the server's address."""
    return page("home", address=address)


def sign_in_page(
    device: DeviceInfo,
    registration: Registration,
    feedback: FormFeedback | None = None,
    passkey: PasskeyPrompt | None = None,
) -> Page:
    """Return the page; without `passkey` it has no button for one, and no script.

    Where the player confirms something, it says in place of the form of recovery codes that none is enough.
    """
    values = {"device": device, "registration": registration.value, "feedback": feedback}
    return page("sign_in", **values, passkey=passkey, not_enough=sentences.CODE_NOT_ENOUGH)


def create_page(device: DeviceInfo, registration: Registration, feedback: FormFeedback | None = None) -> Page:
    """Return the page with the form for a new account."""
    return page("create", device=device, registration=registration.value, feedback=feedback)


class ProviderPrompt(Struct, frozen=True):
    """The provider's name for people, the purpose of the login, and the player who asked for a link."""

    label: str
    intent: LoginIntent
    requester: str | None


def provider_page(device: DeviceInfo, prompt: ProviderPrompt, feedback: FormFeedback | None = None) -> Page:
    values = {"label": prompt.label, "intent": prompt.intent.value, "requester": prompt.requester or ""}
    return page("provider", device=device, feedback=feedback, **values)


def display_name_page(
    device: DeviceInfo, name: str | None, result_url: str | None, wrong: str | None = None, *, done: bool = False
) -> Page:
    """Return the page that asks a new player for a name; `wrong` is the typed text that is not allowed.

    `done`: the game has the sign-in already, so that the page says so first.
    """
    error = sentences.REFUSED_NAME
    return page("name", device=device, name=name, back=result_url, wrong=wrong, error=error, done=done)


def return_page(game: str, code_url: str, *, app: bool = False) -> Page:
    """Return a page that redirects to the game's loopback port (Refresh) and links to the finish code.

    Only the player can know that the game is on another machine, where the loopback redirect cannot work. With `app`
    the page's button opens the app, and the finish code is for an app that does not open.
    """
    return page("return", game=game, code_url=code_url, app=app)


def code_page(device: DeviceInfo, code: str, *, asks_name: bool = False, shown_name: str | None = None) -> Page:
    """Return the page with the finish code; `asks_name`: a new player may choose the name that games show."""
    return page("code", device=device, code=code, asks_name=asks_name, shown_name=shown_name)


def message(
    title: Text,
    *lines: Text,
    sign: str = "",
    ways: Sequence[Way] = (),
    approval_code: str | None = None,
    reference_id: str = "",
) -> Page:
    """Return a page without a form; `sign` is the name of an icon, `reference_id` the id of a request in the log."""
    values = {"title": title, "lines": lines, "sign": sign, "ways": ways}
    return page("message", **values, approval_code=approval_code, reference_id=reference_id)


def working_page() -> Page:
    lead = text("Your sign-in is being checked. This page continues once that is done.")
    return message(text("One moment"), lead, sign="waiting")


_BACK = text("You can go back to the game")
_SIGNED_IN = text("You are signed in. This page can be closed.")


def waiting_page(device: DeviceInfo | None = None, shown_name: str | None = None) -> Page:
    """Return the page of a sign-in that the game collects without a proof; with a device, of a new player."""
    lead = text("The game will sign you in now. You can go back to the game.")
    title = text("Nearly there")
    if device is None:
        return message(title, lead, sign="waiting")
    return page("newcomer", title=title, lead=lead, device=device, shown_name=shown_name)


def back_page(shown_name: str | None = None, *, codes_left: int | None = None) -> Page:
    """Return the page after the sign-in.

    A new player reads the name that was chosen, and one who used a recovery code how many are left.
    """
    lines = [_SIGNED_IN]
    if codes_left is not None:
        lines += [sentences.recovered(codes_left), sentences.CODE_NOT_ENOUGH]
    if shown_name is not None:
        lines.append(text("Games call you {name}. You can change it in the game later.", name=shown_name))
    return message(_BACK, *lines, sign="done", ways=(replace(_ACCOUNT, forward=False),))


def offer_page(later: str) -> Page:
    """Return back_page() for a player who has just made a local account; `later` is its address without the offer."""
    return page("offer", later=later)


def naming_page(device: DeviceInfo) -> Page:
    """Return the page of a new player who is signed in and has no name yet."""
    return display_name_page(device, None, None, done=True)


def settled_page() -> Page:
    """Return the page for a name that only the game can change."""
    lead = text("This page cannot change what games call you. You can change it in the game.")
    return message(text("Open the game for that"), lead)


def linked_page(player: str | None = None) -> Page:
    """Return the page after a link; the player is named while the session that asked for it is valid."""
    if player is None:
        return message(_BACK, text("The account is linked. This page can be closed."), sign="done")
    lead = text("The account is linked to {player}. This page can be closed.", player=player)
    return message(_BACK, lead, sign="done")


def adopted_page(provider: str, player: str) -> Page:
    """Return the page after a local account was adopted."""
    lead = text("{provider} now signs you in as {player}. This page can be closed.", provider=provider, player=player)
    return message(_BACK, lead, sign="done")


def second_callback_page(url: str) -> Page:
    """Return the page of a second callback, which links to the result of the first one."""
    lead = text("This sign-in goes on in its own page. If nothing happens, use the button.")
    return message(text("One moment"), lead, ways=(Way(text("Go on"), url),))


def denied_page() -> Page:
    """Return the page after a decline."""
    lead = text("Thank you. This sign-in is over and nothing was given to the game. You can close this page.")
    return message(text("You were not signed in"), lead, sign="declined")


def error_page(status: int, sentence: Text, *, request_id: str) -> Page:
    """Return the page of a refused request; `sentence` says what to do, too.

    A 5xx page shows `request_id`, by which the owner finds the request in the log.
    """
    title = sentences.TITLES.get(status, sentences.TITLE_OTHER)
    return message(title, sentence, ways=(FIRST_PAGE,), reference_id=request_id if status >= SERVER_ERROR else "")


def problem_page(problem: Problem, *, request_id: str, place: Place = Place.GAME, address: str = "") -> Page:
    """Return the page of a problem that any route may have: sentences by its code, never its detail, which is English.

    `address` is that of the server, for a person who came by another one.
    """
    title = sentences.TITLES.get(problem.status, sentences.TITLE_OTHER)
    lines: Sequence[Text] = [sentences.PROBLEMS.get(problem.code, sentences.REFUSED_REQUEST), place.value]
    ways = [_ACCOUNT] if place is Place.ACCOUNT else [FIRST_PAGE]
    if problem.code == "misdirected_request":
        lines = [Text(sentences.COMPLETE[problem.code].source, {"address": address})]
        ways = [Way(text("Go there"), f"{address}/")]
    elif problem.code == "rate_limited":
        lines = [sentences.try_again_in(problem.retry_after or 1)]
    elif problem.code in sentences.COMPLETE:
        lines = [sentences.COMPLETE[problem.code]]
    return message(title, *lines, ways=ways, reference_id=request_id if problem.status >= SERVER_ERROR else "")


_SIGNS: Mapping[LoginFailure, str] = {
    LoginFailure.LOGIN_DENIED: "declined",
    LoginFailure.PROVIDER_DENIED: "declined",
    LoginFailure.LOGIN_CANCELLED: "declined",
    LoginFailure.LOGIN_EXPIRED: "expired",
    LoginFailure.PROOF_ATTEMPTS_EXCEEDED: "blocked",
    LoginFailure.PLAYER_BLOCKED: "blocked",
    LoginFailure.REGISTRATION_CLOSED: "blocked",
    LoginFailure.PLAYER_PENDING: "waiting",
}
"""The drawings of outcomes; a fault of the server or of a provider has none."""


def ended_page(outcome: LoginFailure | None, approval_code: str | None = None) -> Page:
    """Return the page of a login that has ended; an outcome of None means collected.

    A new player reports the approval code to the owner.
    """
    if outcome is None:
        return message(_BACK, text("This sign-in was finished before. You can go back to the game."), sign="done")
    title, advice = sentences.ENDED[outcome]
    return message(title, advice, sign=_SIGNS.get(outcome, ""), approval_code=approval_code)
