"""An OpenID 2.0 provider signs an assertion of who the player is, and confirms it when asked directly (Steam).

See OpenID Authentication 2.0; docs/internals/threats.md: Providers. The endpoint of the provider is the configured one,
never one that an assertion or a page names, so that there is no discovery (section 7.3). Nor is there an association
(section 8): its keys would have to be kept and agreed on by Diffie-Hellman, to save one request a sign-in.
"""

from collections.abc import Mapping
from datetime import datetime
from re import ASCII, compile
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from gamed.config.model import Provider
from gamed.crypto import Secret
from gamed.providers.base import (
    AuthorizationRequest,
    AuthorizationUrl,
    ExternalIdentity,
    ProviderError,
    ServerClockSkew,
)
from gamed.providers.circuit_breaker import CircuitBreaker
from gamed.providers.client import ProviderHttpClient
from gamed.providers.discovery import identity_namespace
from gamed.providers.messages import ProviderRequest, ProviderResponse
from gamed.timestamps import Now

NAMESPACE = "http://specs.openid.net/auth/2.0"
SELECT = f"{NAMESPACE}/identifier_select"
SIGNED = frozenset({"op_endpoint", "return_to", "response_nonce", "assoc_handle", "claimed_id", "identity"})
"""The fields that must be signed (section 10.1)."""
FIELDS = SIGNED | {"ns", "mode", "signed", "sig"}
"""The fields of an assertion; `invalidate_handle` is for associations, and extensions are not asked for."""
NONCE_SECONDS = 300
_ACCOUNT = compile(r"[0-9]{17}", ASCII)
_NONCE = compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z[!-~]{1,235}", ASCII)
_VISIBLE = compile(r"[!-~]{1,2048}", ASCII)
_KEY = compile(r"[a-z_]{1,64}", ASCII)


class OpenId2Provider:
    """A provider without a registration: it has neither a client id nor a secret, and no code to redeem."""

    uses_nonce = False
    uses_assertion = True

    def __init__(self, settings: Provider, client: ProviderHttpClient, breaker: CircuitBreaker, now_ms: Now) -> None:
        self.name = settings.name
        self.label = settings.label
        self._endpoint = settings.authorization_endpoint or ""
        self._namespace = identity_namespace(settings)
        self._client = client
        self._breaker = breaker
        self._now_ms = now_ms

    def issuer_for(self, iss: str | None) -> None:
        return None

    def require_available(self) -> None:
        self._breaker.require_closed()

    async def authorization_url(self, request: AuthorizationRequest) -> AuthorizationUrl:
        """Return the address of the authentication request (section 9.1)."""
        parameters = {
            "openid.ns": NAMESPACE,
            "openid.mode": "checkid_setup",
            "openid.claimed_id": SELECT,
            "openid.identity": SELECT,
            "openid.return_to": return_address(request.redirect_uri, request.state),
            "openid.realm": urljoin(request.redirect_uri, "/"),
        }
        query = "&".join(filter(None, (urlsplit(self._endpoint).query, urlencode(parameters))))
        return AuthorizationUrl(urlsplit(self._endpoint)._replace(query=query).geturl(), iss_promised=False)

    async def identify(
        self,
        code: Secret,
        verifier: Secret,
        nonce: str | None,
        redirect_uri: str,
        login_id: str,
        *,
        asked_ms: int | None = None,
    ) -> ExternalIdentity:
        """Return the account of an assertion, which is in the place of a code, once the provider has confirmed it.

        Its response_nonce counts once (section 11.3): return_to is signed, and its state finds an attempt once.
        """
        until = self._client.deadline()
        state, fields = read_fields(code)
        account = validate_assertion(
            fields, self._endpoint, return_address(redirect_uri, state), self._namespace.namespace
        )
        response = await self._client.call(check_request(self._endpoint, fields, login_id), until)
        validate_confirmation(response)
        validate_time(fields["response_nonce"], self._now_ms(), response.offset_ms)
        return ExternalIdentity(self._namespace.kind, self._namespace.namespace, account)


def return_address(redirect_uri: str, state: str) -> str:
    """Return the address to which the provider sends the browser back, which it signs."""
    return f"{redirect_uri}?{urlencode({'state': state})}"


def read_fields(assertion: Secret) -> tuple[str, dict[str, str]]:
    """Return the state, and the fields of an assertion without their prefix; raise ProviderError.

    `assertion` is a query in which no name is repeated (gamed.login.callback_rules).
    """
    sent = dict(parse_qsl(assertion.reveal().decode(), keep_blank_values=True))
    state = sent.pop("state", "")
    fields = {name.removeprefix("openid."): value for name, value in sent.items()}
    if fields.keys() != FIELDS or not all(map(_VISIBLE.fullmatch, fields.values())):
        raise ProviderError("assertion: not the fields of a positive assertion")
    return state, fields


def validate_assertion(fields: Mapping[str, str], endpoint: str, return_to: str, claimed_ids: str) -> str:
    """Return the account, 17 digits; raise ProviderError. The signature is not verified yet (section 11.1, 11.2)."""
    if fields["ns"] != NAMESPACE or fields["mode"] != "id_res":
        raise ProviderError("assertion: not of OpenID 2.0, or not positive")
    if fields["op_endpoint"] != endpoint:
        raise ProviderError("assertion: op_endpoint is another provider")
    if fields["return_to"] != return_to:
        raise ProviderError("assertion: return_to is not the address of this sign-in")
    signed = fields["signed"].split(",")
    if len(set(signed)) != len(signed) or not SIGNED <= set(signed) <= FIELDS:
        raise ProviderError("assertion: a field is not signed")
    claimed, account = fields["claimed_id"], fields["claimed_id"].removeprefix(claimed_ids)
    if claimed != fields["identity"] or claimed == account or not _ACCOUNT.fullmatch(account):
        raise ProviderError("assertion: claimed_id is not an account of this provider")
    if not _NONCE.fullmatch(fields["response_nonce"]):
        raise ProviderError("assertion: response_nonce does not begin with a time")
    return account


def check_request(endpoint: str, fields: Mapping[str, str], login_id: str) -> ProviderRequest:
    """Return the request that asks the provider whether it signed these fields, unchanged (section 11.4.2.1)."""
    form = {f"openid.{name}": value for name, value in {**fields, "mode": "check_authentication"}.items()}
    headers = {"Content-Type": Secret(b"application/x-www-form-urlencoded"), "Accept": Secret(b"text/plain, */*")}
    return ProviderRequest(
        "authorization_endpoint",
        "POST",
        endpoint,
        headers,
        Secret(urlencode(form).encode()),
        repeatable=False,
        login_id=login_id,
        parse=parse_key_values,
    )


def parse_key_values(body: bytes) -> dict[str, object]:
    """Return the members of the Key-Value Form (section 4.1.1); raise ValueError for lines of another form."""
    members: dict[str, object] = {}
    for line in body.decode("utf-8").removesuffix("\n").split("\n"):
        key, colon, value = line.partition(":")
        if not colon or not _KEY.fullmatch(key) or key in members:
            raise ValueError("not the Key-Value Form of OpenID 2.0")
        members[key] = value
    return members


def validate_confirmation(response: ProviderResponse) -> None:
    """Raise ProviderError unless the provider has confirmed that it signed the assertion (section 11.4.2.2)."""
    if response.status != 200:
        raise ProviderError(f"{response.setting}: answered {response.status}")
    if response.members.get("ns") != NAMESPACE or response.members.get("is_valid") != "true":
        raise ProviderError(f"{response.setting}: the provider did not sign this assertion, or confirmed it before")


def validate_time(nonce: str, now_ms: int, offset_ms: int | None) -> None:
    """Raise ProviderError unless the time in a nonce is within five minutes (section 11.3).

    `offset_ms` is the provider's clock minus ours, if known: raise ServerClockSkew if only this machine's is wrong.
    """
    try:
        made_ms = round(datetime.fromisoformat(f"{nonce[:19]}+00:00").timestamp()) * 1000
    except ValueError:
        raise ProviderError("assertion: response_nonce does not begin with a time") from None
    if abs(now_ms - made_ms) <= NONCE_SECONDS * 1000:
        return
    if offset_ms is not None and abs(now_ms + offset_ms - made_ms) <= NONCE_SECONDS * 1000:
        seconds, direction = abs(offset_ms) // 1000, "behind" if offset_ms > 0 else "ahead of"
        raise ServerClockSkew(f"assertion: this machine's clock is {seconds} s {direction} the provider's; correct it")
    raise ProviderError("assertion: response_nonce is older or newer than five minutes")
