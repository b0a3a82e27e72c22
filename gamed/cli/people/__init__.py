"""Commands about players, sessions and invites."""
