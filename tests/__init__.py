"""The tests. None of them is about how fast this machine is at the moment."""

from tests.support.examples import load_profile

load_profile()
