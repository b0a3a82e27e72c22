"""Providers, browsers and networks that misbehave in every way we can think of, against the whole way of a sign-in."""
