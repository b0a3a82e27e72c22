"""Every text of the browser pages; the pages fill the `{slots}`."""

from collections.abc import Mapping

from gamed.outcomes import LoginFailure

# The page of the server's address
HOME_TITLE = "A game server"
HOME_LEAD = "To play here, enter this address in your game:"
HOME_ACCOUNT = "You have played here before? See your devices and saves, and change your account."
HOME_ACCOUNT_LINK = "Open your account"

# The page of one sign-in
SIGN_IN_TITLE = "Sign in"
SIGN_IN_LEAD = "A game asks you to sign in. Continue only if you just started this yourself."
DEVICE_LABEL = "Reported by the device"
DEVICE_SILENT = "The device did not say what it is."
DEVICE_WORDS = "{first} \u00b7 {second}"
STARTED_NOW = "Started just now"
STARTED_MINUTE = "Started 1 minute ago"
STARTED_MINUTES = "Started {minutes} minutes ago"
NAME = "Name"
PASSWORD = "Password"
SIGN_IN = "Sign in"
NEW_HERE = "New here?"
CREATE_LINK = "Create an account"
CREATE_TITLE = "Create an account"
CREATE_LEAD = "A game asks you to sign in. Continue only if you just started this yourself."
CREATE_APPROVAL = "The owner of this server approves new accounts before they can play."
NAME_HINT = "1 to 32 letters, digits, dots, underscores or hyphens."
PASSWORD_HINT = "8 to 128 characters. The server cannot show it to you again."
CREATE = "Create account"
HAVE_ONE = "Do you have an account?"
CALLED = "What games call you"
CALLED_HINT = "Leave it empty to be called as above."
NAMELESS = "Do not call me anything"
NOT_ME_LEAD = "Did another person send you the link?"
NOT_ME = "This was not me"

# The page of one sign-in at a provider
PROVIDER_LEAD = "A game asks you to sign in with {provider}. Continue only if you just started this yourself."
CONTINUE = "Continue with {provider}"
LINK_TITLE = "Link {provider}"
LINK_LEAD = (
    "The account you choose at {provider} will be able to sign in here as the player {player}."
    " Continue only if that is you, and you just started this yourself."
)
ADOPT_TITLE = "Keep your player"
ADOPT_LEAD = (
    "Enter the name and password of your account here, then sign in at {provider}."
    " From then on {provider} signs you in as the same player."
)

# Why a form came back
REFUSED_WRONG = "Wrong name or password."
REFUSED_NAME = "That name cannot be used. Choose 1 to 32 letters, digits, dots, underscores or hyphens."
REFUSED_PASSWORD = "That password cannot be used. Choose 8 to 128 characters."
REFUSED_TAKEN = "That name is taken. Choose another, or sign in if it is yours."
REFUSED_CALLED = "Games cannot call you that. Choose 1 to 32 letters, digits, spaces or other visible characters."
REFUSED_CLOSED = "This server takes no new accounts. Ask its owner for one."
REFUSED_LIMIT = "Too many tries. Wait {wait}, then try again."
SECOND = "1 second"
SECONDS = "{seconds} seconds"
REFUSED_BUSY = "Many people are signing in at this moment. Try again in a few seconds."

# After the sign-in
RETURN_TITLE = "Taking you back to the game"
RETURN_LEAD = (
    "Your browser returns to the game in a moment. If nothing happens, use the button."
    " If it shows an error instead, come back to this page."
)
RETURN = "Back to the game"
APP_TITLE = "Go back to the game"
APP_LEAD = "Use the button to finish. If your browser asks whether to open the game, agree."
RETURN_ELSEWHERE = "Is the game on another device?"
RETURN_CODE = "Show me a code"
CODE_TITLE = "One last step"
CODE_LEAD = "Type this into the game in front of you, only if you started this there."
CODE_NOTE = "Never read it to anyone: a person who has it can play as you."
CODE_MOVES = "This page goes on by itself soon after the game has the code."
WORKING_TITLE = "One moment"
WORKING_LEAD = "Your sign-in is being checked. This page goes on by itself."
WAITING_TITLE = "Nearly there"
WAITING_LEAD = "The game will sign you in now. You can go back to the game."
BACK_TITLE = "You can go back to the game"
BACK_LEAD = "You are signed in. This page can be closed."
LINKED_TITLE = "You can go back to the game"
LINKED_LEAD = "The account is linked. This page can be closed."
LINKED_TO = "The account is linked to the player {player}. This page can be closed."
ADOPTED_LEAD = "{provider} now signs you in as the player {player}. This page can be closed."
CALLED_TITLE = "What should games call you?"
CALLED_LEAD = "Games may show it to other players. You can change it in the game later."
CALLED_SAVE = "Save"
CALLED_BACK = "Back"
CALLED_LINK = "Choose what games call you"
CALLED_NOW = "Games call you {name}. You can change it in the game later."
CALLED_CHANGE = "Change it"
SETTLED_TITLE = "Open the game for that"
SETTLED_LEAD = "This page cannot change what games call you. You can change it in the game."
DENIED_TITLE = "You were not signed in"
DENIED_LEAD = "Thank you. This sign-in is over and nothing was given to the game. You can close this page."

# Errors
OTHER_BROWSER = "Another browser finished this sign-in. If that was not you, cancel in the game."
UNKNOWN_LINK = "This link is not known here. It may be mistyped, or long over. Start again from the game."
FORM_REFUSED = "This form did not come from its own page. Open the link again from the game."
NOT_A_PAGE = "This address can only be a page of its own. Open the link again from the game."
PREFETCH = "This page is shown only to people who ask for it. Open the link yourself."
CALLBACK_MALFORMED = "The provider sent something that cannot be read. Open the link again from the game."
CALLBACK_UNKNOWN_PROVIDER = "This server has no such way to sign in. Start again from the game."
CALLBACK_UNKNOWN = "This sign-in is not known here, or long over. Start again from the game."
CALLBACK_BROWSER = "This sign-in was begun in another browser. Open the link again from the game."
CALLBACK_INVALID = "That did not come from the provider you chose. Open the link again from the game."
CALLBACK_TWICE = "This sign-in goes on in its own page. If nothing happens, use the button."
CALLBACK_TWICE_TITLE = "One moment"
CALLBACK_ON = "Go on"
COLLECTED = "This sign-in was finished before. You can go back to the game."

APPROVAL_CODE = "Tell the owner this number:"
APPROVAL_NOTE = "This one is safe to tell the owner. It does not sign you in."

ENDED: Mapping[LoginFailure, tuple[str, str]] = {
    LoginFailure.LOGIN_DENIED: (
        "You were not signed in",
        "The sign-in was declined in the browser. Start again from the game if you want to sign in.",
    ),
    LoginFailure.PROVIDER_DENIED: (
        "You were not signed in",
        "The sign-in was cancelled at the provider. Start again from the game.",
    ),
    LoginFailure.PROVIDER_UNAVAILABLE: (
        "The provider does not answer",
        "The provider cannot be reached right now. Try again from the game in a few minutes.",
    ),
    LoginFailure.PROVIDER_ERROR: (
        "The provider's answer was wrong",
        "Start again from the game. If it happens again, tell the owner of this server.",
    ),
    LoginFailure.PROVIDER_MISCONFIGURED: (
        "This way to sign in is not ready",
        "It is not set up correctly. Please tell the owner of this server.",
    ),
    LoginFailure.SERVER_CLOCK_SKEW: (
        "The server's clock is wrong",
        "Players cannot sign in until it is set right. Please tell the owner of this server.",
    ),
    LoginFailure.LOGIN_EXPIRED: ("This sign-in has expired", "Start again from the game."),
    LoginFailure.LOGIN_CANCELLED: (
        "The game gave up waiting",
        "This sign-in was cancelled there. Start again from the game.",
    ),
    LoginFailure.LOGIN_INTERRUPTED: ("The server was interrupted", "It is back now. Start again from the game."),
    LoginFailure.PROOF_ATTEMPTS_EXCEEDED: (
        "The code was wrong too often",
        "To be safe, this sign-in has ended. Start again from the game.",
    ),
    LoginFailure.IDENTITY_IN_USE: (
        "This account is taken",
        "It came to belong to another player in the meantime. Start again from the game.",
    ),
    LoginFailure.PROVIDER_ALREADY_LINKED: (
        "Already linked",
        "You have another account of this provider linked. Remove that one in the game first.",
    ),
    LoginFailure.PLAYER_BLOCKED: ("You cannot play here", "This player is blocked. Ask the owner of this server."),
    LoginFailure.PLAYER_PENDING: (
        "Waiting for the owner",
        "The owner of this server must approve you first. After that, sign in again from the game.",
    ),
    LoginFailure.REGISTRATION_CLOSED: (
        "No new players",
        "This server takes no new players. Ask its owner for an account.",
    ),
    LoginFailure.SESSION_REVOKED: ("You were signed out", "Sign in again from the game."),
}
"""Heading and advice for each outcome."""

_AGAIN = "Open the link again from the game."
ERROR_LEAD: Mapping[str, str] = {
    "bad_request": f"This address cannot be read. {_AGAIN}",
    "invalid_request": f"This form cannot be read. {_AGAIN}",
    "route_not_found": f"There is no page at this address. {_AGAIN}",
    "method_not_allowed": f"There is no page at this address. {_AGAIN}",
    "request_timeout": "Your browser sent this too slowly. Try again.",
    "body_too_large": f"What was sent is too long. {_AGAIN}",
    "head_too_large": f"What was sent is too long. {_AGAIN}",
    "unsupported_media_type": FORM_REFUSED,
    "misdirected_request": f"This server has another address. {_AGAIN}",
    "internal_error": "Start again from the game. If it happens again, tell the owner of this server.",
    "store_unavailable": "The server cannot reach its data. Please tell its owner, and try again later.",
    "storage_full": "Nothing more can be stored. Please tell the owner of this server.",
}
"""The sentences for people, where a problem's own detail is for programs."""

ERROR_TITLE: Mapping[int, str] = {
    400: "That did not work",
    403: "Open the link again",
    404: "Nothing here",
    405: "Nothing here",
    408: "That took too long",
    409: "Not in this browser",
    410: "This sign-in is over",
    413: "That was too long",
    415: "That did not work",
    421: "Wrong address",
    429: "A little too fast",
    431: "That was too long",
    500: "Something broke",
    503: "Not right now",
    507: "The server's disk is full",
}
REFERENCE = "For the owner of this server: {id}"
"""Below an error of the server; the id is the one in the log."""
ERROR_TITLE_OTHER = "That did not work"
ERROR_LEAD_OTHER = ERROR_LEAD["internal_error"]
