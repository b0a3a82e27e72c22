"""The handoff: a game starts a sign-in, a browser completes it, the game collects the result (SPEC 1.5, PROTOCOL 3)."""
