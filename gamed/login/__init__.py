"""A login: the game starts it, a browser completes it, and the game collects the result (SPEC 1.5, PROTOCOL 3)."""
