"""Passkeys: WebAuthn credentials that sign players in on the pages of this server (docs/owners/passkeys.md)."""
