"""`gamed check config` reports every error in the configuration files without starting the service (SPEC 7).

`gamed key`: make a master key, and tell two apart.
"""

from base64 import b64encode
from collections.abc import Iterator
from secrets import token_bytes

import click

from gamed.cli import context
from gamed.cli.context import CommandContext, report
from gamed.cli.errors import CommandFailed, exit_on_error
from gamed.cli.output import json_option
from gamed.cli.process import harden
from gamed.crypto import KEY_BYTES


@click.command("config", short_help="[key] Report every error in the configuration.")
@json_option
@click.pass_obj
def check_config(host: CommandContext, as_json: bool) -> None:
    """Report every error in the configuration, its environment variables included; change nothing. [key]"""
    harden()
    with exit_on_error():
        opened = context.read_all(host.places())
        if opened.first_run:
            raise CommandFailed(f"There is no {opened.places.config} yet; `gamed serve` writes one.")
        report(_summary(opened), "\n".join(_lines(opened)), as_json=as_json)


def _summary(opened: context.OpenedConfiguration) -> dict[str, object]:
    places, config = opened.places, opened.judged.config
    return {
        "config": str(places.config),
        "game": str(places.game) if places.game.exists() else None,
        "data": str(places.data),
        "mode": config.mode.value,
        "public_url": config.public_url,
        "providers": list(config.providers),
    }


def _lines(opened: context.OpenedConfiguration) -> Iterator[str]:
    places, config = opened.places, opened.judged.config
    yield f"{places.config} is good: {config.mode.value} mode"
    yield f"address {config.public_url or 'of the first tcp listener, on this machine only'}"
    yield f"providers {', '.join(config.providers) or 'none'}"
    if places.game.exists():
        yield f"{places.game} is good"
    yield f"data {places.data}"


@click.group()
def key() -> None:
    """Make a master key, or show which one auth.db has."""


@key.command(short_help="Print a new master key; nothing is stored.")
@json_option
def new(as_json: bool) -> None:
    """Print a new master key, 32 random bytes as Base64; nothing is stored.

    Put it where master_key_env says, and a copy where a lost machine does not take it along: without its key, auth.db
    cannot be read any more.
    """
    with exit_on_error():
        made = b64encode(token_bytes(KEY_BYTES)).decode()
        report({"key": made}, made, as_json=as_json)


@key.command(short_help="[key] Tell this server's key from others.")
@json_option
@click.pass_obj
def fingerprint(host: CommandContext, as_json: bool) -> None:
    """Print 12 hex digits that tell this server's key from others, and nothing about it. [key]"""
    with exit_on_error():
        found = host.open().keys.fingerprint
        report({"fingerprint": found}, found, as_json=as_json)
