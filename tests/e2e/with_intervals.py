"""`python -m gamed` with other intervals than the usual ones, for tests that would wait for those.

python -m tests.e2e.with_intervals INTERVALS_AS_JSON COMMAND...
"""

import sys

import msgspec

from gamed import tap
from gamed.cli import main
from gamed.config.settings import Intervals

if __name__ == "__main__":
    tap.ServeOptions.intervals = msgspec.json.decode(sys.argv.pop(1), type=Intervals)
    main(development=True)
