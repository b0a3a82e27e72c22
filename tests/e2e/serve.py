"""`gamed serve` with other intervals than the usual ones, for tests that would wait for those.

python -m tests.e2e.serve INTERVALS_AS_JSON OPTIONS...
"""

import sys

import msgspec
from twisted.application.service import IService

from gamed import tap
from gamed.cli.service import serve
from gamed.config.settings import Intervals


class Maker(msgspec.Struct, frozen=True):
    """The service of `gamed serve`, but for its intervals."""

    intervals: Intervals
    tapname = serve.MAKER.tapname
    description = serve.MAKER.description
    options = tap.Options

    def makeService(self, options: tap.Options) -> IService:
        options.subOptions.intervals = self.intervals
        return tap.makeService(options)


if __name__ == "__main__":
    serve.serve(sys.argv[2:], Maker(msgspec.json.decode(sys.argv[1], type=Intervals)))
