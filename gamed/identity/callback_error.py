"""The `error` of a provider's redirect, as a failure (RFC 6749 4.1.2.1, OpenID Connect Core 3.1.2.6, PROTOCOL 3.3)."""

from collections.abc import Mapping

from gamed.identity.answer import REDIRECT, REQUEST
from gamed.identity.provider import ProviderDenied, ProviderFailure, ProviderMisconfigured, ProviderUnavailable

MISCONFIGURED: Mapping[str, str] = {
    "invalid_request": REQUEST,
    "unauthorized_client": REQUEST,
    "invalid_client": REQUEST,
    "unsupported_response_type": "this application may not use the authorization code flow; see its settings there",
    "invalid_scope": "check scopes, and what this application may ask for at the provider's console",
    "redirect_uri_mismatch": REDIRECT,
    "interaction_required": REQUEST,
    "login_required": REQUEST,
    "account_selection_required": REQUEST,
    "consent_required": REQUEST,
    "request_not_supported": REQUEST,
    "request_uri_not_supported": REQUEST,
    "registration_not_supported": REQUEST,
}
"""Only these names may stand in a log: anyone can write any word into an address."""


def callback_failure(error: str) -> ProviderFailure:
    """What it means that no code came; the cause names the error only if it is a registered one."""
    if error == "access_denied":
        return ProviderDenied("callback: access_denied: the player did not agree, or the provider refused the account")
    if error in ("temporarily_unavailable", "server_error"):
        return ProviderUnavailable(f"callback: {error}: the provider could not go on")
    if error in MISCONFIGURED:
        return ProviderMisconfigured(f"callback: {error}: {MISCONFIGURED[error]}")
    return ProviderMisconfigured(f"callback: an unregistered error: {REQUEST}")
