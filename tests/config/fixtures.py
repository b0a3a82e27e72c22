"""Configurations, environment variables and files, and functions that load them."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from gamed.config.authentication import LoadedConfiguration, load
from gamed.config.errors import ConfigError

KEY = bytes(range(100, 132)).replace(b"d", b"\xfe")
KEY_TEXT = b64encode(KEY).decode()
ENVIRON = {
    "GAMED_MASTER_KEY": KEY_TEXT,
    "DISCORD_CLIENT_SECRET": "discord-hush",
    "GOOGLE_CLIENT_SECRET": "google-hush",
}
OAUTH: Mapping[str, Any] = {
    "mode": "oauth",
    "public_url": "https://play.example.org",
    "master_key_env": "GAMED_MASTER_KEY",
    "providers": {
        "discord": {"client_id": "123", "client_secret_env": "DISCORD_CLIENT_SECRET"},
        "google": {"client_id": "456.apps", "client_secret_env": "GOOGLE_CLIENT_SECRET"},
    },
    "session": {"access_ttl": "15m", "refresh_ttl": "720h", "device_transaction_ttl": "10m"},
}
LOCAL: Mapping[str, Any] = {"mode": "local"}
GONE = object()
"""A value that removes the member."""


def no_file(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory")


def reader(files: Mapping[str, bytes]) -> Callable[[str], bytes]:
    """Return a function that reads from these files."""

    def read(path: str) -> bytes:
        return files[path] if path in files else no_file(path)

    return read


def changed(base: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """Return a copy with members set; a name such as `session__access_ttl` is a path."""
    config: dict[str, Any] = deepcopy(dict(base))
    for dotted, value in members.items():
        *outer, name = dotted.split("__")
        section = config
        for step in outer:
            section = section.setdefault(step, {})
        if value is GONE:
            section.pop(name, None)
        else:
            section[name] = value
    return config


def load_config(
    config: Mapping[str, Any], environ: Mapping[str, str] = ENVIRON, files: Mapping[str, bytes] = {}, **options: Any
) -> LoadedConfiguration:
    return load(json.dumps(config), environ, reader(files), **options)


def complaints(text: str | Mapping[str, Any], environ: Mapping[str, str] = ENVIRON, **files: bytes) -> list[str]:
    """Return the lines of the ConfigError, or [] for a valid file."""
    try:
        load(text if isinstance(text, str) else json.dumps(text), environ, reader(files))
    except ConfigError as e:
        return str(e).split("\n")
    return []


def errors(config: Mapping[str, Any], environ: Mapping[str, str] = ENVIRON) -> list[str]:
    """Return the complaints without file and position."""
    return [line.split(": ", 1)[1] for line in complaints(config, environ)]
