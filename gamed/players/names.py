"""Names and passwords of local accounts: which may be chosen, and when two names are one (SPEC 1.3 `local`).

What signs in as a player, and which of it may be taken away (PROTOCOL 3.8).
"""

from collections.abc import Iterable
from unicodedata import category, normalize

from msgspec import Struct

from gamed.crypto import Index, Indexer, Purpose, Random, Secret
from gamed.players.errors import NameMalformed, PasswordMalformed
from gamed.structs import redacts
from gamed.tokens import ID_BYTES, public_id

NAME_CHARACTERS = 32
COMPOSED_OF = 4
"""No character of NFC or NFKC is composed of more code points (UAX 15), so no longer text can become short enough."""
PASSWORD_MIN, PASSWORD_MAX = 8, 128
NAME_RULE = f"A name is 1 to {NAME_CHARACTERS} letters, digits, dots, underscores or hyphens."
PASSWORD_RULE = f"A password is {PASSWORD_MIN} to {PASSWORD_MAX} characters."
_PUNCTUATION = frozenset("._-")
_INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""Letters and marks that show nothing, by which two names could look the same (Default_Ignorable_Code_Point)."""


def parse_name(text: str) -> str:
    """Return the name as it is kept and shown: its NFKC form, with full-width letters made plain; raise NameMalformed.

    The length is checked before the text is normalised, which takes time with the square of it.
    """
    text = text.strip(" ")
    if len(text) > COMPOSED_OF * NAME_CHARACTERS:
        raise NameMalformed(NAME_RULE)
    name = normalize("NFKC", text).strip(" ")
    if not 1 <= len(name) <= NAME_CHARACTERS or not _well_formed(name) or not _well_formed(fold(name)):
        raise NameMalformed(NAME_RULE)
    return name


def _well_formed(name: str) -> bool:
    """Letters, decimal digits and `._-`; a mark only behind a letter or mark, as many scripts need it."""
    before = ""
    if not _INVISIBLE.isdisjoint(name):
        return False
    for character in name:
        kind = category(character)
        allowed = kind[0] == "L" or kind == "Nd" or character in _PUNCTUATION
        if not allowed and not (kind in ("Mn", "Mc") and before in ("L", "M")):
            return False
        before = kind[0]
    return True


def fold(name: str) -> str:
    """What two names have in common when they are one: NFKC, case folding, NFKC (Unicode 3.13, D145)."""
    return normalize("NFKC", normalize("NFKC", name).casefold())


def fold_typed(text: str) -> str:
    """Return what a text typed as a name has in common with every other spelling of that name, for counting tries.

    Of a text that is too long for a name only the beginning is kept, which is too long for a name as well.
    """
    return fold(text.strip()[: COMPOSED_OF * NAME_CHARACTERS + 1]).strip()


def name_index(indexer: Indexer, name: str) -> Index:
    """Where an account of this name is found; any spelling that folds to the same."""
    return indexer.index(Purpose.ACCOUNT_NAME, fold(name).encode())


def parse_password(text: str) -> Secret:
    """Return the password's bytes in NFC, so that it is the same from every keyboard; raise PasswordMalformed."""
    if len(text) > COMPOSED_OF * PASSWORD_MAX:
        raise PasswordMalformed(PASSWORD_RULE)
    password = normalize("NFC", text)
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise PasswordMalformed(PASSWORD_RULE)
    try:
        return Secret(password.encode())
    except UnicodeEncodeError:
        raise PasswordMalformed(PASSWORD_RULE) from None  # the cause would show the password


def new_player_id(random: Random) -> str:
    return public_id("ply", random(ID_BYTES))


LOCAL = "local"
"""What stands for a provider where a name and a password of this server sign in."""


@redacts("realm")
class SignInMethod(Struct, frozen=True):
    """One line of a player's list; instants in epoch milliseconds."""

    provider: str
    """Its name in the file when it was linked, or LOCAL."""
    linked_ms: int
    last_used_ms: int
    realm: Index | None = None
    """What gave it (gamed.providers.discovery); None: this server."""


class SignInMethods(Struct, frozen=True):
    """What the owner's configuration lets sign in."""

    local: bool
    realms: frozenset[Index] = frozenset()

    def open_to(self, identity: SignInMethod) -> bool:
        """A provider that was taken out, or has another issuer now, signs nobody in."""
        return self.local if identity.realm is None else identity.realm in self.realms


def is_last(identities: Iterable[SignInMethod], provider: str, ways: SignInMethods) -> bool:
    """Whether nothing that can sign in would be left without this one."""
    return not any(ways.open_to(identity) for identity in identities if identity.provider != provider)
