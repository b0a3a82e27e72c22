"""The tests. None of them is about how fast this machine is at the moment."""

from hypothesis import HealthCheck, settings

settings.register_profile("gamed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gamed")
