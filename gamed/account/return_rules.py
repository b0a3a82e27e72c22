"""After a sign-in a person is back where they were in their account, with what they had typed.

The server keeps nothing for it. It seals the place and the typed values into the form of the sign-in, for the browser
that gets it, then into the row of the login, and at the end into a cookie that the page reads once. So no address holds
what was typed, and a place is one of the account's own paths, which no link can choose.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from re import ASCII, compile
from typing import Final

import msgspec
from msgspec import Struct

from gamed.crypto import DecryptionFailed, Keys, Purpose, base64url
from gamed.saves.errors import SaveError
from gamed.saves.model import version_number
from gamed.saves.validation import check_slot
from gamed.timestamps import CLOCKS_MS

ACCOUNT: Final = "/auth/account"
SAVES: Final = f"{ACCOUNT}/saves"
DEVICES: Final = f"{ACCOUNT}/devices"
PASSKEYS: Final = f"{ACCOUNT}/passkeys"
NEW_PASSKEY: Final = f"{PASSKEYS}/new"
CODES: Final = f"{ACCOUNT}/codes"
TYPED: Final[Mapping[str, Sequence[str]]] = {
    "name": ["name"],
    "rename-device": ["device_name"],
    "rename-passkey": ["passkey_name"],
    "delete": ["word"],
    "adopt": ["old_account"],
}
"""The fields that are kept of each action's form; a password never is."""
TYPED_CHARACTERS: Final = 64
"""A longer text is not kept: no field of the account takes one, and the cookie stays small."""
KEPT_MS: Final = 3_600_000
"""A sign-in that begins later leads to the account."""
SEALED_CHARACTERS: Final = 4096
_PAGE = compile(rf"{SAVES}/([^/]{{1,64}})(?:/versions/([0-9]{{1,18}})(?:/delete)?|/delete|/keep)?", ASCII)
_SESSION = compile(r"ses_[A-Za-z0-9_-]{1,64}", ASCII)
_PASSKEY = compile(r"pky_[A-Za-z0-9_-]{22}", ASCII)
SECTIONS: Final[Mapping[str, str]] = {
    "sign-out-device": "devices",
    "sign-out-others": "devices",
    "bring-back": "saves",
    "link": "sign-in",
    "unlink": "sign-in",
    "adopt": "sign-in",
    "name": "profile",
    "password": "password",
    "delete": "delete",
}
"""The section of the account that has the form of an action."""
QUESTIONS: Final[Mapping[str, str]] = {"delete-save": "delete", "keep-current": "keep"}
"""The page of a save that has the form of an action."""


class AccountReturn(Struct, frozen=True):
    """A page of the account to which a sign-in leads back, and the texts of its form by field."""

    path: str
    """With the section after `#`."""
    made_ms: int
    player_id: str = ""
    """The only player for whom it is meant, "" if the server did not know the player."""
    refused: bool = False
    """An action was sent and not carried out."""
    typed: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "AccountReturn(...)"

    @property
    def section(self) -> str:
        """Return the section of the account, "" for another page."""
        return self.path.partition("#")[2]

    def seal(self, keys: Keys, row: str) -> str:
        """Return it for this browser, login or player alone, in the characters of a form or cookie."""
        return base64url(keys.sealer.seal(Purpose.RETURN, row, msgspec.json.encode(self)))

    @classmethod
    def unseal(cls, keys: Keys, row: str, sealed: str, now_ms: int) -> "AccountReturn | None":
        """Return what was sealed for the row; None for anything else, and for what is too old."""
        try:
            raw = urlsafe_b64decode(f"{sealed[:SEALED_CHARACTERS]}==")
            found = _DECODER.decode(keys.sealer.unseal(Purpose.RETURN, row, raw))
        except (DecryptionFailed, ValueError, msgspec.DecodeError):
            return None
        return found if found.made_ms - CLOCKS_MS <= now_ms < found.made_ms + KEPT_MS else None

    def is_for(self, player_id: str) -> bool:
        """Return whether it is meant for this player."""
        return self.player_id in ("", player_id)


_DECODER = msgspec.json.Decoder(AccountReturn)


def return_to_page(path: str, query: Mapping[str, str], now_ms: int) -> AccountReturn | None:
    """Return the place of a page that was asked for; None for the first page, and for what is no page."""
    if path == ACCOUNT:
        found = ((name, _slot(query.get(name, ""))) for name in ("after", "copied"))
        place = next((f"{name}={slot}" for name, slot in found if slot is not None), None)
        return None if place is None else AccountReturn(f"{ACCOUNT}?{place}#saves", now_ms)
    if path == f"{ACCOUNT}/export":
        return AccountReturn(f"{ACCOUNT}#saves", now_ms)
    if path in (NEW_PASSKEY, CODES):
        return AccountReturn(path, now_ms)
    if path.startswith(f"{PASSKEYS}/"):
        passkey = _passkey(path.removeprefix(f"{PASSKEYS}/"))
        return None if passkey is None else AccountReturn(passkey, now_ms)
    if path.startswith(f"{DEVICES}/"):
        device = _device(path.removeprefix(f"{DEVICES}/"))
        return None if device is None else AccountReturn(device, now_ms)
    match = _PAGE.fullmatch(path)
    slot = None if match is None else _slot(match[1])
    if match is None or slot is None:
        return None
    if path.endswith(("/delete", "/keep")):
        return AccountReturn(path, now_ms)
    before = version_number(query.get("before", "") or "0")
    return AccountReturn(f"{SAVES}/{slot}?before={before}" if before else f"{SAVES}/{slot}", now_ms)


def return_to_form(action: str, fields: Mapping[str, str], now_ms: int) -> AccountReturn:
    """Return the place of the page with the form of an action, and what was typed into it."""
    slot, number = _slot(fields.get("slot", "")), version_number(fields.get("version", "") or "0")
    if action in SECTIONS:
        path = f"{ACCOUNT}#{SECTIONS[action]}"
    elif action == "add-passkey":
        path = NEW_PASSKEY
    elif action == "make-codes":
        path = CODES
    elif action in ("rename-passkey", "remove-passkey"):
        path = _passkey(fields.get("passkey_id", "")) or ACCOUNT
    elif slot is None:
        path = (_device(fields.get("session_id", "")) if action == "rename-device" else None) or ACCOUNT
    elif action in QUESTIONS:
        path = f"{SAVES}/{slot}/{QUESTIONS[action]}"
    elif action == "dismiss" and number:
        path = f"{SAVES}/{slot}/versions/{number}/delete"
    else:
        path = f"{SAVES}/{slot}"
    typed = {name: fields.get(name, "") for name in TYPED.get(action, ())}
    typed = {name: value for name, value in typed.items() if 0 < len(value) <= TYPED_CHARACTERS}
    return AccountReturn(path, now_ms, refused=True, typed=typed)


def _device(session_id: str) -> str | None:
    return f"{DEVICES}/{session_id}" if _SESSION.fullmatch(session_id[:100]) else None


def _passkey(passkey_id: str) -> str | None:
    return f"{PASSKEYS}/{passkey_id}" if _PASSKEY.fullmatch(passkey_id[:100]) else None


def _slot(text: str) -> str | None:
    try:
        return check_slot(text)
    except SaveError:
        return None
