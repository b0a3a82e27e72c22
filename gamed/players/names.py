"""Local accounts have rules for names and passwords, and two names can be one (SPEC 1/5 `local`).

A display name has rules of its own: games show it, and it signs in no player. A player also has sign-in methods, the
last of which must not be unlinked (docs/protocol.md: Accounts).
"""

from collections.abc import Iterable, Mapping
from unicodedata import category, normalize

from msgspec import Struct

from gamed.crypto import ID_BYTES, Index, Indexer, Purpose, Random, Secret, public_id
from gamed.players.errors import DisplayNameInvalid, NameMalformed, PasswordMalformed
from gamed.structs import redacts
from gamed.visible_text import BLANK, EMOJI_STYLE, INVISIBLE, without_joiners, without_stray_joiners

NAME_CHARACTERS = 32
COMPOSED_OF = 4
"""No character of NFC or NFKC is composed of more code points (UAX 15), so no longer text can become short enough."""
PASSWORD_MIN, PASSWORD_MAX = 8, 128
NAME_RULE = f"A name is 1 to {NAME_CHARACTERS} letters, digits, dots, underscores or hyphens."
DISPLAY_NAME_RULE = f"A name is 1 to {NAME_CHARACTERS} visible characters, such as letters, digits, spaces or emoji."
PASSWORD_RULE = f"A password is {PASSWORD_MIN} to {PASSWORD_MAX} characters."
_PUNCTUATION = frozenset("._-")


def parse_name(text: str) -> str:
    """Return the name as it is stored and shown, in NFKC, which narrows full-width letters; raise NameMalformed.

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
    """Return whether a name has only letters, decimal digits, `._-`, and marks.

    A mark may only follow a letter or another mark, as many scripts need it.
    """
    before = ""
    if not INVISIBLE.isdisjoint(name):
        return False
    for character in name:
        kind = category(character)
        allowed = kind[0] == "L" or kind == "Nd" or character in _PUNCTUATION
        if not allowed and not (kind in ("Mn", "Mc") and before in ("L", "M")):
            return False
        before = kind[0]
    return True


_MAX_MARKS = 4
"""More marks on one letter would cover the lines above and below it."""


def parse_display_name(text: str) -> str:
    """Return the display name in NFC, each run of spaces as one space (RFC 8266 2.1); raise DisplayNameInvalid.

    Controls, lone surrogates, bidirectional and other format characters are refused, and what is shown as nothing, but
    for joiners that a script or an emoji needs. The length is checked before the text is normalised, which takes time
    with the square of it.
    """
    text = text.strip(" ")
    if len(text) > COMPOSED_OF * NAME_CHARACTERS:
        raise DisplayNameInvalid(DISPLAY_NAME_RULE)
    name = "".join(" " if category(character) == "Zs" else character for character in text).replace(EMOJI_STYLE, "")
    name = normalize("NFC", " ".join(name.split())) if without_joiners(name).isprintable() else ""
    shown = 1 <= len(name) <= NAME_CHARACTERS and BLANK.isdisjoint(name) and not _stacks_marks(without_joiners(name))
    if not shown or without_stray_joiners(name) != name:
        raise DisplayNameInvalid(DISPLAY_NAME_RULE)
    return name


def _stacks_marks(name: str) -> bool:
    """Return whether a mark has no character to stand on, or too many stand on one."""
    marks = _MAX_MARKS
    for character in name:
        marks = marks + 1 if category(character)[0] == "M" else 0
        if marks > _MAX_MARKS:
            return True
        if character == " ":
            marks = _MAX_MARKS
    return False


def fold(name: str) -> str:
    """Fold a name by NFKC, case folding, NFKC: names with equal results are one name (Unicode 3.13, D145)."""
    return normalize("NFKC", normalize("NFKC", name).casefold())


def fold_typed(text: str) -> str:
    """Fold a text that a person typed as a name, so that sign-in attempts are counted for all its spellings together.

    A text that is too long for a name is cut to a length that is still too long for a name.
    """
    return fold(text.strip()[: COMPOSED_OF * NAME_CHARACTERS + 1]).strip()


def name_index(indexer: Indexer, name: str) -> Index:
    """Return the index of the account of this name, the same for every spelling that folds to the same text."""
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
"""The provider's name of a sign-in with a name and a password of this server."""


@redacts("namespace")
class SignInMethod(Struct, frozen=True):
    """An account that signs in as a player, at a provider or on this server; instants in epoch milliseconds."""

    provider: str
    """The provider's name in authentication.json when the account was linked, or LOCAL."""
    linked_ms: int
    last_used_ms: int
    namespace: Index | None = None
    """The index of the provider's IdentityNamespace (gamed.providers.base); None for this server."""


class OtherWays(Struct, frozen=True):
    """The ways to sign in beside passwords and providers: whether there are passkeys, and recovery codes."""

    passkeys: bool
    codes: bool


class SignInMethods(Struct, frozen=True):
    """The sign-in methods that the configuration enables."""

    local: bool
    namespaces: frozenset[Index] = frozenset()
    names: Mapping[str, Index] = {}
    """The namespaces by the providers' names in the configuration, which may have been others before."""

    def is_enabled(self, method: SignInMethod) -> bool:
        """Return whether a player can sign in by this method: its provider is configured, with the same issuer."""
        return self.local if method.namespace is None else method.namespace in self.namespaces


def names_of_others(methods: Iterable[SignInMethod], gone: SignInMethod, enabled: SignInMethods) -> frozenset[str]:
    """Return the providers' names that a session can only have from another method than `gone`.

    A session keeps the name that its provider had at the sign-in. A name does not count if an account in the namespace
    of `gone` was linked under it, or would sign in under it now.
    """
    return frozenset(
        each.provider
        for each in methods
        if each.provider != gone.provider
        and (gone.namespace is None or gone.namespace not in (each.namespace, enabled.names.get(each.provider)))
    )


def is_last(methods: Iterable[SignInMethod], provider: str, enabled: SignInMethods) -> bool:
    """Return whether the player could not sign in without this provider."""
    return not any(enabled.is_enabled(method) for method in methods if method.provider != provider)
