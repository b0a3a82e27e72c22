"""`python -m gamed` with a wall clock that is ahead by so many milliseconds, or behind if they are negative.

python -m tests.e2e.with_clock MILLISECONDS COMMAND...
"""

import sys

from gamed import clock
from gamed.cli import main

if __name__ == "__main__":
    ahead_ns, right_ns = int(sys.argv.pop(1)) * 1_000_000, clock.time_ns
    clock.time_ns = lambda: right_ns() + ahead_ns
    main(development=True)
