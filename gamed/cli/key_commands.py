"""`gamed key`: make a master key, and tell two apart."""

from base64 import b64encode
from secrets import token_bytes

import click

from gamed.cli.arguments import json_option
from gamed.cli.host import Host
from gamed.cli.people import report
from gamed.cli.refusal import ending
from gamed.crypto import KEY_BYTES


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
    with ending():
        made = b64encode(token_bytes(KEY_BYTES)).decode()
        report({"key": made}, made, as_json=as_json)


@key.command(short_help="[key] Tell this server's key from others.")
@json_option
@click.pass_obj
def fingerprint(host: Host, as_json: bool) -> None:
    """Print 12 hex digits that tell this server's key from others, and nothing about it. [key]"""
    with ending():
        found = host.open().keys.fingerprint
        report({"fingerprint": found}, found, as_json=as_json)
