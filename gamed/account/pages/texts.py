"""Every text of the player's own page; the pages fill the `{slots}`."""

from collections.abc import Mapping

TITLE = "Your page"
BACK = "Back to your page"

# Signing in
SIGN_IN_LEAD = "Sign in to see your devices and saves on {server}."
SIGN_IN = "Sign in"
SIGN_IN_AT = "Sign in with {provider}"
SIGNED_OUT = "You are signed out here. Nothing was changed. Sign in again."
AGAIN_TITLE = "Sign in again"
AGAIN_LEAD = "This cannot be undone, so sign in again first. You then have ten minutes to do it."
WORKING_TITLE = "One moment"
WORKING_LEAD = "Your sign-in is being checked. This page goes on by itself."
FAILED_TITLE = "You are not signed in"
FAILED_LEAD = "This sign-in did not work. Try again in a moment."
FAILED_NOBODY = "No player on this server signs in with that account. Sign in from a game first."
FAILED_PENDING = "The owner of this server must approve you first. Tell the owner this code:"
FAILED_LINK = "That account was not linked: another player has it, or you have one of that provider already."
TRY_AGAIN = "Try again"

# The page
PLAYER = "You are signed in on {server}."
ACCOUNT = "You are signed in on {server} as {name}."
SIGN_OUT = "Sign out of this page"

DEVICES_TITLE = "Devices"
DEVICES_NONE = "No game is signed in as you."
DEVICE_UNNAMED = "A device without a name"
DEVICE_WORDS = "{first} \u00b7 {second}"
DEVICE_USED = "Last used {time}"
DEVICE_SIGNED_IN = "Signed in {time}"
DEVICE_SIGN_OUT = "Sign out"
DEVICES_OTHERS = "Sign out everywhere else"
MORE = "{count} more are not shown."

SAVES_TITLE = "Saves"
MORE_SAVES = "More saves"
OLDER = "Older versions"
SAVES_NONE = "You have no saves here yet."
SAVES_UNREADABLE = "Your saves cannot be read right now. Please tell the owner of this server, and try again later."
SAVES_USAGE = "{saves} of saves, {history} of older versions."
SAVE_SAVED = "{size}, saved {time}"
SAVE_DELETED = "Deleted {time}"
SAVE_LOST = "Damaged. Please tell the owner of this server."
SAVE_COPIES = "Other copies to choose from: {count}"
SAVE_OPEN = "Versions of {slot}"
EXPORT = "Download all saves"
EXPORT_LEAD = "One ZIP file with every version that is kept."

WAYS_TITLE = "Ways to sign in"
WAY_LOCAL = "Name and password"
WAY_USED = "Last used {time}"
WAY_UNUSABLE = "This server does not offer it now."
UNLINK = "Unlink {provider}"
LINK = "Link {provider}"
UNLINK_LEAD = "Unlinking signs out all games and browsers that signed in that way."
UNLINKED_TITLE = "It is unlinked"
UNLINKED_LEAD = (
    "It cannot sign in as you any more. You had signed in with it here, so you are signed out of this page, too."
)

NAME_TITLE = "Your name"
NAME_LABEL = "The name that games show"
NAME_HINT = "1 to 32 characters. Leave it empty for no name."
NAME_CHANGE = "Change name"

PASSWORD_TITLE = "Change your password"
PASSWORD_LEAD = "Every game and every other browser is signed out by this."
PASSWORD_OLD = "Old password"
PASSWORD_NEW = "New password"
PASSWORD_HINT = "8 to 128 characters. The server cannot show it to anyone, so keep it somewhere safe."
PASSWORD_CHANGE = "Change password"
PASSWORD_WRONG = "The old password is not right. Check it and try again."
PASSWORD_UNUSABLE = "That new password cannot be used. Choose 8 to 128 characters."
PASSWORD_LIMIT = "Too many tries. Wait {wait}, then try again."
PASSWORD_BUSY = "Many people are signing in at this moment. Try again in a few seconds."
SECOND = "1 second"
SECONDS = "{seconds} seconds"

DELETE_TITLE = "Delete everything"
DELETE_LEAD = (
    "This deletes you as a player: all saves with every version, your ways to sign in, and your devices."
    " The server cannot bring it back. Download your saves first if you want to keep them."
)
DELETE_WORD = "delete"
DELETE_LABEL = "Type the word {word}"
DELETE = "Delete everything"
DELETED_TITLE = "You are deleted"
DELETED_LEAD = "Your saves and everything else about you are gone from this server. You can close this page."

# One save
SLOT_TITLE = "Versions of {slot}"
CURRENT = "Now"
COPY = "Another copy"
REMOVED = "Deleted here"
VERSION = "Version {number}"
VERSION_SAVED = "{size}, {time}"
VERSION_FROM = "From {device}"
COPY_LEAD = "Two devices saved at the same time. Your game uses the newest; this is the other one."
VERSION_KEPT = "Kept until {time}"
DOWNLOAD = "Download version {number}"
RESTORE = "Restore version {number}"
KEEP = "Use this copy"
DISMISS = "Delete this copy"
DISMISS_TITLE = "Delete this copy?"
DISMISS_LEAD = "It is then gone for good: the server cannot bring it back. The save that your game uses stays."
DISMISS_BACK = "Keep it"

# Invites and reset links
INVITE_TITLE = "You are invited"
INVITE_LEAD = "Choose a name and a password for {server}. With them you sign in from the game, and on this page."
INVITE_PROVIDER_LEAD = "Choose how you want to sign in on {server}. The account you choose becomes yours to play with."
INVITE_CREATE = "Create account"
INVITE_PROVIDER = "Continue with {provider}"
LINK_ONCE = "This link is yours alone and works once. Opening this page does not use it up."
RESET_TITLE = "Choose a new password"
RESET_LEAD = "This sets the password of {name} on {server}. Every game and every browser is signed out by this."
RESET_SET = "Set password"
RESET_DONE_TITLE = "Your new password is set"
RESET_DONE_LEAD = "You are signed out everywhere. Sign in again from the game, or on your page."
TO_YOUR_PAGE = "Go to your page"
LINK_FAILURE_TITLE = "This link does not work"
LINK_UNKNOWN = "This link is not known here. Check that it is complete, or ask the owner of this server for a new one."
LINK_OVER = "This link works once, and it is used, revoked or expired. Ask the owner of this server for a new one."
LINK_BLOCKED = "This player is blocked. Ask the owner of this server."
LINK_FORM_REFUSED = "This form did not come from its own page. Open the link again, then try again."
INVITE_UNUSED = "This sign-in did not work, and your invite is still open. Open its link again, then try again."

# Notices
NOTICES: Mapping[str, str] = {
    "signed-out": "That device is signed out.",
    "others-out": "All other devices and browsers are signed out.",
    "restored": "The save is restored. Games that are running get it at once.",
    "dismissed": "That copy is deleted.",
    "unlinked": "It is unlinked and cannot sign in as you any more. Games and browsers that used it are signed out.",
    "linked": "It is linked and can sign in as you from now on.",
    "known": "You have an account here already, so the invite was not used.",
    "named": "Your name is changed. Games show it soon.",
    "password": "Your password is changed. Every game and every other browser is signed out.",
}

# Errors
FAILURE_TITLE = "Nothing was changed"
FORM_REFUSED = "This form did not come from its own page, or you signed in again since. Go back and try again."
NOT_A_PAGE = "This address can only be a page of its own. Go back to your page."
PREFETCH = "This page is shown only to people who ask for it. Open it yourself."
UNKNOWN_ACTION = "There is no page at this address. Go back to your page."
SIGN_IN_OVER = "This sign-in is over. Go back to your page and try again."
OTHER_BROWSER = "Another browser began this sign-in. Go back to your page and try again."
SAVE_CHANGED = "A game has saved in the meantime. Look at the versions again, then choose."
SAVE_GONE = "That version is not kept any more. Look at the versions again, then choose."
SAVE_NO_ROOM = "There is no room for it. Delete something in the game first, then try again."
SAVE_DAMAGED = "The bytes of that version are damaged. Choose another one."
SAVE_WRONG = "That save cannot be found. Go back to your page and choose again."
LAST_WAY = "This is your last way to sign in. Link another one first."
NAME_UNUSABLE = "That name cannot be used. Go back and choose 1 to 32 visible characters."
NOT_TYPED = "The word was not typed as shown. Go back and try again."
DEVICE_GONE = "That device is not known here any more. Go back to your page and look again."
EXPORTING = "Too many downloads are under way. Try again in half a minute."

# Times and sizes
ABSOLUTE = "{ago} ({utc} UTC)"
