"""The development provider as a process. One argument, JSON: port, base, clients (side, id, secret, redirect_uri)."""

import json
import sys
from secrets import token_bytes
from time import time_ns

from twisted.internet import reactor

from gamed.crypto import Secret
from gamed.dev.clients import EMULATED, Client
from gamed.dev.provider import DevelopmentProvider
from gamed.dev.servers import LoopbackService


def main() -> None:
    options = json.loads(sys.argv[1])
    clients = tuple(
        Client(EMULATED[side], client_id, Secret(secret.encode()), frozenset({redirect_uri}))
        for side, client_id, secret, redirect_uri in options["clients"]
    )
    provider = DevelopmentProvider(options["base"], clients, reactor, lambda: time_ns() // 1_000_000, token_bytes)
    LoopbackService(reactor, options["port"], provider.app.resource()).startService()
    reactor.callWhenRunning(print, "ready", flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
