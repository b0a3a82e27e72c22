"""Passkeys: WebAuthn credentials that sign players in on the pages of this server (docs/players/your-account.md)."""
