"""`gamed notify test` sends one message to the owner, by the webhook that the server uses."""

from typing import TYPE_CHECKING

import click

from gamed.cli.context import CommandContext, read_notify, reports_json
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.process import harden
from gamed.clock import now_ms
from gamed.config.model import Notify

if TYPE_CHECKING:
    from gamed.notify.model import Undelivered

TEXT = "This is a test. Messages about waiting players and problems will look like this one."


@click.group()
def notify() -> None:
    """Try the messages that the server sends to its owner."""


@notify.command(short_help="Send one message to the owner.")
@reports_json
def test(context: CommandContext) -> None:
    """Send one message as the server would, and print whether the webhook accepted it.

    The exit code is 0 if it did, 1 if not, and 78 if the configuration has no notify or an error in it. The variable
    that notify.url_env names must be set; where systemd has it as a credential, gamedctl passes it.
    """
    harden()
    places = context.places()
    webhook, server_name = read_notify(places)
    if webhook is None:
        raise SetupError(f"{places.config} has no notify. Add it, as docs/owners/monitoring.md shows.")
    failure = _send(webhook, server_name)
    if failure is not None:
        raise CommandFailed(f"The message was not accepted: {failure.detail}. Check the URL and the format.")
    form = webhook.format.value
    context.report({"sent": True, "format": form}, f"The webhook accepted the message (format {form}).")


def _send(webhook: Notify, server_name: str) -> "Undelivered | None":
    """Send the message by a reactor of its own, so that it goes the way of the server's."""
    from twisted.internet import reactor  # late: these are most of Twisted
    from twisted.internet.defer import Deferred

    from gamed.notify.client import WebhookClient
    from gamed.notify.format_rules import encode
    from gamed.notify.model import TEST, Notice, NoticeState, Undelivered

    ended: list[Undelivered | None] = []
    message = encode(webhook.format, server_name, [Notice(TEST, NoticeState.WELL, TEXT)])

    def send() -> None:
        sending = Deferred.fromCoroutine(WebhookClient(webhook, reactor, now_ms).send(message))
        sending.addCallback(ended.append)
        sending.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(send)
    reactor.run()
    return ended[0] if ended else Undelivered("notify: an unexpected error, or the command was interrupted")
