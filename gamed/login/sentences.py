"""The sentences of a login's pages about an error, an end and a form that came back, in English."""

from collections.abc import Mapping
from enum import Enum

from gamed.login.local import FormError
from gamed.outcomes import LoginFailure
from gamed.pages.model import Text, counted, text

CODE_NOT_ENOUGH = text(
    "A recovery code only signs you in. To add a passkey, make new codes, download everything or delete your account,"
    " sign in with your password or a passkey. If you have neither, ask the owner of this server for a link for a new"
    " password."
)
REFUSED_NAME = text("Games cannot call you that. Choose 1 to 32 letters, digits, spaces or other visible characters.")
REFUSED: Mapping[FormError, Text] = {
    FormError.WRONG: text("Wrong name or password."),
    FormError.NAME_MALFORMED: text(
        "That name cannot be used. Choose 1 to 32 letters, digits, dots, underscores or hyphens."
    ),
    FormError.PASSWORD_MALFORMED: text("That password cannot be used. Choose 8 to 128 characters."),
    FormError.NAME_TAKEN: text("That name is taken. Choose another, or sign in if it is yours."),
    FormError.DISPLAY_NAME: REFUSED_NAME,
    FormError.PASSKEY: text("That passkey was not accepted. Sign in another way, or try again."),
    FormError.RECOVERY: text("Wrong name or recovery code."),
    FormError.NO_PROOF: CODE_NOT_ENOUGH,
    FormError.CLOSED: text("This server takes no new accounts. Ask its owner for one."),
    FormError.BUSY: text("Many people are signing in at this moment. Try again in a few seconds."),
}

OTHER_BROWSER = text("Another browser finished this sign-in. If that was not you, cancel in the game.")
UNKNOWN_LINK = text("This link is not known here. It may be mistyped, or long over. Start again from the game.")
FORM_REFUSED = text("This form did not come from its own page. Open the link again from the game.")
NO_COOKIE = text(
    "Your browser sent no cookie, so this form cannot be checked. Allow cookies for this address, then open the link"
    " again from the game."
)
NOT_A_PAGE = text("This address can only be a page of its own. Open the link again from the game.")
PREFETCH = text("This page is shown only to people who ask for it. Open the link yourself.")
CALLBACK_MALFORMED = text("The provider sent something that cannot be read. Open the link again from the game.")
CALLBACK_UNKNOWN_PROVIDER = text("This server has no such way to sign in. Start again from the game.")
CALLBACK_UNKNOWN = text("This sign-in is not known here, or long over. Start again from the game.")
CALLBACK_BROWSER = text("This sign-in was begun in another browser. Open the link again from the game.")
CALLBACK_INVALID = text("That did not come from the provider you chose. Open the link again from the game.")

ENDED: Mapping[LoginFailure, tuple[Text, Text]] = {
    LoginFailure.LOGIN_DENIED: (
        text("You were not signed in"),
        text("The sign-in was declined in the browser. Start again from the game if you want to sign in."),
    ),
    LoginFailure.PROVIDER_DENIED: (
        text("You were not signed in"),
        text("The sign-in was cancelled at the provider. Start again from the game."),
    ),
    LoginFailure.PROVIDER_UNAVAILABLE: (
        text("The provider does not answer"),
        text("The provider cannot be reached right now. Try again from the game in a few minutes."),
    ),
    LoginFailure.PROVIDER_ERROR: (
        text("The provider's answer was wrong"),
        text("Start again from the game. If it happens again, tell the owner of this server."),
    ),
    LoginFailure.PROVIDER_MISCONFIGURED: (
        text("This way to sign in is not ready"),
        text("It is not set up correctly. Please tell the owner of this server."),
    ),
    LoginFailure.SERVER_CLOCK_SKEW: (
        text("The server's clock is wrong"),
        text("Nobody can sign in until it is set right. Please tell the owner of this server."),
    ),
    LoginFailure.LOGIN_EXPIRED: (text("This sign-in has expired"), text("Start again from the game.")),
    LoginFailure.LOGIN_CANCELLED: (
        text("The game gave up waiting"),
        text("This sign-in was cancelled there. Start again from the game."),
    ),
    LoginFailure.LOGIN_INTERRUPTED: (
        text("The server was interrupted"),
        text("It is back now. Start again from the game."),
    ),
    LoginFailure.PROOF_ATTEMPTS_EXCEEDED: (
        text("The code was wrong too often"),
        text("To be safe, this sign-in has ended. Start again from the game."),
    ),
    LoginFailure.IDENTITY_IN_USE: (
        text("This account is taken"),
        text("It was linked to another account in the meantime. Start again from the game."),
    ),
    LoginFailure.PROVIDER_ALREADY_LINKED: (
        text("Already linked"),
        text("Another way to sign in is linked to your account. Use that one, or remove it in the game first."),
    ),
    LoginFailure.PLAYER_BLOCKED: (
        text("You cannot play here"),
        text("Your account is blocked. Ask the owner of this server."),
    ),
    LoginFailure.PLAYER_PENDING: (
        text("Waiting for the owner"),
        text("The owner of this server must approve you first. After that, sign in again from the game."),
    ),
    LoginFailure.REGISTRATION_CLOSED: (
        text("No new accounts"),
        text("This server takes no new accounts. Ask its owner for one."),
    ),
    LoginFailure.SESSION_REVOKED: (text("You were signed out"), text("Sign in again from the game.")),
}
"""Heading and advice for each outcome."""

TOO_LONG = text("What was sent is too long.")
NO_PAGE = text("There is no page at this address.")
REFUSED_REQUEST = text("The server cannot do that.")
"""The text about a problem without a sentence of its own."""
PROBLEMS: Mapping[str, Text] = {
    "bad_request": text("This address cannot be read."),
    "invalid_request": text("This form cannot be read."),
    "route_not_found": NO_PAGE,
    "method_not_allowed": NO_PAGE,
    "body_too_large": TOO_LONG,
    "head_too_large": TOO_LONG,
    "unsupported_media_type": text("This form did not come from its own page."),
    "internal_error": text("The server made a mistake. If it happens again, tell the owner of this server."),
}
"""The sentences for people, where a problem's own detail is for programs; the advice of the place follows."""
COMPLETE: Mapping[str, Text] = {
    "busy": text("Too many people use this server right now. Try again in a moment."),
    "shutting_down": text("The server is going down. Try again in a moment."),
    "request_timeout": text("Your browser sent this too slowly. Try again."),
    "misdirected_request": text("You opened this server by a name that is not its own. Its address is {address}"),
    "store_unavailable": text("The server cannot reach its data. Please tell its owner, and try again later."),
    "storage_full": text("Nothing more can be stored. Please tell the owner of this server."),
}
"""Sentences that have their advice."""


def try_again_in(seconds: int) -> Text:
    return text("Try again in {wait}.", wait=counted("{count} second", "{count} seconds", seconds))


def recovered(left: int) -> Text:
    """Return the sentence after a sign-in with a recovery code; `left` without that one."""
    return text("You signed in with a recovery code. Recovery codes left: {count}", count=left)


class Place(Enum):
    """The place that a person came from, by the advice for people whose request failed there."""

    GAME = text("Start again from the game.")
    LINK = text("Open your link again.")
    ACCOUNT = text("Open your account, then go on from there.")
    HOME = text("Open the first page of this server.")


TITLES: Mapping[int, Text] = {
    400: text("That did not work"),
    403: text("Open the link again"),
    404: text("Nothing here"),
    405: text("Nothing here"),
    408: text("That took too long"),
    409: text("Not in this browser"),
    410: text("This sign-in is over"),
    413: text("That was too long"),
    415: text("That did not work"),
    421: text("Wrong address"),
    429: text("A little too fast"),
    431: text("That was too long"),
    500: text("Something broke"),
    503: text("Not right now"),
    507: text("The server's disk is full"),
}
"""The headings of errors by status."""
TITLE_OTHER = TITLES[400]
