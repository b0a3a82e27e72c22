"""A game that collects, uses and cancels at once, a thousand times: after a 204 nothing of that login works."""

from collections import Counter
from functools import partial
from random import Random

from gamed.login.collect import CollectRequest, Complete, Failed
from gamed.login.errors import LoginCollected
from gamed.login.keys import PresentedProof
from gamed.outcomes import LoginFailure
from gamed.sessions.credentials import CredentialPair
from gamed.sessions.errors import SessionError
from tests.login.fake_provider import FarProvider
from tests.login.fixtures import Desk, HandoffCase
from tests.login.test_races import result_of, together

RUNS = 1000
CANCELLED = Failed(LoginFailure.LOGIN_CANCELLED)


class CancelRaces(HandoffCase):
    def works(self, desk: Desk, pair: CredentialPair) -> list[bool]:
        """Access token and refresh credential, each tried."""
        tries = (partial(desk.sessions.authenticate, access(pair)), partial(desk.sessions.refresh, refresh(pair)))
        return [not isinstance(result_of(attempt()), SessionError) for attempt in tries]

    def test_collects_against_cancel(self) -> None:
        """In any order: one that was answered with credentials is dead with the 204, one that came later is told."""
        desk, dice = self.oauth(FarProvider()), Random(4)
        seen: Counter[str] = Counter()
        for run in range(RUNS):
            desk.clock.advance(1)
            started = desk.signed_in(f"p{run % 7}", address=f"10.{run % 256}.{run // 256}.1")
            collect = CollectRequest(desk.secret(started), presented=PresentedProof.finish_code(desk.code(started)))
            acts = [partial(desk.collects.collect, collect)] * dice.randint(1, 3)
            acts.insert(dice.randint(0, len(acts)), partial(desk.lifecycle.cancel, collect.secret))  # type: ignore[arg-type]
            results = together(desk, *acts)
            self.assertEqual(results.count(None), 1, "the 204")
            results.remove(None)
            for result in results:
                seen[type(result).__name__] += 1
                if isinstance(result, Complete):
                    self.assertEqual(self.works(desk, result.result.pair), [False, False])
                else:
                    self.assertEqual(result, CANCELLED)
            self.assertEqual(desk.collect(started), CANCELLED)
        self.assertGreater(min(seen["Complete"], seen["Failed"]), RUNS // 4)
        self.assertEqual(desk.rows("SELECT 1 FROM session WHERE revoked_ms IS NULL"), [])
        self.assertEqual(desk.rows("SELECT 1 FROM login WHERE stage <> 'cancelled' OR sealed_result IS NOT NULL"), [])

    def test_first_use_against_cancel(self) -> None:
        """Used first, it is 410 and lives; cancelled first, the use that was under way has no effect either."""
        desk, dice = self.oauth(FarProvider()), Random(4)
        seen: Counter[str] = Counter()
        for run in range(200):
            desk.clock.advance(1)
            started = desk.signed_in("anna", address=f"10.0.{run}.1")
            pair = desk.collect(started, code=desk.code(started)).result.pair
            use = dice.choice(
                [partial(desk.sessions.authenticate, access(pair)), partial(desk.sessions.refresh, refresh(pair))]
            )
            acts = [use, partial(desk.lifecycle.cancel, desk.secret(started))]
            dice.shuffle(acts)
            results = dict(zip(acts, together(desk, *acts), strict=True))
            used, cancelled = results.values() if acts[0] is use else reversed(results.values())
            if cancelled is None:
                self.assertIsInstance(used, SessionError)
                self.assertEqual(self.works(desk, pair), [False, False])
            else:
                self.assertIsInstance(cancelled, LoginCollected)
                self.assertNotIsInstance(used, SessionError)
                self.assertEqual(self.works(desk, pair)[0], True)
            seen["cancelled" if cancelled is None else "used"] += 1
        self.assertGreater(min(seen.values()), 50)


def access(pair: CredentialPair) -> str:
    return pair.access.reveal().decode()


def refresh(pair: CredentialPair) -> str:
    return pair.refresh.reveal().decode()
