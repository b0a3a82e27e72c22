"""The sentences of the owner's page that acts: what was done, and why something was not, in English."""

from collections.abc import Mapping

from gamed.account.sentences import NOTICES as ACCOUNT_NOTICES
from gamed.pages.model import Text, text
from gamed.players.model import CodeCheck

NOTICES: Mapping[str, Text] = {
    "o-approve": text("Approved. They can sign in and play now."),
    "o-reject": text("Rejected. They may ask again; to prevent that, block them next time."),
    "o-block": text("Blocked. Their games and browsers are signed out of everything at once."),
    "o-unblock": text("Unblocked. They can play again."),
    "o-waits": text("Unblocked. They were never approved, so they wait for you again."),
    "o-note": text("The note is kept. Only you see it."),
    "o-out": text("Signed out on every device."),
    "o-device": text("That device is signed out."),
    "o-erase": text("The account is deleted, with all its saves."),
    "o-merge": text("The two accounts are one now."),
    "o-revoke": text("The invite is revoked. Its link admits nobody any more."),
    "o-restore": text("The save is restored. Games that are running get it at once."),
    "o-undelete": text("The save is back. Games that are running get it at once."),
    "o-point": text("The channel points at that release. Games notice it within a second."),
    "o-rollback": text("The channel is back at the release before. Games notice it within a second."),
    "o-backup": text("A backup is being made. You can leave this page."),
    "again": ACCOUNT_NOTICES["again"],
}

UNKNOWN_PERSON = text("There is no player at this address any more. Look at the list of people again.")
CHANGED = text("This player was changed elsewhere after the page was opened. Look again, then decide.")
DEVICE_GONE = text("That device is not signed in any more.")
INVITE_GONE = text("That invite was used or revoked, or has expired.")
TOO_MANY_INVITES = text("There are very many open invites. Revoke some first.")
INVITE_UNUSABLE = text("A name has 1 to 32 visible characters, and a link works 1 to 90 days. Try again.")
NO_ACCOUNT = text("This player has no name and password here, or is blocked. A link would not help.")
UNUSABLE = text("What was typed cannot be used. Nothing was changed. Go back and try again.")
PROTECTED = text(
    "This is your own account, and the page changes nothing about it, so that nobody at your browser can take the"
    " server from you. On the server run: {command}"
)
SAVE_CHANGED = text("That version is not kept any more, or the save has changed. Look at the versions again.")
SAVE_DAMAGED = text("The bytes of that version are damaged. Choose another one.")
SAVE_NO_ROOM = text("There is no room for it.")
NOT_MERGEABLE = text("These two cannot be merged. Choose another player, who is approved.")
NO_FOLDER = text("The server does not know where to put backups. On the server run: {command}")
RUNS = text("A backup is being made already. Wait until it is finished.")
FILES_CHANGED = text("The files have changed since the page was opened. Look again, then decide.")
FILES_BUSY = text("Another command is changing the files. Try again in a moment.")
FILES_DAMAGED = text(
    "A file of that release is missing or damaged, so nothing was changed. On the server run: {command}"
)
FILES_READ_ONLY = text(
    "The folder of the game files cannot be written, so nothing was changed. Make it writable on the server."
)
READ_ONLY = text("The database can only be read right now, so nothing was changed. Make it writable on the server.")
STATE_AWAY = text(
    "The database of the saves does not respond or is damaged, so nothing was changed. On the server run: {command}"
)
FORM_REFUSED = text(
    "This form did not come from its own page, or you signed in again since. Go back to your server and try again."
)
CODES: Mapping[CodeCheck, Text] = {
    CodeCheck.WRONG: text("That is not the code. Nothing was changed. Type it as the server printed it."),
    CodeCheck.NONE: text(
        "The code is not valid any more: it was used, is too old, or was wrong too often. Make a new one."
    ),
}
SIGN_IN_LEAD = text("Sign in as the owner of this server.")
TITLE = text("Your server")
BACK = text("Back to your server")
BACK_TO_PERSON = text("Back to this player")
NOT_CHANGED = text("Nothing was changed")
