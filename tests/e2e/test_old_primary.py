"""A primary that returns after its standby was promoted: no server that has noted the new one uses the old one."""

import json
import time

from gamed.config.settings import DATABASE_NOTE
from tests.e2e.client import gamed
from tests.e2e.postgresql_load import until_answered, wait_until
from tests.e2e.service import Service
from tests.e2e.test_postgresql_replicas import ANSWER_SECONDS, ReplicaCase
from tests.e2e.wire import Answer, ask

NEW = "00000002"
"""The timeline of a standby that was promoted once."""
AWAY_SECONDS = 3.0
REFUSED = "A standby has taken the place of this PostgreSQL server, which is older than when gamed last served it."


class OldPrimaries(ReplicaCase):
    """`self.cluster` is db1, the first host of the address; `self.standby` is db2."""

    def setUp(self) -> None:
        super().setUp()
        self.token = self.credentials("anna")["access_token"]
        self.assertEqual(self.put(self.service, "first").status, 201)

    def put(self, service: Service, slot: str) -> Answer:
        headers = {"If-None-Match": "*"}
        return ask(service.port, "PUT", f"/game/saves/{slot}", body=b"1", bearer=self.token, headers=headers)

    def slots(self, service: Service) -> set[str]:
        listed = ask(service.port, "GET", "/game/saves", bearer=self.token)
        return {save["slot"] for save in listed.json["saves"]}

    def fail_over(self) -> None:
        """Promote db2 in place of db1, and write a save there."""
        self.cluster.stop("immediate")
        self.standby.promote()
        until_answered(self.service.port, "GET", "/healthz", 200, ANSWER_SECONDS)
        wait_until(lambda: self.put(self.service, "second").status == 201)

    def db1_returns(self) -> None:
        """Start db1 as it was: a primary on its own timeline, which waits for no standby."""
        self.cluster.configure({"synchronous_standby_names": ""})
        self.cluster.start()

    def noted(self, service: Service) -> str:
        return str(json.loads((service.data / DATABASE_NOTE).read_text("utf-8"))["timeline"])

    def written_there(self) -> int:
        """Return the number of saves on db1."""
        [(count,)] = self.cluster.execute("SELECT count(*) FROM state.save", self.address.database)
        return int(count)

    def refused_start(self) -> None:
        """Check that machine A does not start, and names the reason."""
        before = len(self.service.text())
        self.service.begin()
        self.assertEqual(self.service.wait(), 78, self.service.text())
        self.assertIn(REFUSED, self.service.text()[before:])

    def test_restart(self) -> None:
        """Machine A restarts while db1 and db2 are primaries: it refuses to start with db1, and doctor reports it;
        machine B continues with db2, also in new connections, and so does A once db1 is down."""
        other = self.new_service(self.servers_url, self.service)
        self.addCleanup(other.close)
        other.start()
        self.fail_over()
        wait_until(lambda: {self.noted(each) for each in (self.service, other)} == {NEW})
        self.assertEqual(self.service.terminate(), 0)
        self.db1_returns()
        self.refused_start()
        with self.assertRaises(AssertionError) as found:
            gamed(self.service, "doctor")
        self.assertIn(REFUSED, str(found.exception))
        with self.assertRaises(AssertionError) as found:
            gamed(self.service, "players", "add", "berta", "--password-stdin", stdin="correct horse\n")
        self.assertIn(REFUSED, str(found.exception))
        self.standby.end_backends(self.address.database)
        wait_until(lambda: self.put(other, "third").status == 201)
        wait_until(lambda: "database_host_skipped" in other.text())
        self.assertEqual(self.written_there(), 1)
        self.cluster.stop("immediate")
        self.service.start()
        self.assertEqual(self.slots(self.service), {"first", "second", "third"})

    def test_noted_at_once(self) -> None:
        """The new timeline is noted before the first write there, so that a server that is killed then knows it."""
        self.fail_over()
        self.assertEqual(self.noted(self.service), NEW)
        self.service.kill()
        self.db1_returns()
        self.refused_start()

    def test_reconnect(self) -> None:
        """A running server that reaches only db1, while db2 is away, writes nothing there and waits for db2."""
        self.fail_over()
        self.db1_returns()
        self.standby.stop("immediate")
        statuses = set()
        began = time.monotonic()
        while time.monotonic() < began + AWAY_SECONDS:
            statuses.add(self.put(self.service, "away").status)
            time.sleep(0.2)
        self.assertEqual((statuses, self.written_there()), ({503}, 1))
        self.assertIn("database_host_skipped", self.service.text())
        self.standby.start()
        wait_until(lambda: self.put(self.service, "back").status == 201)
        self.assertFalse(self.service.has_ended)
        self.assertEqual(self.written_there(), 1)

    def test_unknown(self) -> None:
        """A machine that never noted db2 uses db1, as the page states."""
        self.fail_over()
        self.db1_returns()
        other = self.new_service(self.servers_url, self.service)
        self.addCleanup(other.close)
        other.start()
        self.assertEqual(self.slots(other), {"first"})
