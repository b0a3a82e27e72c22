"""`gamed check config` reports every error in the configuration files without starting the service (SPEC 7)."""

from collections.abc import Iterator

import click

from gamed.cli import reading
from gamed.cli.arguments import json_option
from gamed.cli.harden import harden
from gamed.cli.host import Host
from gamed.cli.people import report
from gamed.cli.refusal import NotDone, ending


@click.command("config", short_help="[key] Report every error in the configuration.")
@json_option
@click.pass_obj
def check_config(host: Host, as_json: bool) -> None:
    """Report every error in the configuration, its environment variables included; change nothing. [key]"""
    harden()
    with ending():
        opened = reading.read_all(host.places())
        if opened.first_run:
            raise NotDone(f"There is no {opened.places.config} yet; `gamed serve` writes one.")
        report(_summary(opened), "\n".join(_lines(opened)), as_json=as_json)


def _summary(opened: reading.Opened) -> dict[str, object]:
    places, config = opened.places, opened.judged.config
    return {
        "config": str(places.config),
        "game": str(places.game) if places.game.exists() else None,
        "data": str(places.data),
        "mode": config.mode.value,
        "public_url": config.public_url,
        "providers": list(config.providers),
    }


def _lines(opened: reading.Opened) -> Iterator[str]:
    places, config = opened.places, opened.judged.config
    yield f"{places.config} is good: {config.mode.value} mode"
    yield f"address {config.public_url or 'of the first tcp listener, on this machine only'}"
    yield f"providers {', '.join(config.providers) or 'none'}"
    if places.game.exists():
        yield f"{places.game} is good"
    yield f"data {places.data}"
