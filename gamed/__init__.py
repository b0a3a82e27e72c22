"""gamed: a game server that an owner runs at home."""

__version__ = "1.0.0.dev0"
