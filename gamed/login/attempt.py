"""One trip of one browser to the provider: what it takes along, and what the server keeps of it (SPEC 2.3)."""

from enum import Enum

from msgspec import Struct

from gamed.crypto import Index, Indexer, Keys, Purpose, Random, Secret
from gamed.login.transaction import LoginTransaction
from gamed.providers.base import AuthorizationRequest
from gamed.providers.messages import challenge_of, make_nonce, make_verifier
from gamed.structs import redacts
from gamed.tokens import ENTROPY_BYTES, ID_BYTES, base64url, public_id

LIVE_ATTEMPTS = 5
"""Of one login; the oldest is dropped for a sixth (PROTOCOL 3.2)."""


class AttemptStatus(Enum):
    OPEN = "open"
    USED = "used"
    """Its callback has come, and won."""
    BURNED = "burned"
    """Its callback has come and was not what the provider would have sent."""


@redacts("state_index", "browser_index", "sealed_verifier", "sealed_nonce")
class AuthorizationAttempt(Struct, frozen=True):
    """As it is kept: the state only as an index, verifier and nonce only sealed, both gone once it is not open."""

    attempt_id: str
    state_index: Index
    login_id: str
    browser_index: Index
    """The browser that was sent; no other may bring the callback."""
    provider: str
    iss_promised: bool
    """Whether the callback must name the issuer (RFC 9207)."""
    created_ms: int
    status: AttemptStatus = AttemptStatus.OPEN
    sealed_verifier: bytes | None = None
    sealed_nonce: bytes | None = None
    player_id: str | None = None
    """To adopt an account: whose name and password were typed before this browser was sent."""

    def verifier(self, keys: Keys) -> Secret:
        """SealBroken when it is gone, or not this attempt's."""
        return Secret(keys.sealer.unseal(Purpose.PKCE, self.attempt_id, self.sealed_verifier or b""))

    def nonce(self, keys: Keys) -> str | None:
        """None for a provider without; SealBroken as above."""
        if self.sealed_nonce is None:
            return None
        return keys.sealer.unseal(Purpose.NONCE, self.attempt_id, self.sealed_nonce).decode()


@redacts("state", "nonce")
class AttemptSecrets(Struct, frozen=True):
    """Fresh values of one attempt, before it is known where the provider wants the browser."""

    state: str
    verifier: Secret
    nonce: str | None

    @classmethod
    def fresh(cls, random: Random, uses_nonce: bool) -> "AttemptSecrets":
        """A state of 256 bits, a verifier of 86 characters, a nonce where the provider signs one (OpenID Connect)."""
        state = base64url(random(ENTROPY_BYTES))
        return cls(state, make_verifier(random), make_nonce(random) if uses_nonce else None)

    def journey(self, redirect_uri: str) -> AuthorizationRequest:
        return AuthorizationRequest(self.state, challenge_of(self.verifier), self.nonce, redirect_uri)

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
        attempt_id, seal = public_id("att", random(ID_BYTES)), keys.sealer.seal
        return AuthorizationAttempt(
            attempt_id=attempt_id,
            state_index=state_index(keys.indexer, Secret(self.state.encode())),
            login_id=login.login_id,
            browser_index=browser,
            provider=login.provider,
            iss_promised=iss_promised,
            created_ms=now_ms,
            sealed_verifier=seal(Purpose.PKCE, attempt_id, self.verifier.reveal()),
            sealed_nonce=None if self.nonce is None else seal(Purpose.NONCE, attempt_id, self.nonce.encode()),
            player_id=player_id,
        )


def state_index(indexer: Indexer, state: Secret) -> Index:
    return indexer.index(Purpose.STATE, state.reveal())


def redirect_uri(base: str, provider: str) -> str:
    """Exactly this must be registered at the provider (SPEC 4.2)."""
    return f"{base}/auth/{provider}/callback"
