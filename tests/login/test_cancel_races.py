"""These tests collect, use and cancel a login at once, many times: after a 204 its credentials do not work."""

from collections import Counter
from functools import partial
from random import Random

from gamed.login.collect import CollectRequest, Complete, Failed
from gamed.login.errors import LoginCollected
from gamed.login.keys import PresentedProof
from gamed.outcomes import LoginFailure
from gamed.sessions.credentials import CredentialPair
from gamed.sessions.errors import SessionError
from tests.login.fake_provider import FakeProvider
from tests.login.fixtures import LoginCase, LoginServer
from tests.login.test_races import result_of, together
from tests.support.examples import histories

RUNS, USES = histories(few=1000, many=1000), histories(few=200, many=200)
CANCELLED = Failed(LoginFailure.LOGIN_CANCELLED)


class CancelRaces(LoginCase):
    def works(self, server: LoginServer, pair: CredentialPair) -> list[bool]:
        """Return whether access token and refresh credential work."""
        tries = (partial(server.sessions.authenticate, access(pair)), partial(server.sessions.refresh, refresh(pair)))
        return [not isinstance(result_of(attempt()), SessionError) for attempt in tries]

    def test_collects_against_cancel(self) -> None:
        """In any order, credentials of an earlier collect are revoked with the 204, and a later collect is refused."""
        server, dice = self.oauth_server(FakeProvider()), Random(4)
        seen: Counter[str] = Counter()
        for run in range(RUNS):
            server.clock.advance(1)
            started = server.signed_in(f"p{run % 7}", address=f"10.{run % 256}.{run // 256}.1")
            collect = CollectRequest(server.secret(started), presented=PresentedProof.finish_code(server.code(started)))
            acts = [partial(server.collects.collect, collect)] * dice.randint(1, 3)
            acts.insert(dice.randint(0, len(acts)), partial(server.lifecycle.cancel, collect.secret))  # type: ignore[arg-type]
            results = together(server, *acts)
            self.assertEqual(results.count(None), 1, "the 204")
            results.remove(None)
            for result in results:
                seen[type(result).__name__] += 1
                if isinstance(result, Complete):
                    self.assertEqual(self.works(server, result.result.pair), [False, False])
                else:
                    self.assertEqual(result, CANCELLED)
            self.assertEqual(server.collect(started), CANCELLED)
        self.assertGreater(min(seen["Complete"], seen["Failed"]), RUNS // 4)
        self.assertEqual(server.rows("SELECT 1 FROM session WHERE revoked_ms IS NULL"), [])
        self.assertEqual(server.rows("SELECT 1 FROM login WHERE stage <> 'cancelled' OR sealed_result IS NOT NULL"), [])

    def test_first_use_against_cancel(self) -> None:
        """After the first use a cancel is 410; after a cancel a use that was under way has no effect."""
        server, dice = self.oauth_server(FakeProvider()), Random(4)
        seen: Counter[str] = Counter()
        for run in range(USES):
            server.clock.advance(1)
            started = server.signed_in("anna", address=f"10.0.{run}.1")
            pair = server.collect(started, code=server.code(started)).result.pair
            use = dice.choice(
                [partial(server.sessions.authenticate, access(pair)), partial(server.sessions.refresh, refresh(pair))]
            )
            acts = [use, partial(server.lifecycle.cancel, server.secret(started))]
            dice.shuffle(acts)
            results = dict(zip(acts, together(server, *acts), strict=True))
            used, cancelled = results.values() if acts[0] is use else reversed(results.values())
            if cancelled is None:
                self.assertIsInstance(used, SessionError)
                self.assertEqual(self.works(server, pair), [False, False])
            else:
                self.assertIsInstance(cancelled, LoginCollected)
                self.assertNotIsInstance(used, SessionError)
                self.assertEqual(self.works(server, pair)[0], True)
            seen["cancelled" if cancelled is None else "used"] += 1
        self.assertGreater(min(seen.values()), USES // 4)


def access(pair: CredentialPair) -> str:
    return pair.access.reveal().decode()


def refresh(pair: CredentialPair) -> str:
    return pair.refresh.reveal().decode()
