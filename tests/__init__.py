"""The tests do not depend on the speed of the machine: neither its processors' nor its disk's."""

import sys
import tempfile

from tests.support.examples import load_profile
from tests.support.folders import memory

load_profile()
if "bench" not in sys.modules:  # which measures on the disk that TMPDIR chooses
    tempfile.tempdir = memory() or tempfile.tempdir
