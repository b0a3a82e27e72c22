"""The tests. None of them is about how fast this machine is at the moment."""

from hypothesis import settings

settings.register_profile("gamed", deadline=None)
settings.load_profile("gamed")
