"""The JSON documents equal those of the real providers (OpenID Connect Discovery 3, Core 2; Discord's API v10).

They are discovery, tokens with ID tokens, the keys that verify them (RFC 7517), and the user.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from gamed.crypto import Secret, base64url
from gamed.dev.clients import KEY_ID, SIDES, TEAM_ID, Client, EmulatedProvider, SamplePerson

GOOGLE_AUTHORIZE, GOOGLE_TOKEN, GOOGLE_KEYS = "/o/oauth2/v2/auth", "/token", "/oauth2/v3/certs"
DISCORD_AUTHORIZE, DISCORD_TOKEN, DISCORD_USER = "/oauth2/authorize", "/api/v10/oauth2/token", "/api/v10/users/@me"
DISCOVERY = "/.well-known/openid-configuration"
SIDE = f"<any({', '.join(SIDES)}):side>"
SIDE_AUTHORIZE, SIDE_TOKEN, SIDE_USER = f"/{SIDE}/authorize", f"/{SIDE}/token", f"/{SIDE}/user"
SIDE_DISCOVERY, SIDE_KEYS = f"/{SIDE}{DISCOVERY}", f"/{SIDE}/keys"
STEAM_LOGIN = "/steam/openid/login"
SIDE_TENANTS, TENANT = f"/{SIDE}/<tenants>/v2.0{DISCOVERY}", "{tenantid}"
TENANT_KEYS = f"/{SIDE}/<tenants>/keys"
"""The paths of the other providers, whose own paths do not matter: gamed takes them from its configuration."""


def side_path(template: str, side: str) -> str:
    """Return the path of the provider with this name."""
    return template.replace(SIDE, side)


def discovery(provider: EmulatedProvider, issuer: str, authorize: str, token: str, keys: str) -> dict[str, Any]:
    """Return the discovery document of a provider with these addresses, without endpoints that do not exist here."""
    return {
        "issuer": issuer,
        "authorization_endpoint": authorize,
        "token_endpoint": token,
        "jwks_uri": keys,
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid"],
        **provider.document,
    }


def tokens(provider: EmulatedProvider, access_token: str, id_token: str | None = None) -> dict[str, Any]:
    """Return the response of a provider's token endpoint, to a request that accepts JSON."""
    signed = {} if id_token is None else {"id_token": id_token}
    return {"access_token": access_token, **provider.tokens, **signed}


def github_user(person: SamplePerson) -> dict[str, Any]:
    """Return GitHub's `/user`, without the members that name other addresses."""
    return {
        "login": person.key,
        "id": int(person.subjects["github"]),
        "node_id": f"MDQ6VXNlcj{person.subjects['github']}",
        "type": "User",
        "site_admin": False,
        "name": person.name,
        "email": None,
        "created_at": "2011-01-25T18:44:36Z",
    }


def discord_user(person: SamplePerson) -> dict[str, Any]:
    """Return Discord's `users/@me` for the scope `identify`."""
    return {
        "id": person.subjects["discord"],
        "username": person.key,
        "avatar": None,
        "discriminator": "0",
        "public_flags": 0,
        "flags": 0,
        "banner": None,
        "accent_color": None,
        "global_name": person.name,
        "avatar_decoration_data": None,
        "collectibles": None,
        "display_name_styles": None,
        "banner_color": None,
        "clan": None,
        "primary_guild": None,
        "mfa_enabled": False,
        "locale": "en-GB",
        "premium_type": 0,
    }


TOKEN_SECONDS = 3600


def new_key(kid: str) -> RSAKey:
    """Generate an RSA key of 2048 bits."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


def new_signing_key() -> bytes:
    """Generate the private key of a client that signs its secrets, as a .p8 file has it."""
    return ECKey.generate_key("P-256").as_pem(private=True)


LONGEST_SECRET_SECONDS = 15_777_000  # Apple's limit, six months


def is_signed_secret(client: Client, secret: Secret, audience: str, now_ms: int) -> bool:
    """Return whether a client secret is a JWT as Apple wants it, signed with the client's key."""
    key = ECKey.import_key(client.client_secret.reveal())
    try:
        token = jwt.decode(secret.reveal().decode(), key, algorithms=["ES256"])
    except (JoseError, ValueError):
        return False
    claims, now = token.claims, now_ms // 1000
    named = {"iss": TEAM_ID, "aud": audience, "sub": client.client_id}
    if token.header.get("kid") != KEY_ID or not named.items() <= claims.items():
        return False
    issued, expires = (int(claims.get(name, 0)) for name in ("iat", "exp"))
    return issued <= now < expires <= now + LONGEST_SECRET_SECONDS


def key_set(key: RSAKey) -> dict[str, Any]:
    """Return the public key as a JWKS document."""
    return {"keys": [key.as_dict(private=False)]}


def sign(key: RSAKey, claims: Mapping[str, Any]) -> str:
    """Sign claims by RS256; return the compact form."""
    return jwt.encode({"alg": "RS256", "kid": key.kid}, dict(claims), key, algorithms=["RS256"])


def claims(*, client_id: str, nonce: str, access_token: str, now_ms: int) -> dict[str, Any]:
    """Return the claims that Google sends for the scope `openid`, without those that name the account."""
    now = now_ms // 1000
    half = sha256(access_token.encode()).digest()[:16]
    return {
        "azp": client_id,
        "aud": client_id,
        "at_hash": base64url(half),
        "nonce": nonce,
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
