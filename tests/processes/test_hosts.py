"""The tests of several servers on one data folder, with servers on two machines and PostgreSQL instead."""

from tests.processes import test_killed, test_rates, test_save_races, test_sign_in_races, test_sign_in_waits, test_waits
from tests.processes.hosts import TwoHosts


class SaveRacesOfHosts(TwoHosts, test_save_races.SaveRaces):
    """The races of saves."""


class RefreshRacesOfHosts(TwoHosts, test_sign_in_races.RefreshRaces):
    """The races of a refresh credential."""


class SignInRacesOfHosts(TwoHosts, test_sign_in_races.SignInRaces):
    """The races of a sign-in."""


class WriteRatesOfHosts(TwoHosts, test_rates.WriteRates):
    """The limit of a player's writes."""


class StartRatesOfHosts(TwoHosts, test_rates.StartRates):
    """The limit of sign-ins."""


class LiveLoginsOfHosts(TwoHosts, test_rates.LiveLogins):
    """The limit of sign-ins that have not ended."""


class SaveWaitsOfHosts(TwoHosts, test_waits.SaveWaits):
    """The waits for changes of saves."""

    allowed_seconds, polls = 0.05, False


class SignInWaitsOfHosts(TwoHosts, test_sign_in_waits.SignInWaits):
    """The waits for a sign-in."""

    allowed_seconds, polls = 0.05, False


class KilledServerOfHosts(TwoHosts, test_killed.KilledServer):
    """A server that is killed under load."""


class KilledExchangeOfHosts(TwoHosts, test_killed.KilledExchange):
    """A server that is killed while a provider has the code of a sign-in."""
