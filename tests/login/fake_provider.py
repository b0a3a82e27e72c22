"""A small fake provider that records its requests and answers when the test says so."""

from typing import Any
from urllib.parse import urlencode

from msgspec import Struct, field
from twisted.internet.defer import Deferred, fail, succeed

from gamed.crypto import Secret
from gamed.providers.base import AuthorizationRequest, AuthorizationUrl, ExternalIdentity, ProviderFailure
from gamed.providers.messages import challenge_of

ISSUER = "https://id.example"


class FakeProvider(Struct, eq=False):
    """A fake provider, with OpenID Connect if it has an issuer; a code is `<subject>|<anything>`."""

    name: str = "discord"
    label: str = "Discord"
    issuer: str | None = None
    iss_promised: bool = False
    down: ProviderFailure | None = None
    """Raised wherever the browser would be sent."""
    failure: BaseException | None = None
    """Raised instead of an identity."""
    holding: bool = False
    """Whether answers wait for answer()."""
    requests: list[AuthorizationRequest] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    _held: list[tuple["Deferred[ExternalIdentity]", ExternalIdentity]] = field(default_factory=list)

    @property
    def uses_nonce(self) -> bool:
        return self.issuer is not None

    @property
    def uses_assertion(self) -> bool:
        return False

    def issuer_for(self, iss: str | None) -> str | None:
        return self.issuer

    def require_available(self) -> None:
        if self.down is not None:
            raise self.down

    async def authorization_url(self, request: AuthorizationRequest) -> AuthorizationUrl:
        self.requests.append(request)
        return AuthorizationUrl(
            f"https://far.example/authorize?{urlencode({'state': request.state})}", self.iss_promised
        )

    def identify(
        self,
        code: Secret,
        verifier: Secret,
        nonce: str | None,
        redirect_uri: str,
        login_id: str,
        *,
        asked_ms: int | None = None,
    ) -> "Deferred[ExternalIdentity]":
        """Check that the verifier belongs to a request and that each code is used once, as a real provider does."""
        self.calls.append({"code": code.reveal(), "nonce": nonce, "redirect_uri": redirect_uri, "login_id": login_id})
        assert asked_ms is None, "only a sign-in to the account's page asks again"
        request = next(each for each in self.requests if each.challenge == challenge_of(verifier))
        assert (request.nonce, request.redirect_uri) == (nonce, redirect_uri)
        assert [call["code"] for call in self.calls].count(code.reveal()) == 1, "a code was sent twice"
        if self.failure is not None:
            return fail(self.failure)
        subject = code.reveal().decode().partition("|")[0]
        identity = ExternalIdentity("oidc" if self.issuer else "oauth2", self.issuer or "https://far.example", subject)
        if not self.holding:
            return succeed(identity)
        answer: Deferred[ExternalIdentity] = Deferred()
        self._held.append((answer, identity))
        return answer

    def answer(self, failure: BaseException | None = None) -> None:
        """Answer the oldest waiting call."""
        answer, identity = self._held.pop(0)
        if failure is None:
            answer.callback(identity)
        else:
            answer.errback(failure)
