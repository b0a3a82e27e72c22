"""A database that hangs, is full, or is replaced: the service refuses requests, ends on SIGTERM, and recovers."""

import contextlib
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import psycopg
from twisted.python import log

from tests.e2e.postgresql_cases import SAVERS, PostgresqlServiceCase
from tests.e2e.postgresql_load import Saver, until_answered
from tests.e2e.wire import ask
from tests.support.examples import examples
from tests.support.postgresql import Address, Cluster
from tests.support.relay import Relay

REFUSED_SECONDS = 17
RECOVERED_SECONDS = 20
STOP_SECONDS = 30
RESETS, STOPS = examples(few=2, many=10), examples(few=1, many=10)
ALLOWED_SECONDS = 6
"""A stopped process keeps its locks for two seconds, and each write takes some of them in turn."""
DISK = "64m"
SERVER_DISK = "256m"
BALLAST = 32 * 2**20
ENOUGH = 400


class OutageCase(PostgresqlServiceCase):
    def refuses(self) -> None:
        """Check that every request is answered within seconds, and so are the health checks."""
        until_answered(self.service.port, "GET", "/healthz", 503, REFUSED_SECONDS)
        self.assertEqual(ask(self.admin_port, "GET", "/readyz").status, 503)
        before = [client.refused for client in self.clients]
        deadline = time.monotonic() + REFUSED_SECONDS
        while any(client.refused == count for client, count in zip(self.clients, before, strict=True)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def recovers(self) -> None:
        """Check that reads and writes work again by themselves, and that nothing acknowledged was lost."""
        until_answered(self.service.port, "GET", "/healthz", 200, RECOVERED_SECONDS)
        until_answered(self.admin_port, "GET", "/readyz", 200, RECOVERED_SECONDS)
        self.progress()
        self.verify()
        self.assertLess(max(client.slowest for client in self.clients), REFUSED_SECONDS)

    def ends(self) -> None:
        """Check that SIGTERM ends the process, though requests wait."""
        waiting = Saver(self.service.port, SAVERS, self.token)
        waiting.start()
        self.addCleanup(waiting.enough.set)
        time.sleep(1)
        began = time.monotonic()
        self.assertEqual(self.service.terminate(), 0)
        took = time.monotonic() - began
        log.msg(f"stopped seconds={took:.2f}")
        self.assertLess(took, STOP_SECONDS)


class Stalled(OutageCase):
    """Stopped processes of the server: their connections stay open without a response."""

    def stall(self, pids: list[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.resume, pids)

    def resume(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def test_backends(self) -> None:
        """The server's processes for this service stop between two transactions: after a refusal at most, the service
        uses new ones for reads and writes."""
        token = self.credentials("one")["access_token"]
        self.assertEqual(self.ask("GET", "/game/saves", bearer=token).status, 200)
        self.stall(self.cluster.backends(self.address.database))
        begun = until_answered(self.service.port, "GET", "/game/saves/a", 404, RECOVERED_SECONDS, bearer=token)
        put = until_answered(self.service.port, "PUT", "/game/saves/a", 201, RECOVERED_SECONDS, bearer=token, body=b"1")
        until_answered(self.service.port, "GET", "/healthz", 200, RECOVERED_SECONDS)
        log.msg(f"stalled read={begun:.2f} write={put:.2f}")

    def test_whole_server(self) -> None:
        """While the whole server hangs, requests are refused within seconds, and SIGTERM ends the service; requests are
        answered once the server continues."""
        self.load()
        self.progress()
        pids = self.stall_all()
        self.refuses()
        self.resume(pids)
        self.recovers()
        self.stall_all()
        self.ends()

    def stall_all(self) -> list[int]:
        pids = [*self.cluster.backends(self.address.database), self.cluster.pid]
        self.stall(pids)
        return pids


class Silent(OutageCase):
    """A network that loses every packet."""

    tcp = True

    def url(self) -> str:
        self.relay = Relay(self.cluster.port)
        self.addCleanup(self.relay.close)
        return Address("127.0.0.1", self.relay.port, self.address.database).url

    def test_recovers(self) -> None:
        """Reset connections are replaced; while the network loses everything, requests are refused within seconds, and
        SIGTERM ends the service; requests are answered once the network works again."""
        self.load()
        for _ in range(RESETS):
            self.progress()
            self.relay.cut()
        self.progress()
        self.relay.silence()
        self.refuses()
        self.relay.resume()
        self.recovers()
        self.relay.silence()
        self.ends()


class RefusedConnections(OutageCase):
    def test_recovers(self) -> None:
        """A role that may not connect, or not as often as the service does, ends no process: requests are refused as
        long as that lasts."""
        self.load()
        for refusal, end in (("NOLOGIN", "LOGIN"), ("CONNECTION LIMIT 1", "CONNECTION LIMIT -1")):
            self.progress()
            self.cluster.execute(f"ALTER ROLE {self.address.user} {refusal}")
            self.cluster.end_backends(self.address.database)
            self.refuses()
            self.cluster.execute(f"ALTER ROLE {self.address.user} {end}")
        self.recovers()


class FullDisk(PostgresqlServiceCase):
    """The database is on a disk of a few MiB."""

    def url(self) -> str:
        disk = self.cluster.folder / "small"
        disk.mkdir()
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        owner = f"uid={self.cluster.data.stat().st_uid},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},{owner}", "tmpfs", str(disk)], check=True)
        self.cluster.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        self.cluster.execute(f"ALTER DATABASE {self.address.database} SET TABLESPACE small")
        self.ballast = disk / "ballast"
        return self.address.url

    def test_full_and_free_again(self) -> None:
        """Writes are refused as for a full disk, saves can be read, and with new space writes succeed."""
        token = self.credentials("one")["access_token"]
        kept: list[bytes] = []
        self.ballast.write_bytes(bytes(BALLAST))
        while len(kept) < ENOUGH:
            body = os.urandom(200_000)
            answer = self.ask("PUT", f"/game/saves/slot{len(kept)}", body=body, bearer=token)
            if answer.status != 201:
                break
            kept.append(body)
        self.assertEqual((answer.status, answer.json["code"]), (507, "storage_full"))
        self.assertGreater(len(kept), 3)
        for number, stored in enumerate(kept):
            self.assertEqual(self.ask("GET", f"/game/saves/slot{number}", bearer=token).body, stored)
        self.assertRegex(self.service.text(), r'disk_full queue=\w+ detail="could not extend file .* left on device')
        self.ballast.unlink()
        self.assertEqual(self.ask("PUT", "/game/saves/more", body=body, bearer=token).status, 201)
        self.load()
        self.progress()
        self.verify()


class FullServerDisk(PostgresqlServiceCase):
    """All files of the server are on a small disk, with its log."""

    def make_cluster(self) -> Cluster:
        self.disk = Path(mkdtemp(prefix="gamed-pg-disk-"))  # the server's user cannot reach the folder of a test
        self.addCleanup(self.disk.rmdir)
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.disk)], check=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SERVER_DISK},mode=755", "tmpfs", str(self.disk)], check=True
        )
        return Cluster(base=str(self.disk))

    def test_full_and_free_again(self) -> None:
        """The log names the full disk of the server once, and writes succeed as soon as there is space."""
        token = self.credentials("one")["access_token"]
        put = partial(self.ask, "PUT", body=os.urandom(200_000), bearer=token)
        self.assertEqual(put("/game/saves/first").status, 201)
        ballast = self.disk / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        for number in range(ENOUGH):
            if (answer := put(f"/game/saves/slot{number}")).status != 201:
                break
        self.assertEqual((answer.status, answer.json["code"]), (507, "storage_full"))
        self.assertEqual([put("/game/saves/last").status for _ in range(3)], [507] * 3)
        self.assertRegex(self.service.text(), r'disk_full queue=state detail="could not extend file .* left on device')
        self.assertEqual(self.ask("GET", "/game/saves/first", bearer=token).status, 200)
        ballast.unlink()
        self.assertEqual(put("/game/saves/more").status, 201)
        self.load()
        self.progress()
        self.verify()


class Locked(OutageCase):
    """Other sessions hold the locks of the writers."""

    def test_lock_timeout(self) -> None:
        """While another session holds the lock of all writers, writes are refused as busy in five seconds, and reads
        are answered; then writes succeed."""
        token = self.credentials("one")["access_token"]
        put = partial(self.ask, "PUT", "/game/saves/a", body=b"1", bearer=token)
        self.assertEqual(put().status, 201)
        with psycopg.connect(self.address.conninfo) as other:
            other.execute("SELECT pg_advisory_xact_lock(2, 0)")
            began = time.monotonic()
            answer = put()
            self.assertEqual((answer.status, answer.json["code"]), (503, "busy"), answer.body)
            self.assertIn("retry-after", answer.headers)
            self.assertTrue(3 < time.monotonic() - began < 8, time.monotonic() - began)
            self.assertEqual(self.ask("GET", "/game/saves/a", bearer=token).status, 200)
        self.assertEqual(put().status, 200)

    def test_stopped_process(self) -> None:
        """A process that is stopped in its transactions delays another one for two seconds only, and works again when
        it is continued."""
        other = self.new_service(self.url(), self.service)
        self.addCleanup(other.close)
        other.start()
        self.load()
        mine, self.clients = self.clients, []
        token = self.credentials("other")["access_token"]
        self.clients = [Saver(other.port, SAVERS + 10 + number, token) for number in range(SAVERS)]
        for client in self.clients:
            client.start()
            self.addCleanup(client.enough.set)
        for _ in range(STOPS):
            self.progress()
            os.kill(self.service.pid, signal.SIGSTOP)
            self.addCleanup(os.kill, self.service.pid, signal.SIGCONT)
            self.progress(20)
            self.assertLess(max(client.longest_gap for client in self.clients), ALLOWED_SECONDS)
            os.kill(self.service.pid, signal.SIGCONT)
        self.clients += mine
        self.recovers()
        self.assertNotIn("Traceback", other.text())
