"""The events of a server as sentences with names for its owner, in English.

`{player}` begins a sentence wherever that is possible: it may be a text such as "A player without a name".
"""

from collections.abc import Mapping

from gamed.account.sentences import LOCAL_WAY, WAYS
from gamed.audit import SecurityEvent
from gamed.database.event_counts import EventCount
from gamed.outcomes import LoginFailure
from gamed.owner.model import owner_of
from gamed.pages.model import Text, text
from gamed.players.names import LOCAL

NAMELESS = text("A player without a name")
DELETED = text("A deleted player")
UNKNOWN = text("Something happened that this version does not know: {event}")

EVENTS: Mapping[SecurityEvent, Text] = {
    SecurityEvent.SIGN_IN: text("{player} signed in with {provider}"),
    SecurityEvent.SIGN_IN_REFUSED: text("A sign-in with {provider} did not work"),
    SecurityEvent.CALLBACK_REJECTED: text("A browser came back from {provider} without a sign-in of its own"),
    SecurityEvent.REFRESH_REUSED: text("{player} lost a device, because a copy of its sign-in was used"),
    SecurityEvent.SIGNED_OUT: text("{player} signed out"),
    SecurityEvent.SESSION_REVOKED: text("{player} signed out another device"),
    SecurityEvent.SESSION_LIMIT_REACHED: text(
        "{player} has too many devices, so the one unused for longest was signed out"
    ),
    SecurityEvent.PASSWORD_CHANGED: text("{player} has a new password"),
    SecurityEvent.INVITE_USED: text("{player} used an invite"),
    SecurityEvent.IDENTITY_LINKED: text("{player} linked {provider}"),
    SecurityEvent.IDENTITY_UNLINKED: text("{player} unlinked {provider}"),
    SecurityEvent.PASSKEY_ADDED: text("{player} added a passkey"),
    SecurityEvent.PASSKEY_RENAMED: text("{player} renamed a passkey"),
    SecurityEvent.PASSKEY_REMOVED: text("{player} removed a passkey"),
    SecurityEvent.PASSKEY_COUNT_BACK: text("{player} used a passkey that may be a copy"),
    SecurityEvent.RECOVERY_CODES_MADE: text("{player} made recovery codes"),
    SecurityEvent.RECOVERY_CODE_USED: text("{player} used a recovery code"),
    SecurityEvent.PLAYER_RENAMED: text("{player} has a new name"),
    SecurityEvent.DEVICE_RENAMED: text("{player} renamed a device"),
    SecurityEvent.ERASE_STARTED: text("{player} is being deleted"),
    SecurityEvent.ERASED: text("An account was deleted"),
    SecurityEvent.PLAYERS_MERGED: text("{player} has the saves of another account now"),
    SecurityEvent.DECRYPTION_FAILED: text("A stored value cannot be read with the key of this server: {value}"),
    SecurityEvent.DISK_NEARLY_FULL: text("The disk is nearly full, so saves are refused"),
    SecurityEvent.DISK_HAS_ROOM: text("The disk has room again"),
    SecurityEvent.DAMAGE_FOUND: text("A database is damaged: {database}"),
    SecurityEvent.OWNER_NOTIFIED: text("The server sent you a message"),
    SecurityEvent.COMMAND: text("The owner ran {command}"),
}
CREATED = text("{player} signed in for the first time, with {provider}")
OUT_OTHERS = text("{player} signed out everywhere else")
OUT_EVERYWHERE = text("{player} signed out everywhere")
SCOPES: Mapping[str, Text] = {"others": OUT_OTHERS, "all": OUT_EVERYWHERE}
COMMAND_FOR = text("The owner ran {command} for {player}")

REFUSED: Mapping[str, Text] = {
    "too_many_passwords": text("Somebody tried too many passwords"),
    "wrong_recovery_code": text("Somebody typed a wrong name or recovery code"),
    LoginFailure.LOGIN_DENIED.value: text("Somebody declined a sign-in"),
    LoginFailure.PROVIDER_DENIED.value: text("Somebody cancelled a sign-in at {provider}"),
    LoginFailure.REGISTRATION_CLOSED.value: text("Somebody without an account tried to sign in with {provider}"),
    LoginFailure.PROVIDER_UNAVAILABLE.value: text("A sign-in did not work, because {provider} did not answer"),
    LoginFailure.PROVIDER_MISCONFIGURED.value: text("A sign-in did not work: {provider} is not set up correctly"),
    LoginFailure.SERVER_CLOCK_SKEW.value: text("A sign-in did not work: the clock of this server is wrong"),
}
"""By the outcome of a refused sign-in; others have the sentence of the event."""
WRONG_PASSWORD = text("Somebody typed a wrong name or password")
REFUSED_PLAYER: Mapping[str, Text] = {
    "wrong_password": text("{player} or somebody else typed a wrong password"),
    "wrong_recovery_code": text("{player} or somebody else typed a wrong recovery code"),
    LoginFailure.PLAYER_BLOCKED.value: text("{player} is blocked and tried to sign in"),
    LoginFailure.PLAYER_PENDING.value: text("{player} waits for you and tried to sign in"),
}

COMMANDS: Mapping[str, Text] = {
    "players add": text("{player} was added by the owner"),
    "players approve": text("{player} was approved by the owner"),
    "players reject": text("The owner rejected a player who waited"),
    "players block": text("{player} was blocked by the owner"),
    "players unblock": text("{player} was unblocked by the owner"),
    "players password": text("{player} got a new password from the owner"),
    "players reset-link": text("{player} got a link for a new password from the owner"),
    "players erase": text("The owner deleted an account"),
    "players invite": text("The owner made an invite"),
    "players revoke-invite": text("The owner revoked an invite"),
    "sessions revoke": text("{player} was signed out by the owner"),
    "owner claim": text("{player} is the owner now"),
}
"""By the name of the command; others have the sentence of the event."""


ACTS: Mapping[str, Text] = {
    "players approve": text("{player} was approved by {owner}"),
    "players reject": text("{owner} rejected a player who waited"),
    "players block": text("{player} was blocked by {owner}"),
    "players unblock": text("{player} was unblocked by {owner}"),
    "players note": text("{owner} wrote a note about {player}"),
    "players reset-link": text("{player} got a link for a new password from {owner}"),
    "players erase": text("{owner} deleted an account"),
    "players merge": text("{player} got all that another account had, from {owner}"),
    "players invite": text("{owner} made an invite"),
    "players revoke-invite": text("{owner} revoked an invite"),
    "sessions revoke": text("{player} was signed out by {owner}"),
    "saves restore": text("{player} got an earlier version of a save back from {owner}"),
    "saves undelete": text("{player} got a deleted save back from {owner}"),
    "assets set-channel": text("{owner} pointed a channel at another release"),
    "assets rollback": text("{owner} rolled a channel back"),
    "backup": text("{owner} made a backup"),
}
"""The sentences of what the owner did on the page, by the name of the command that does the same; others have ACT."""
ACT = text("{owner} changed something on the page: {command}")


def sentence_of(event: EventCount, names: Mapping[str, str | None], labels: Mapping[str, str]) -> Text:
    """Return what happened; `names` are those of players by id, `labels` those of providers."""
    values, player_id = event.values, event.key.player_id
    provider = values.get("provider", LOCAL)
    filled: dict[str, object] = {
        "command": values.get("command", "?"),
        "value": values.get("value", "?"),
        "database": values.get("database", "?"),
        "event": event.key.event,
        "player": (names[player_id] or NAMELESS) if player_id in names else DELETED,
        "owner": (names[owner] or NAMELESS) if (owner := owner_of(values)) in names else DELETED,
        "provider": LOCAL_WAY if provider == LOCAL else WAYS.get(provider) or labels.get(provider, provider),
    }
    return Text(_sentence(event.key.event, values, known=bool(player_id)).source, filled)


def _sentence(event: str, values: Mapping[str, str], *, known: bool) -> Text:
    """Return the sentence of an event; `known`: it is about a player."""
    match event:
        case SecurityEvent.SIGN_IN if values.get("created") == "yes":
            return CREATED
        case SecurityEvent.SIGN_IN_REFUSED:
            outcome = values.get("outcome", "")
            of_player = REFUSED_PLAYER.get(outcome) if known else None
            unknown = WRONG_PASSWORD if outcome == "wrong_password" else EVENTS[SecurityEvent.SIGN_IN_REFUSED]
            return of_player or REFUSED.get(outcome, unknown)
        case SecurityEvent.SIGNED_OUT:
            return SCOPES.get(values.get("scope", ""), EVENTS[SecurityEvent.SIGNED_OUT])
        case SecurityEvent.COMMAND if owner_of(values):
            return ACTS.get(values.get("command", ""), ACT)
        case SecurityEvent.COMMAND:
            other = COMMAND_FOR if known else EVENTS[SecurityEvent.COMMAND]
            return COMMANDS.get(values.get("command", ""), other)
        case _ if event in EVENTS:
            return EVENTS[SecurityEvent(event)]
        case _:
            return UNKNOWN
