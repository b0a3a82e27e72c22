"""A player's page, sign-in methods and removal; invites and reset links."""
