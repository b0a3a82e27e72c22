"""Concurrent writes have one winner, and all bytes are accounted for (docs/protocol.md: Conditions and ranges)."""

from hashlib import sha256

from tests.saves.helpers import ABSENT, BIG, SaveCase, tag
from tests.support.http import Answer

WRITERS = 20


class RivalTest(SaveCase):
    def all_at_once(self, *puts: tuple[str, bytes, dict[str, str]]) -> list[Answer]:
        """Requests that are decided in one group commit."""
        self.get("none")  # the first use of the token is settled before
        self.stores.state.pause()
        calls = [self.browser.send("PUT", f"/game/saves/{slot}", {**self.bearer, **h}, data) for slot, data, h in puts]
        self.assertEqual([call.answers for call in calls], [[]] * len(puts))
        self.stores.state.resume()
        return [call.answer for call in calls]

    def test_one_winner(self) -> None:
        """Let one of twenty concurrent writes to one version succeed; answer the others 412 and keep their bytes."""
        first = self.put("auto", b"first", ABSENT)
        named = {"If-Match": first.headers["etag"]}
        answers = self.all_at_once(*(("auto", b"writer %d" % n, named) for n in range(WRITERS)))
        self.assertEqual(sorted(answer.status for answer in answers), [200] + [412] * (WRITERS - 1))
        rejected = [answer.json for answer in answers if answer.status == 412]
        self.assertEqual({problem["current"]["version"] for problem in rejected}, {2})
        self.assertEqual(sorted(problem["yours"]["version"] for problem in rejected), list(range(3, WRITERS + 2)))
        self.assert_counts_agree()

    def test_one_creator(self) -> None:
        """Let one of many creations of one slot succeed; the same bytes sent twice are one save."""
        answers = self.all_at_once(("auto", b"a", ABSENT), ("auto", b"b", ABSENT), ("auto", b"a", ABSENT))
        self.assertEqual([answer.status for answer in answers], [201, 412, 200])
        self.assert_counts_agree()

    def test_the_same_large_bytes(self) -> None:
        """Several uploads of the same large body at once end with every slot readable and counts that agree."""
        answers = self.all_at_once(*((f"s{n}", BIG, ABSENT) for n in range(3)))
        self.assertEqual([answer.status for answer in answers], [201] * 3)
        for n in range(3):
            self.assertEqual(self.get(f"s{n}").body, BIG)
        self.assert_counts_agree()
        found = self.in_state(lambda c: c.execute("SELECT sha256, refs FROM blob WHERE sha256 IS NOT NULL").fetchall())
        self.assertEqual(found, [(sha256(BIG).digest(), 3)])

    def test_write_against_delete(self) -> None:
        """Let the first of a write and a delete of one version succeed; answer the other 412."""
        self.put("auto", b"first", ABSENT)
        named = {"If-Match": tag(1, b"first")}
        self.stores.state.pause()
        delete = self.browser.send("DELETE", "/game/saves/auto", {**self.bearer, **named})
        put = self.browser.send("PUT", "/game/saves/auto", {**self.bearer, **named}, b"second")
        self.stores.state.resume()
        self.assertEqual(delete.answer.status, 204)
        self.assert_problem(put.answer, 412, "deleted", "version 3")
        self.assert_counts_agree()
