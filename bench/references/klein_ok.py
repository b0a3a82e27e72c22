"""K is unchanged Klein with one route that returns `ok`. Argument: PORT"""

import sys

from klein import Klein
from twisted.internet import endpoints, reactor
from twisted.web.server import Site

app = Klein()


@app.route("/healthz")
def ok(request: object) -> bytes:
    return b"ok"


if __name__ == "__main__":
    endpoints.TCP4ServerEndpoint(reactor, int(sys.argv[1]), interface="127.0.0.1").listen(Site(app.resource()))
    reactor.run()
