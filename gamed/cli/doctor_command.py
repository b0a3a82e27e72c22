"""`gamed doctor`: looks at this machine, or at the public address, and says what to do about what it finds."""

import click

from gamed.cli.arguments import TEXT, json_option
from gamed.cli.harden import harden
from gamed.cli.host import Host
from gamed.cli.refusal import ending


@click.command(short_help="[key] Look for what is wrong with this server.")
@click.option(
    "--public",
    metavar="[URL]",
    type=TEXT,
    is_flag=False,
    flag_value="",
    help="Ask the public address instead, as players do. [default: public_url]",
)
@click.option("--write", is_flag=True, help="With --public: also write saves, as a player who is erased afterwards.")
@json_option
@click.pass_obj
def doctor(host: Host, public: str | None, write: bool, as_json: bool) -> None:
    """Look for what is wrong with this server, and say what to do about it. [key]

    Ends with 0 if there is no problem (there may be warnings), 1 if there is one, 78 if the configuration must be
    mended first.
    """
    if write and public is None:
        raise click.UsageError("--write goes with --public.")
    with ending():
        harden()
        from gamed.cli import doctor_run  # late: no other command needs what it looks with

        if public is None:
            doctor_run.tell(*doctor_run.on_this_machine(host.places()), as_json=as_json)
        else:
            found = list(doctor_run.from_outside(host.places(), public, write=write))
            doctor_run.tell(found, None, as_json=as_json)
