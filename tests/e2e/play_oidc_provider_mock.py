"""PyPI oidc-provider-mock as a process. One argument, JSON: port. Prints "ready" when it listens."""

import json
import logging
import sys
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import oidc_provider_mock


class Silent(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the recorder in front records requests."""


def main() -> None:
    options = json.loads(sys.argv[1])
    logging.disable(logging.CRITICAL)
    app = oidc_provider_mock.app(require_nonce=True)
    server = make_server("127.0.0.1", options["port"], app, handler_class=Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
