"""The identity providers: OAuth 2.0, OpenID Connect and the HTTP client that asks them."""
