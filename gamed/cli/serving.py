"""`gamed serve`: the service of `twistd --nodaemon --pidfile= gamed serve`, without the search for plugins."""

from collections.abc import Iterator, Sequence
from typing import Any

from twisted.application.service import ServiceMaker
from twisted.internet.error import CannotListenError
from twisted.scripts._twistd_unix import ServerOptions

from gamed.cli.listeners import cannot_listen
from gamed.cli.refusal import ending

MAKER = ServiceMaker("gamed", "gamed.tap", "A game server to host at home.", "gamed")


class OnePlugin(ServerOptions):
    """twistd's options with one plugin known: no other need be importable, and no cache be writable."""

    @property
    def subCommands(self) -> Iterator[tuple[str, None, Any, str]]:
        self.loadedPlugins = {MAKER.tapname: MAKER}
        yield (MAKER.tapname, None, MAKER.options, MAKER.description)


def serve(arguments: Sequence[str]) -> None:
    """Run until stopped; does not return before."""
    from twisted.scripts.twistd import runApp

    options = OnePlugin()  # type: ignore[no-untyped-call]
    options.parseOptions(["--nodaemon", "--pidfile=", MAKER.tapname, "serve", *arguments])  # type: ignore[no-untyped-call]
    with ending():
        try:
            runApp(options)
        except CannotListenError as e:  # the port was free a moment ago
            raise cannot_listen(f"{e.interface or ''}:{e.port}", e.socketError) from None
