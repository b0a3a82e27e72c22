"""The emulated Steam signs assertions of OpenID 2.0, and confirms each of them once (OpenID Authentication 2.0)."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha1
from hmac import compare_digest, new
from re import ASCII, compile
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from msgspec import Struct

from gamed.crypto import Random, base64url
from gamed.dev.clients import SamplePerson
from gamed.dev.grants import ResponseMode, UntrustedClient, drop_oldest
from gamed.timestamps import Now

NAMESPACE = "http://specs.openid.net/auth/2.0"
SELECT = f"{NAMESPACE}/identifier_select"
ORDER = ("signed", "op_endpoint", "claimed_id", "identity", "return_to", "response_nonce", "assoc_handle")
_STATE = compile(r"[A-Za-z0-9_-]{43}", ASCII)


class SteamRequest(Struct, frozen=True):
    """The parameters of a valid authentication request."""

    return_to: str
    realm: str


class SteamAssertions:
    """The issued assertions; `endpoint` is the address of this provider."""

    def __init__(self, endpoint: str, now_ms: Now, random: Random) -> None:
        self.endpoint = endpoint
        self._now_ms = now_ms
        self._random = random
        self._key = random(20)
        self._modes: dict[str, ResponseMode] = {}
        """The nonces that are not confirmed yet, the newest ones."""

    def validate(self, query: str) -> SteamRequest:
        """Validate the query of an authentication request (section 9.1); raise UntrustedClient."""
        pairs = parse_qsl(query, keep_blank_values=True)
        sent = {name.removeprefix("openid."): value for name, value in pairs}
        expected = {"ns": NAMESPACE, "mode": "checkid_setup", "claimed_id": SELECT, "identity": SELECT}
        for name, value in expected.items():
            if sent.get(name) != value:
                raise UntrustedClient(f"openid.{name} must be {value}")
        if len(pairs) != 6 or sent.keys() != {*expected, "return_to", "realm"}:
            raise UntrustedClient("A parameter is unknown, or is there twice.")
        return_to, realm = sent["return_to"], sent["realm"]
        state = dict(parse_qsl(urlsplit(return_to).query)).get("state", "")
        if not realm.endswith("/") or urljoin(realm, "/") != realm or not return_to.startswith(realm):
            raise UntrustedClient("openid.return_to is not below openid.realm.")
        if not _STATE.fullmatch(state):
            raise UntrustedClient("openid.return_to has no state.")
        return SteamRequest(return_to, realm)

    def answer(self, asked: SteamRequest, person: SamplePerson | None, mode: ResponseMode) -> str:
        """Return the callback: an assertion, or a cancellation if there is no person."""
        if person is None:
            return self._callback(asked, {"ns": NAMESPACE, "mode": "cancel"})
        made = datetime.fromtimestamp(self._now_ms() // 1000, UTC)
        claimed = urljoin(self.endpoint, "id/") + person.subjects["steam"]
        nonce = f"{made:%Y-%m-%dT%H:%M:%SZ}{base64url(self._random(18))}"
        fields = {
            "ns": NAMESPACE,
            "mode": "id_res",
            "op_endpoint": self.endpoint,
            "claimed_id": claimed,
            "identity": claimed,
            "return_to": asked.return_to,
            "response_nonce": nonce,
            "assoc_handle": "1234567890",
            "signed": ",".join(ORDER),
        }
        self._modes[nonce] = mode
        drop_oldest(self._modes)
        return self._callback(asked, {**fields, "sig": self._signature(fields)})

    def confirm(self, form: Mapping[str, str]) -> ResponseMode | None:
        """Return the response mode of an assertion that was issued unchanged and not confirmed yet, else None."""
        fields = {name.removeprefix("openid."): value for name, value in form.items()}
        if not compare_digest(fields.get("sig", "").encode(), self._signature(fields).encode()):
            return None
        return self._modes.pop(fields.get("response_nonce", ""), None)

    def _callback(self, asked: SteamRequest, fields: Mapping[str, str]) -> str:
        return f"{asked.return_to}&{urlencode({f'openid.{name}': value for name, value in fields.items()})}"

    def _signature(self, fields: Mapping[str, str]) -> str:
        """Return the HMAC-SHA1 of the signed fields in their order (section 6.1)."""
        signed = fields.get("signed", "").split(",")
        text = "".join(f"{name}:{fields.get(name, '')}\n" for name in signed)
        return b64encode(new(self._key, text.encode(), sha1).digest()).decode()


def confirmation(valid: bool) -> bytes:
    """Return the response of a direct verification in the Key-Value Form (section 11.4.2.2)."""
    return f"ns:{NAMESPACE}\nis_valid:{'true' if valid else 'false'}\n".encode()
