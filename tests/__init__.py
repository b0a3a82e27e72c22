"""The tests do not depend on the speed of the machine."""

from tests.support.examples import load_profile

load_profile()
