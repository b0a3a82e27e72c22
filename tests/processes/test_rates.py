"""Two servers count the requests of a player and of an address together.

See docs/owners/configuration.md: Limits; docs/protocol.md: Limits.
"""

from collections import Counter
from collections.abc import Sequence

from twisted.python import log

from tests.e2e.wire import Answer
from tests.processes.cases import ROUNDS, SharedCase
from tests.processes.wire import Request, bearer, json_request, together

AT_ONCE = 16
"""Requests that are sent at the same time, half of them to each server."""


class RateCase(SharedCase):
    """A test of a limit that allows ten requests at once."""

    def assert_ten(self, rounds: Sequence[Sequence[Answer]]) -> None:
        """Check that ten requests of each round were accepted, and the others refused.

        It may be nine: the limits compare instants that were read before the transactions. A request that one server
        read some milliseconds before the first request that counted comes too early by these milliseconds.
        """
        found: Counter[int] = Counter()
        for answers in rounds:
            refused = [answer for answer in answers if answer.status != 201]
            self.assertEqual({(answer.status, answer.json["code"]) for answer in refused}, {(429, "rate_limited")})
            early = any(answer.json["retry_after"] == 1 for answer in refused)
            accepted = len(answers) - len(refused)
            self.assertIn(accepted, (9, 10) if early else (10,))
            found[accepted] += 1
        log.msg(f"rate test={self.id()} rounds={len(rounds)} accepted={dict(found)}")

    def setUp(self) -> None:
        super().setUp()
        self.lines = [self.connect(number % self.count) for number in range(AT_ONCE)]


class WriteRates(RateCase):
    game = {"writes_per_minute": 20, "min_free_bytes": 0}  # noqa: RUF012

    def test_bucket_of_ten(self) -> None:
        """A player who may write ten times at once writes ten times, whichever servers get the requests."""
        rounds = []
        for player in self.players(ROUNDS):
            token = bearer(player.access)
            puts = [Request("PUT", f"/game/saves/slot{number}", token, b"data") for number in range(AT_ONCE)]
            rounds.append(answers := together(self.lines, puts))
            listed = self.ask(0, Request("GET", "/game/saves", token), 200).json["saves"]
            self.assertEqual(len(listed), [answer.status for answer in answers].count(201))
        self.assert_ten(rounds)


class StartRates(RateCase):
    limits = {"starts_per_minute": 10}  # noqa: RUF012

    def test_ten_of_an_address(self) -> None:
        """Ten games at one address start a sign-in, whichever servers they ask; the others are refused."""
        starts = [
            json_request("POST", "/auth/login", {}, X_Forwarded_For=f"203.0.113.{number}") for number in range(ROUNDS)
        ]
        self.assert_ten([together(self.lines, [start] * AT_ONCE) for start in starts])


class LiveLogins(StartRates):
    """The same with a limit of the sign-ins of an address that have not ended."""

    limits = {"live_logins_per_address": 10}  # noqa: RUF012
