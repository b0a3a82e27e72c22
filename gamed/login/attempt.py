"""An authorization attempt is one redirect of one browser to a provider; the server stores it sealed (SPEC 2.3)."""

from enum import Enum

from msgspec import Struct

from gamed.crypto import ENTROPY_BYTES, ID_BYTES, Index, Keys, Purpose, Random, Secret, base64url, public_id
from gamed.login.transaction import LoginTransaction
from gamed.providers.base import AuthorizationRequest
from gamed.providers.messages import challenge_of, generate_nonce, generate_verifier
from gamed.structs import redacts

LIVE_ATTEMPTS = 5
"""The open attempts of one login; a sixth replaces the oldest."""


class AttemptStatus(Enum):
    """The status of an attempt; only an open one can be exchanged."""

    OPEN = "open"
    USED = "used"
    """Its callback was the first of the login."""
    INVALIDATED = "invalidated"
    """Its callback named another provider or issuer."""


@redacts("state_index", "browser_index", "sealed_verifier", "sealed_nonce")
class AuthorizationAttempt(Struct, frozen=True):
    """An attempt as it is stored: an index of the state, sealed verifier and nonce, both deleted once it is closed."""

    attempt_id: str
    state_index: Index
    login_id: str
    browser_index: Index
    """The browser that was redirected; only this one may bring the callback."""
    provider: str
    iss_promised: bool
    """The callback must name the issuer (RFC 9207)."""
    created_ms: int
    status: AttemptStatus = AttemptStatus.OPEN
    sealed_verifier: bytes | None = None
    sealed_nonce: bytes | None = None
    player_id: str | None = None
    """The player whose name and password were typed before, when a local account is adopted."""

    def unseal(self, keys: Keys) -> tuple[Secret, str | None]:
        """Return the PKCE verifier and the nonce, None for a provider without; raise DecryptionFailed."""
        verifier = Secret(keys.sealer.unseal(Purpose.PKCE, self.attempt_id, self.sealed_verifier or b""))
        if self.sealed_nonce is None:
            return verifier, None
        return verifier, keys.sealer.unseal(Purpose.NONCE, self.attempt_id, self.sealed_nonce).decode()


@redacts("state", "nonce")
class AttemptSecrets(Struct, frozen=True):
    """The new state, PKCE verifier and nonce of one attempt."""

    state: str
    verifier: Secret
    nonce: str | None

    @classmethod
    def generate(cls, random: Random, uses_nonce: bool) -> "AttemptSecrets":
        """Return a state of 256 bits, a verifier of 86 characters, and for OpenID Connect a nonce."""
        state = base64url(random(ENTROPY_BYTES))
        return cls(state, generate_verifier(random), generate_nonce(random) if uses_nonce else None)

    def authorization_request(self, redirect_uri: str, *, ask_again: bool) -> AuthorizationRequest:
        return AuthorizationRequest(self.state, challenge_of(self.verifier), self.nonce, redirect_uri, ask_again)

    def attempt(
        self,
        keys: Keys,
        random: Random,
        login: LoginTransaction,
        browser: Index,
        *,
        iss_promised: bool,
        player_id: str | None,
        now_ms: int,
    ) -> AuthorizationAttempt:
        """Return the attempt to store, with these secrets sealed."""
        attempt_id, seal = public_id("att", random(ID_BYTES)), keys.sealer.seal
        return AuthorizationAttempt(
            attempt_id=attempt_id,
            state_index=keys.indexer.index(Purpose.STATE, self.state.encode()),
            login_id=login.login_id,
            browser_index=browser,
            provider=login.provider,
            iss_promised=iss_promised,
            created_ms=now_ms,
            sealed_verifier=seal(Purpose.PKCE, attempt_id, self.verifier.reveal()),
            sealed_nonce=None if self.nonce is None else seal(Purpose.NONCE, attempt_id, self.nonce.encode()),
            player_id=player_id,
        )
