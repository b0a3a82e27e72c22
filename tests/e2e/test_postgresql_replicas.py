"""A primary with a standby: the service follows the primary; if the standby is synchronous, it has all that was
acknowledged."""

import time
from threading import Thread
from typing import Any, ClassVar

from twisted.python import log

from tests.e2e.postgresql_cases import PostgresqlServiceCase
from tests.e2e.postgresql_load import until_answered, wait_until

ANSWER_SECONDS = 30


class ReplicaCase(PostgresqlServiceCase):
    standby_first: ClassVar[bool] = False
    """The order of the hosts in the address."""
    synchronous: ClassVar[bool] = True

    def url(self) -> str:
        self.standby = self.cluster.standby(synchronous=self.synchronous)
        self.addCleanup(self.standby.close)
        servers = [self.cluster, self.standby][:: -1 if self.standby_first else 1]
        folders, ports = (",".join(map(str, each)) for each in zip(*((s.folder, s.port) for s in servers), strict=True))
        self.servers_url = f"postgresql://{self.address.user}@/{self.address.database}?host={folders}&port={ports}"
        return self.servers_url

    def switch_over(self, mode: str) -> None:
        self.load()
        self.progress()
        began = time.monotonic()
        self.cluster.stop(mode)
        self.standby.promote()
        self.progress()
        log.msg(f"switch_over mode={mode} seconds={time.monotonic() - began:.2f}")
        self.verify()


class StandbyFirst(ReplicaCase):
    standby_first = True

    def test_planned_switch_over(self) -> None:
        """The service uses the primary, although the address names the standby first; after a planned switch to the
        standby no acknowledged change is lost."""
        self.switch_over("fast")


class Replicas(ReplicaCase):
    def test_switch_over(self) -> None:
        """After a crash of the primary under load and the promotion of the standby no acknowledged change is lost."""
        self.switch_over("immediate")

    def waiting(self) -> list[int]:
        """Return the numbers of the processes that wait for the standby."""
        sql = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        return [pid for (pid,) in self.cluster.execute(sql)]

    def test_committed_but_not_replicated(self) -> None:
        """A write that only the primary has is not acknowledged: the standby is away, and then an administrator ends
        the wait for it."""
        token = self.credentials("one")["access_token"]
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token).status, 200)  # the first use is written
        self.standby.stop("immediate")
        began = time.monotonic()
        answer = self.ask("PUT", "/game/saves/a", body=b"1", bearer=token, headers={"If-None-Match": "*"})
        self.assertEqual((answer.status, answer.json["code"]), (503, "store_unavailable"), answer.body)
        self.assertLess(time.monotonic() - began, ANSWER_SECONDS)
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token).status, 200)
        for pid in self.waiting():
            self.cluster.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
        self.refuses_after_cancel(token)
        self.standby.start()
        until_answered(self.service.port, "GET", "/healthz", 200, ANSWER_SECONDS)
        self.load()
        self.progress()
        self.verify()

    def refuses_after_cancel(self, token: str) -> None:
        """Check the answer to a write whose wait is cancelled."""
        answers: list[int] = []

        def put() -> None:
            answers.append(self.ask("PUT", "/game/saves/b", body=b"1", bearer=token).status)

        thread = Thread(target=put)
        thread.start()
        wait_until(self.waiting)
        for pid in self.waiting():
            self.cluster.execute(f"SELECT pg_cancel_backend({pid})")
        thread.join(ANSWER_SECONDS)
        self.assertEqual(answers, [503])


class Behind(ReplicaCase):
    """A standby that is asynchronous, and stopped while the primary goes on."""

    synchronous = False

    def test_lost_change(self) -> None:
        """After the standby has taken over, the cursor of a change that it never got is answered with `reset`, although
        a later change has its number."""
        token = self.credentials("one")["access_token"]
        self.save(token, "before")
        wait_until(self.has_caught_up)
        self.standby.stop("fast")
        self.save(token, "lost")
        lost = self.list(token)["cursor"]
        self.cluster.stop("immediate")
        self.standby.start()
        self.standby.promote()
        until_answered(self.service.port, "GET", "/healthz", 200, ANSWER_SECONDS)
        self.save(token, "later")
        found = self.list(token, f"?since={lost}")
        self.assertEqual((found.get("reset"), [each["slot"] for each in found["saves"]]), (True, ["before", "later"]))

    def save(self, token: str, slot: str) -> None:
        answer = self.ask("PUT", f"/game/saves/{slot}", body=b"1", bearer=token, headers={"If-None-Match": "*"})
        self.assertEqual(answer.status, 201, answer.body)

    def list(self, token: str, query: str = "") -> dict[str, Any]:
        answer = self.ask("GET", f"/game/saves{query}", bearer=token)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def has_caught_up(self) -> bool:
        """Return whether the standby has everything that the primary has written."""
        [(written,)] = self.cluster.execute("SELECT pg_current_wal_lsn()")
        return self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == [(True,)]
