"""`gamed key`: make a master key, and tell two apart."""

from base64 import b64encode
from secrets import token_bytes

import click

from gamed.cli.host import Host
from gamed.cli.refusal import ending, say
from gamed.crypto import KEY_BYTES


@click.group()
def key() -> None:
    """Make a master key, or show which one auth.db has."""


@key.command()
def new() -> None:
    """Print a new master key, 32 random bytes as Base64; nothing is stored.

    Put it where master_key_env says, and a copy where a lost machine does not take it along: without its key, auth.db
    cannot be read any more.
    """
    with ending():
        say(b64encode(token_bytes(KEY_BYTES)).decode())


@key.command(short_help="[key] Tell this server's key from others.")
@click.pass_obj
def fingerprint(host: Host) -> None:
    """Print 12 hex digits that tell this server's key from others, and nothing about it. [key]"""
    with ending():
        say(host.open().keys.fingerprint)
