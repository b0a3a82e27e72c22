"""T is a Twisted web server that does nothing: a .tac for `twistd -ny`; the port is in PORT."""

import os

from twisted.application.service import Application
from twisted.application.strports import service
from twisted.web.resource import Resource
from twisted.web.server import Site


class Ok(Resource):
    isLeaf = True

    def render_GET(self, request: object) -> bytes:
        return b"ok"


application = Application("bare")  # type: ignore[no-untyped-call]
service(f"tcp:{os.environ['PORT']}:interface=127.0.0.1", Site(Ok())).setServiceParent(application)
