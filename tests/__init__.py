"""The tests do not depend on the speed of the machine: neither its processors' nor its disk's."""

import tempfile

from tests.support.examples import load_profile
from tests.support.folders import memory

load_profile()
tempfile.tempdir = memory() or tempfile.tempdir
