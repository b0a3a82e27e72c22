import os
import socket
from itertools import count

from twisted.trial.unittest import SynchronousTestCase

from gamed.ops.systemd import StartTimeoutExtender, SystemdNotifier
from tests.cli.process import folder_of
from tests.ops.systemd_manager import FakeManager


class ManagerTests(SynchronousTestCase):
    def test_both_kinds_of_socket(self) -> None:
        """A path and an abstract name reach the notifier, one datagram for each word; each text stays one line."""
        for name in (folder_of(self) / "notify", f"@gamed-{os.getpid()}-{id(self)}"):
            played = FakeManager(self, name)
            notifier = SystemdNotifier.from_environment({"NOTIFY_SOCKET": str(name)})
            notifier.notify("READY=1", "STATUS=serving")
            notifier.extend(1.5)
            notifier.status("caf\u00e9 \udce9\nREADY=1")
            played.wait_for("STATUS=café \\udce9 READY=1")
            expected = [["READY=1", "STATUS=serving"], ["EXTEND_TIMEOUT_USEC=1500000"]]
            self.assertEqual([message.lines for message in played.messages[:2]], expected)
            self.assertEqual({message.pid for message in played.messages}, {os.getpid()})

    def test_silence(self) -> None:
        """Without a notifier, with an address of another kind, and with one that is gone, nothing happens."""
        for environ in (
            {},
            {"NOTIFY_SOCKET": ""},
            {"NOTIFY_SOCKET": "vsock:2:1"},
            {"NOTIFY_SOCKET": "/nowhere/at all"},
        ):
            notifier = SystemdNotifier.from_environment(environ)
            self.assertIsNone(notifier.notify("READY=1"))
            self.assertIsNone(notifier.heartbeat_seconds)

    def test_full(self) -> None:
        """A notifier that reads nothing does not hold the service up: what it does not take is dropped."""
        path = folder_of(self) / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
            deaf.bind(str(path))
            while self.send_all_it_takes(str(path)):
                pass
            self.assertIsNone(SystemdNotifier(str(path)).notify("READY=1"))

    def send_all_it_takes(self, path: str) -> int:
        """How many datagrams one more sender could leave there: 0 once the notifier's side is full, too."""
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(sender.close)
        sender.setblocking(False)
        for sent in count():
            try:
                sender.sendto(b"x", path)
            except BlockingIOError:
                return sent

    def test_taken_out_of_the_environment(self) -> None:
        """The variables are gone afterwards, and no other: what the service starts is not taken for the service."""
        environ = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7", "PATH": "/bin"}
        self.assertEqual(SystemdNotifier.from_environment(environ), SystemdNotifier("@x", 3_000_000, 7))
        self.assertEqual(environ, {"PATH": "/bin"})

    def test_heartbeat(self) -> None:
        """Half of what the notifier waits, and only in the process it waits for."""
        for variables, seconds in (
            ({"WATCHDOG_USEC": "30000000"}, 15.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "-1"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
            ({}, None),
        ):
            notifier = SystemdNotifier.from_environment({"NOTIFY_SOCKET": "@x", **variables})
            self.assertEqual(notifier.heartbeat_seconds, seconds, variables)
        self.assertIsNone(SystemdNotifier.from_environment({"WATCHDOG_USEC": "30000000"}).heartbeat_seconds)

    def test_patience(self) -> None:
        """However often it is asked for, the notifier hears it at once, and then not before ten seconds have passed."""
        played = FakeManager(self, folder_of(self) / "notify")
        notifier = SystemdNotifier(played.address)
        patience = StartTimeoutExtender(notifier)
        for _ in range(100):
            patience.extend()
        notifier.status("end")
        played.wait_for("STATUS=end")
        self.assertEqual(played.lines, ["EXTEND_TIMEOUT_USEC=60000000", "STATUS=end"])
