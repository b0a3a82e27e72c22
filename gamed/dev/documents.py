"""The JSON documents equal those of the real providers (OpenID Connect Discovery 3, Core 2; Discord's API v10).

They are discovery, the claims of ID tokens, and the user.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from gamed.crypto import Secret, base64url
from gamed.dev.clients import KEY_ID, SIDES, TEAM_ID, Client, EmulatedProvider, SamplePerson
from gamed.dev.grants import TOKEN_SECONDS, AuthorizeParameters

GOOGLE_AUTHORIZE, GOOGLE_TOKEN, GOOGLE_KEYS = "/o/oauth2/v2/auth", "/token", "/oauth2/v3/certs"
DISCORD_AUTHORIZE, DISCORD_TOKEN, DISCORD_USER = "/oauth2/authorize", "/api/v10/oauth2/token", "/api/v10/users/@me"
DISCOVERY = "/.well-known/openid-configuration"
STEAM_LOGIN, GITHUB_USER = "/steam/openid/login", "/github/user"
SIDE, OPENID_SIDE = f"/<any({', '.join(SIDES)}):side>", "/<any(twitch, apple):side>"
TENANTS = "/microsoft/<any(common, consumers):tenants>"
SIDE_AUTHORIZE, SIDE_TOKEN = f"{SIDE}/authorize", f"{SIDE}/token"
SIDE_DISCOVERY, SIDE_KEYS = f"{OPENID_SIDE}{DISCOVERY}", f"{OPENID_SIDE}/keys"
TENANT_DISCOVERY, TENANT_KEYS = f"{TENANTS}/v2.0{DISCOVERY}", f"{TENANTS}/keys"
"""The paths of the other providers, whose own paths do not matter: gamed takes them from its configuration."""
TENANT = "{tenantid}"


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
    absent = "avatar banner accent_color avatar_decoration_data collectibles display_name_styles banner_color clan"
    return {
        **dict.fromkeys([*absent.split(), "primary_guild"]),
        **dict.fromkeys(("public_flags", "flags", "premium_type"), 0),
        "id": person.subjects["discord"],
        "username": person.key,
        "global_name": person.name,
        "discriminator": "0",
        "mfa_enabled": False,
        "locale": "en-GB",
    }


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


def sign(key: RSAKey, claims: Mapping[str, Any]) -> str:
    """Sign claims by RS256; return the compact form."""
    return jwt.encode({"alg": "RS256", "kid": key.kid}, dict(claims), key, algorithms=["RS256"])


def claims(asked: AuthorizeParameters, access_token: str, now_ms: int) -> dict[str, Any]:
    """Return the claims that Google sends for the scope `openid`, without those that name the account."""
    client_id, now = asked.client.client_id, now_ms // 1000
    return {
        "azp": client_id,
        "aud": client_id,
        "at_hash": base64url(sha256(access_token.encode()).digest()[:16]),
        "nonce": asked.nonce or "",
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
