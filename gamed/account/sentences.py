"""The sentences of an account and of links, about what was done and what was refused, in English."""

from collections.abc import Mapping

from gamed.audit import SecurityEvent
from gamed.login.local import FormError
from gamed.login.sentences import recovered
from gamed.outcomes import LoginFailure
from gamed.pages.model import Text, text
from gamed.passkeys.limits import CODES
from gamed.players.errors import AdoptRefusal
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE

# What was done
NOTICES: Mapping[str, Text] = {
    "signed-out": text("That device is signed out."),
    "browser-out": text("That browser is signed out."),
    "others-out": text("All other devices and browsers are signed out."),
    "restored": text("The save is restored. Games that are running get it at once."),
    "dismissed": text("That copy is deleted."),
    "kept": text("The current save stays, and its other copies are deleted."),
    "save-deleted": text("The save is deleted. You can bring it back here as long as it is kept."),
    "unlinked": text(
        "It is unlinked and cannot sign in as you any more. Games and browsers that used it are signed out."
    ),
    "linked": text("It is linked and can sign in as you from now on."),
    "adopted": text("Your old account is part of this one now. Its saves are among yours."),
    "known": text("You have an account here already, so the invite was not used."),
    "again": text("You are signed in again. Nothing was done yet, so do it once more."),
    "named": text("Your name is changed. Games show it soon."),
    "device-named": text("The device is renamed."),
    "passkey-added": text("The passkey is added and can sign in as you from now on."),
    "passkey-named": text("The passkey is renamed."),
    "passkey-removed": text(
        "The passkey is removed and cannot sign in as you any more. Games and browsers that used it are signed out."
    ),
    "password": text("Your password is changed. Every game and every other browser is signed out."),
    "password-passkeys": text(
        "Your password is changed. Every game and every other browser is signed out. Your passkeys still work; remove"
        " those you do not know."
    ),
    "password-codes": text(
        "Your password is changed. Every game and every other browser is signed out. Your recovery codes still work; if"
        " somebody else may have them, make new ones."
    ),
    "password-both": text(
        "Your password is changed. Every game and every other browser is signed out. Your passkeys and recovery codes"
        " still work; remove passkeys you do not know, and make new codes if somebody else may have them."
    ),
    "invited": text("Your account is ready. You can add a passkey to it, and sign in without the password then."),
    # A notice has no values but its key. After a sign-in with a recovery code at most nine of ten are left.
    **{f"recovered-{left}": recovered(left) for left in range(CODES)},
}

# What happened
ACTIVITY: Mapping[SecurityEvent, Text] = {
    SecurityEvent.SIGN_IN: text("Signed in with {provider}"),
    SecurityEvent.SIGNED_OUT: text("Signed out"),
    SecurityEvent.SESSION_REVOKED: text("A device was signed out"),
    SecurityEvent.SESSION_LIMIT_REACHED: text("The device that was unused for longest was signed out"),
    SecurityEvent.REFRESH_REUSED: text("A device was signed out, because a copy of its sign-in was used"),
    SecurityEvent.PASSWORD_CHANGED: text("Password changed"),
    SecurityEvent.INVITE_USED: text("Account created by an invite"),
    SecurityEvent.IDENTITY_LINKED: text("{provider} linked"),
    SecurityEvent.IDENTITY_UNLINKED: text("{provider} unlinked"),
    SecurityEvent.PASSKEY_ADDED: text("Passkey added"),
    SecurityEvent.PASSKEY_RENAMED: text("A passkey was renamed"),
    SecurityEvent.PASSKEY_REMOVED: text("Passkey removed"),
    SecurityEvent.PASSKEY_COUNT_BACK: text("A passkey was used that may be a copy"),
    SecurityEvent.RECOVERY_CODES_MADE: text("Recovery codes made"),
    SecurityEvent.RECOVERY_CODE_USED: text("A recovery code was used"),
    SecurityEvent.PLAYER_RENAMED: text("Name changed"),
    SecurityEvent.DEVICE_RENAMED: text("A device was renamed"),
    SecurityEvent.PLAYERS_MERGED: text("Another account was merged into this one"),
    SecurityEvent.COMMAND: text("The owner of this server changed your account: {command}"),
}
"""The sentence of each security event that a player reads; others are for the owner."""
SIGNED_OUT_OTHERS = text("Signed out everywhere else")
WRONG: Mapping[str, Text] = {
    "wrong_password": text("Wrong password"),
    "wrong_recovery_code": text("Wrong recovery code"),
}
"""The sentence of each refused sign-in that a player reads, by its outcome."""
LOCAL_WAY = text("name and password")

# What was refused
FORM_REFUSED = text(
    "This form did not come from its own page, or you signed in again since. Go back to your account and try again."
)
NO_COOKIE = text(
    "Your browser sent no cookie, so this form cannot be checked. Allow cookies for this address, then open your"
    " account again."
)
NOT_A_PAGE = text("This address can only be a page of its own. Open your account, then go on from there.")
PREFETCH = text("This page is shown only to people who ask for it. Open it yourself.")
UNKNOWN_ACTION = text("There is no page at this address. Open your account, then go on from there.")
SIGN_IN_OVER = text("This sign-in is over. Open your account and try again.")
OTHER_BROWSER = text("Another browser began this sign-in. Open your account and try again.")
SAVE_CHANGED = text("A game has saved in the meantime. Look at the versions again, then choose.")
SAVE_GONE = text("That version is not kept any more. Look at the versions again, then choose.")
SAVE_NO_ROOM = text("There is no room for it. Delete something in the game first, then try again.")
SAVE_DAMAGED = text("The bytes of that version are damaged. Choose another one.")
SAVE_WRONG = text("That save cannot be found. Open your account and choose again.")
LAST_PASSKEY = text("This is your last way to sign in. Add another passkey first.")
PASSKEY_GONE = text("That passkey is not known here any more. Open your account and look again.")
PASSKEYS_OFF = text("Browsers allow no passkeys at the address of this server. Choose another way.")
PASSKEY_REFUSED = text("That passkey was not accepted. Try again.")
PASSKEY_KNOWN = text("You have that passkey already.")
PASSKEYS_FULL = text("You have as many passkeys as this server keeps. Remove one first.")
WAYS: Mapping[str, Text] = {PASSKEY: text("a passkey"), RECOVERY_CODE: text("a recovery code")}
"""The name of each way to sign in that is neither a password nor a provider."""
LAST_WAY = text("This is your last way to sign in. Link another one first.")
NAME_UNUSABLE = text("That name cannot be used. Choose 1 to 32 visible characters.")
DEVICE_NAME_UNUSABLE = text("That name cannot be used. Choose 1 to 64 visible characters.")
NOT_TYPED = text("The word was not typed as shown. Nothing was deleted. Try again.")
DEVICE_GONE = text("That device is not known here any more. Open your account and look again.")
EXPORTING = text("Too many downloads are under way. Try again in half a minute.")

PASSWORD_REFUSED: Mapping[FormError, Text] = {
    FormError.WRONG: text("The old password is not right. Check it and try again."),
    FormError.PASSWORD_MALFORMED: text("That new password cannot be used. Choose 8 to 128 characters."),
    FormError.BUSY: text("Many people are signing in at this moment. Try again in a few seconds."),
}

ADOPT_REFUSED: Mapping[AdoptRefusal, Text] = {
    AdoptRefusal.OWN: text("That account is this one already."),
    AdoptRefusal.LINKED: text(
        "That account has another way to sign in, so it stays as it is. Ask the owner of this server to join the two."
    ),
    AdoptRefusal.BLOCKED: text("That account is blocked. Ask the owner of this server."),
    AdoptRefusal.PASSWORD: text("Its password was changed in the meantime. Try again with the new one."),
}

# How a sign-in to the account ended
NOT_SIGNED_IN = text("You are not signed in")
NOT_LINKED = text("Not linked")
AGAIN_LATER = text("This sign-in did not work. Try again in a moment.")
ENDED: Mapping[LoginFailure, tuple[Text, Text]] = {
    LoginFailure.REGISTRATION_CLOSED: (
        NOT_SIGNED_IN,
        text("No account on this server is linked to it. Sign in from a game first."),
    ),
    LoginFailure.IDENTITY_IN_USE: (NOT_LINKED, text("It is linked to another account on this server.")),
    LoginFailure.PROVIDER_ALREADY_LINKED: (
        NOT_LINKED,
        text("You have an account of that provider linked already. Unlink it first."),
    ),
    LoginFailure.PLAYER_BLOCKED: (text("You cannot play here"), text("You are blocked. Ask the owner of this server.")),
    LoginFailure.PLAYER_PENDING: (
        text("Waiting for the owner"),
        text("The owner of this server must approve you first. After that, sign in again."),
    ),
    LoginFailure.PROVIDER_DENIED: (NOT_SIGNED_IN, text("The sign-in was cancelled at the provider.")),
    LoginFailure.LOGIN_DENIED: (NOT_SIGNED_IN, text("The sign-in was declined.")),
    LoginFailure.PROVIDER_UNAVAILABLE: (
        text("The provider does not answer"),
        text("It cannot be reached right now. Try again in a few minutes."),
    ),
    LoginFailure.PROVIDER_ERROR: (
        text("The provider's answer was wrong"),
        text("Try again. If it happens again, tell the owner of this server."),
    ),
    LoginFailure.PROVIDER_MISCONFIGURED: (
        text("This way to sign in is not ready"),
        text("It is not set up correctly. Please tell the owner of this server."),
    ),
    LoginFailure.SERVER_CLOCK_SKEW: (
        text("The server's clock is wrong"),
        text("Nobody can sign in until it is set right. Please tell the owner of this server."),
    ),
    LoginFailure.LOGIN_EXPIRED: (text("This sign-in has expired"), text("It took too long. Try again.")),
    LoginFailure.LOGIN_INTERRUPTED: (text("The server was interrupted"), text("It is back now. Try again.")),
    LoginFailure.LOGIN_CANCELLED: (NOT_SIGNED_IN, AGAIN_LATER),
    LoginFailure.PROOF_ATTEMPTS_EXCEEDED: (NOT_SIGNED_IN, AGAIN_LATER),
    LoginFailure.SESSION_REVOKED: (
        NOT_SIGNED_IN,
        text("You were signed out in the meantime, or the password was changed. Sign in again."),
    ),
}
"""Heading and sentence of each outcome."""
CODE_USED = text("That recovery code was used before, or new ones have replaced it. Sign in again.")
"""The sentence of SESSION_REVOKED where a recovery code was typed, in the answer that refuses it."""

LINK_ENDED: Mapping[LoginFailure, Text] = {
    LoginFailure.PROVIDER_DENIED: text("It was cancelled at the provider."),
    LoginFailure.LOGIN_CANCELLED: text("That did not work. Try again in a moment."),
    LoginFailure.SESSION_REVOKED: text("You were signed out in the meantime. Sign in, then link it again."),
}
"""The sentences of a link, where those of a sign-in do not fit; nothing has changed then."""

# Invites and reset links
LINK_UNKNOWN = text(
    "This link is not known here. Check that it is complete, or ask the owner of this server for a new one."
)
LINK_OVER = text(
    "This link works once, and it is used, revoked or expired. Ask the owner of this server for a new one."
)
INVITE_USED = text("You have used this invite, and it works once. Open your account, then go on from there.")
LINK_BLOCKED = text("Your account is blocked. Ask the owner of this server.")
LINK_FORM_REFUSED = text("This form did not come from its own page. Open the link again, then try again.")
INVITE_UNUSED = text("This sign-in did not work, and your invite is still open. Open its link again, then try again.")
