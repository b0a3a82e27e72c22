"""An example of a login, and random bytes that repeat per test."""

from itertools import count

from msgspec.structs import replace

from gamed.crypto import Index, Keys, Secret
from gamed.login.transaction import FINAL, ClientInfo, LoginIntent, LoginStage, LoginTransaction, ProofMethod

START_MS = 1_800_000_000_000
TTL_MS = 600_000
BROWSER = Index(b"b" * 32)
OTHER = Index(b"o" * 32)


class CountingRandom:
    """A random source that never repeats bytes and always returns the same sequence."""

    def __init__(self) -> None:
        self._drawn = count(1)

    def __call__(self, size: int) -> bytes:
        return next(self._drawn).to_bytes(size, "big")


def keys() -> Keys:
    return Keys.of(Secret(b"k" * 32), CountingRandom())


def a_login(stage: LoginStage = LoginStage.PENDING, stage_ms: int = START_MS, **changes: object) -> LoginTransaction:
    """Return a login in this stage, with all that the stage may hold."""
    login = LoginTransaction(
        login_id="lgn_example",
        secret_index=Index(b"s" * 32),
        token_index=Index(b"t" * 32),
        intent=LoginIntent.LOGIN,
        provider="local",
        client=ClientInfo(name="MyGame"),
        return_proof=ProofMethod.CODE,
        loopback_port=None,
        address_index=Index(b"a" * 32),
        created_ms=START_MS,
        expires_ms=START_MS + TTL_MS,
        stage_ms=stage_ms,
        stage=stage,
    )
    if stage in (LoginStage.EXCHANGING, LoginStage.READY, LoginStage.DELIVERED):
        login = replace(login, browser_index=BROWSER)
    if stage is LoginStage.READY:
        login = replace(login, sealed_identity=b"identity", sealed_proof=b"proof")
    if stage is LoginStage.DELIVERED:
        login = replace(login, session_id="ses_example", sealed_result=b"result")
    assert stage not in FINAL or login.sealed_identity is None
    return replace(login, **changes)
