"""The session stays: one refresh at a time, and no pair is used before it is on disk (docs/protocol.md: Sessions)."""

import json
import subprocess
import sys
import threading

from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import LOST, problem
from tests.support.covers import covers
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import gamed_client as gc

REFRESH = "/auth/session/refresh"


class Renewal(ClientCase):
    """The time of the refresh."""

    def test_before_it_expires(self) -> None:
        """The client refreshes shortly before the end by the server's seconds, not earlier."""
        client = self.signed_in()
        self.clock += self.fake.access_seconds - gc.EARLY_SECONDS - 1
        client.whoami()
        self.assertEqual(self.fake.requests(REFRESH), [])
        self.clock += 2
        client.whoami()
        self.assertEqual([seen.bearer for seen in self.fake.requests("/game/")], ["gat_ses_1_1", "gat_ses_1_2"])
        self.assertEqual(self.on_disk().refresh_credential, "grc_ses_1_2")

    def test_short_lifetime(self) -> None:
        """A token that lives for 20 s is used for 18 s, also by a process that starts meanwhile."""
        self.fake.access_seconds = 20
        self.signed_in()
        self.clock += 17
        self.another().whoami()
        self.assertEqual(self.fake.requests(REFRESH), [])
        self.clock += 2
        self.another().whoami()
        self.assertEqual(len(self.fake.requests(REFRESH)), 1)

    def test_file_without_lifetime(self) -> None:
        """A credential file of an older version of the client keeps the player signed in."""
        client = self.signed_in()
        path = client.folder / f"{client.place}.json"
        value = json.loads(path.read_text())
        del value["access_lifetime"]
        path.write_text(json.dumps(value))
        self.clock += self.fake.access_seconds - gc.EARLY_SECONDS - 1
        self.another().whoami()
        self.assertEqual(self.fake.requests(REFRESH), [])

    def test_refused_token(self) -> None:
        """A rejected token is renewed once and the request repeated, with its body."""
        for code in ["token_expired", "token_invalid"]:
            client = self.signed_in()
            self.fake.scripted["PUT", "/game/saves/auto"].append(problem(401, code))
            client.put("auto", code.encode(), base="*" if self.fake.saves else None)
            self.assertEqual(self.fake.saves["auto"][1], code.encode())

    def test_once(self) -> None:
        """A server that rejects the new token, too, is not asked a third time."""
        client = self.signed_in()
        self.fake.scripted["GET", "/game/"].extend([problem(401, "token_invalid")] * 9)
        self.raised(gc.SignInRequired, "token_invalid", client.whoami)
        self.assertEqual(len(self.fake.requests("/game/")), 2)
        self.assertEqual(len(self.fake.requests(REFRESH)), 1)

    def test_stored_access_token(self) -> None:
        """A new process uses the stored access token instead of refreshing."""
        self.signed_in()
        self.another().whoami()
        self.assertEqual(self.fake.requests(REFRESH), [])


class Lost(ClientCase):
    """Lost responses."""

    def test_lost_answer(self) -> None:
        """The same credential is sent again and returns the same successor."""
        client = self.signed_in()
        self.clock += 1000
        self.fake.after["POST", REFRESH].append(LOST)
        client.whoami()
        self.assertEqual(
            [seen.json for seen in self.fake.requests(REFRESH)], [{"refresh_credential": "grc_ses_1_1"}] * 2
        )
        self.assertEqual(self.on_disk().refresh_credential, "grc_ses_1_2")

    @covers("threats/28")
    def test_written_before_use(self) -> None:
        """The new pair is on disk before its first use."""
        client, found = self.signed_in(), []

        def look(request) -> None:
            if request.path == "/game/":
                found.append((request.bearer, self.on_disk().access_token))

        self.fake.watch = look
        self.clock += 1000
        client.whoami()
        self.assertEqual(found, [("gat_ses_1_2", "gat_ses_1_2")])

    def test_cannot_be_written(self) -> None:
        """A pair that cannot be written is not used: the old credential returns it again later."""
        client = self.signed_in()
        self.clock += 1000

        def full(path, data) -> None:
            raise OSError(28, "No space left on device")

        disk = self.patch(gc, "write_whole", full)
        self.assertEqual(self.assertRaises(gc.LocalDamaged, client.whoami).code, "local_disk")
        self.assertEqual(self.fake.requests("/game/"), [])
        disk.restore()
        self.assertEqual(client.whoami()["player"]["id"], "ply_1")
        self.assertEqual(self.fake.generation, 2)


class SingleFlight(ClientCase):
    """Several callers at once."""

    def test_threads(self) -> None:
        """Sixteen threads of one client need one refresh."""
        client = self.signed_in()
        self.clock += 1000
        threads = [threading.Thread(target=client.whoami) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.fake.requests(REFRESH)), 1)
        self.assertEqual({seen.bearer for seen in self.fake.requests("/game/")}, {"gat_ses_1_2"})
        self.assertEqual(len(self.fake.requests("/game/")), 16)

    def test_clients(self) -> None:
        """Several clients that share a folder need one refresh, and none is refused."""
        self.signed_in()
        self.clock += 1000
        threads = [threading.Thread(target=self.another().whoami) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.fake.requests(REFRESH)), 1)

    @covers("threats/26")
    def test_processes(self) -> None:
        """Several processes need one refresh."""
        self.fake.access_seconds = 0
        self.signed_in()  # by the clock of this test: expired long ago for the processes
        self.fake.access_seconds = 900
        command = [sys.executable, str(PATH), "--server", self.server, "--folder", str(self.folder), "whoami"]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        outcomes = [(*process.communicate(timeout=120), process.returncode) for process in processes]
        self.assertEqual([outcome[1:] for outcome in outcomes], [(b"", 0)] * 4)
        self.assertEqual(len(self.fake.requests(REFRESH)), 1)
        self.assertEqual(self.on_disk().refresh_credential, "grc_ses_1_2")
