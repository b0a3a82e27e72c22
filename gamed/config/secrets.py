"""A secret comes from a variable, from the file that its _FILE form names, or from a systemd credential (SPEC 2.2).

No text of this module shows any part of a secret, nor a name or path that may be one: people paste a secret where its
name belongs, and errors go to the journal, to issues and to chats.
"""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from re import ASCII, compile
from typing import TypeVar

from gamed.config.errors import InvalidValue, looks_random
from gamed.crypto import KEY_BYTES, Secret
from gamed.structs import Component

T = TypeVar("T")
ReadFile = Callable[[str], bytes]
"""A function that returns the content of a file; it raises OSError."""

MAX_PASSWORD_BYTES = 512
MAX_KEY_BYTES = 4096
CREDENTIALS = "CREDENTIALS_DIRECTORY"
_NAME = compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", ASCII)
_PLAIN_NAME = compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*", ASCII)
_BASE64 = compile(r"[A-Za-z0-9+/]*={0,2}", ASCII)
_CLIENT_SECRET = compile(r"[!-~]{1,512}", ASCII)
_HEX = compile(r"[0-9A-Fa-f]{64}", ASCII)


class SecretSources(Component, frozen=True, kw_only=True):
    """The environment, and the files that it names, as sources of secrets."""

    environ: Mapping[str, str]
    read_file: ReadFile

    def read(self, name: str, convert: Callable[[bytes], T]) -> tuple[T, str]:
        """Return the converted value that the variable `name` supplies, and where the value was found.

        Raise InvalidValue if there is none, or more than one, or if `convert` rejects it: the message then names the
        variable, the file or the credential.
        """
        found = [each for each in (self._variable(name), self._file(name), self._credential(name)) if each is not None]
        # An error even if they are equal: once one of them is changed, the other would win or lose unnoticed.
        if len(found) > 1:
            raise InvalidValue(f"{_shown_name(name)} is supplied twice; keep one of variable, _FILE and credential")
        if not found:
            raise InvalidValue(f"{_shown_name(name)} is not set; nor is its _FILE form, nor a credential of that name")
        [(value, origin)] = found
        try:
            return convert(value), origin
        except InvalidValue as e:
            raise InvalidValue(*(f"{origin}: {message}" for message in e.messages)) from None

    def _variable(self, name: str) -> tuple[bytes, str] | None:
        # An empty one counts as not set: Compose's `NAME: ${NAME}` sets it where the host has none. The error handler
        # gives back the bytes that os.environ decoded by it.
        value = self.environ.get(name)
        return (value.encode("utf-8", "surrogateescape"), _shown_name(name)) if value else None

    def _file(self, name: str) -> tuple[bytes, str] | None:
        path = self.environ.get(f"{name}_FILE")
        if not path:
            return None
        try:
            value = _without_newline(self.read_file(path))
        except OSError as e:  # the path is not shown: it may be the secret itself, in the wrong variable
            raise InvalidValue(
                f"the file that {_shown_name(name)}'s _FILE form names cannot be read: {e.strerror}"
            ) from None
        shown = path if path.isprintable() else ascii(path)
        return value, f"the file {shown} that {_shown_name(name)}'s _FILE form names"

    def _credential(self, name: str) -> tuple[bytes, str] | None:
        folder = self.environ.get(CREDENTIALS)
        if not folder:
            return None
        try:
            value = _without_newline(self.read_file(f"{folder}/{name}"))
        except FileNotFoundError:  # the folder is for all secrets of the service, and need not have this one
            return None
        except OSError as e:
            raise InvalidValue(f"the credential that {_shown_name(name)} names cannot be read: {e.strerror}") from None
        return value, f"the credential that {_shown_name(name)} names"


def variable_name(value: object) -> str:
    """Check the NAME of a variable; reject a value that looks like the secret itself, without showing it.

    The secret would be in a file that people copy and commit, so the message asks for a new one.
    """
    if not isinstance(value, str) or not value:
        raise InvalidValue('expected the name of an environment variable, such as "GAMED_MASTER_KEY"')
    if not _NAME.fullmatch(value) or looks_random(value) or _HEX.fullmatch(value):
        raise InvalidValue(
            'expected the NAME of an environment variable, such as "GAMED_MASTER_KEY", never the secret itself. '
            "If this was a real secret, make a new one"
        )
    if value.endswith("_FILE"):
        raise InvalidValue("expected the name without _FILE at its end; gamed finds that form by itself")
    return value


def master_key(raw: bytes) -> Secret:
    """Decode strict Base64 of 32 bytes (SPEC 2.2, RFC 4648 section 4)."""
    text = raw.decode("latin-1")  # which never fails, so that the errors below describe any bytes
    if text != text.strip():
        raise InvalidValue("the master key has white space around it")
    if _HEX.fullmatch(text):  # valid Base64, too, of 48 bytes: the message about their number would not help
        raise InvalidValue("the master key is hexadecimal; expected Base64, as `gamed key new` prints it")
    if not _BASE64.fullmatch(text):
        raise InvalidValue(
            "the master key is not Base64 (A-Z a-z 0-9 + / and = at the end), as `gamed key new` prints it"
        )
    try:
        key = b64decode(text, validate=True)
    except Error:
        raise InvalidValue("the master key is incomplete Base64; was a part or the = at its end lost?") from None
    if len(key) != KEY_BYTES:
        raise InvalidValue(f"the master key is {len(key)} bytes long; expected Base64 of exactly {KEY_BYTES} bytes")
    # The last character before the = has two bits that b64decode() ignores, so four texts would be one key.
    if b64encode(key).decode() != text:
        raise InvalidValue("the master key's last character is not what Base64 of 32 bytes ends with")
    return Secret(key)


def weak(key: Secret) -> str | None:
    """Return why a key of the right size is probably not random, or None if it seems random."""
    raw = key.reveal()
    if len(set(raw)) == 1:
        return "the master key is one byte repeated; make a random one with `gamed key new`"
    if raw.isascii() and raw.decode().isprintable():
        return "the master key is readable text, not random bytes; make one with `gamed key new`"
    return None


def client_secret(raw: bytes) -> Secret:
    """Check a client secret: visible ASCII without spaces (RFC 6749 A.2)."""
    if not _CLIENT_SECRET.fullmatch(raw.decode("latin-1")):
        raise InvalidValue("the client secret must be 1 to 512 visible ASCII characters, without spaces or line ends")
    return Secret(raw)


def signing_key(raw: bytes) -> Secret:
    """Check a private key that signs by ES256, in PEM without a password, as in a .p8 file (RFC 5958, RFC 7518 3.4)."""
    # Late: only a preset that signs its client secrets needs these, and few servers have one.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey

    try:
        key = load_pem_private_key(raw, None) if len(raw) <= MAX_KEY_BYTES else None
        if key is not None:  # the library that signs reads the file otherwise, such as with a public key in it, too
            jws.serialize_compact({"alg": "ES256"}, b"", ECKey.import_key(raw), ["ES256"])
    except (JoseError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise InvalidValue("the signing key is not the whole content of a .p8 file: PEM of an EC key on P-256")
    return Secret(raw)


def store_password(raw: bytes) -> Secret:
    """Check the password of a database's user: UTF-8 text on one line."""
    text = raw.decode("utf-8", "replace")
    if not 0 < len(raw) <= MAX_PASSWORD_BYTES or "\ufffd" in text or not text.isprintable():
        raise InvalidValue(
            f"the password must be 1 to {MAX_PASSWORD_BYTES} bytes of UTF-8, without control characters and line ends"
        )
    return Secret(raw)


def _without_newline(raw: bytes) -> bytes:
    """Remove the newline at the end of a file; a second one is part of the value, and makes it invalid."""
    return raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")


def _shown_name(name: str) -> str:
    """Return a variable's name for a message, unless it may be a secret, as any in small letters may."""
    return name if _PLAIN_NAME.fullmatch(name) and len(name) <= 64 else "the variable named here"
