import socket
from contextlib import closing

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.service.listen import (
    EXAMPLES,
    Listener,
    check_listeners,
    describe,
    describe_inherited,
    numbered,
    own_url,
    parse_listener,
    probe,
    refuse_repeated,
)
from gamed.config.model import Config
from tests.cli.process import folder_of
from tests.support.covers import covers

PLAIN, HTTPS = Config(), Config(public_url="https://play.example.org")
LOOPBACK_URL = Config(public_url="http://localhost:8080")


def parse(text: str) -> Listener:
    return parse_listener(MemoryReactorClock(), text)


class DescribedTests(SynchronousTestCase):
    def test_local(self) -> None:
        """Only this machine reaches loopback addresses and unix sockets; no interface means all of them."""
        local = [
            "tcp:8080:interface=127.0.0.1",
            "tcp:port=8080:interface=127.0.0.9",
            "tcp6:8080:interface=\\:\\:1",
            "tcp:8080:interface=localhost",
            "unix:/run/gamed.sock",
            "unix:address=/run/g.sock:mode=660",
            "unix:/run/gamed.sock:660",
        ]
        for text in local:
            self.assertTrue(parse(text).local, text)
        for text in [
            "tcp:8080",
            "tcp:8080:interface=",
            "tcp:8080:interface=0.0.0.0",
            "tcp:8080:interface=192.168.1.5",
            "tcp6:8080",
            "tcp6:8080:interface=\\:\\:",
            "tcp:8080:backlog=7",
        ]:
            self.assertFalse(parse(text).local, text)

    def test_parts(self) -> None:
        """Host, port and path are read as Twisted reads them."""
        self.assertEqual((parse("tcp:8080:interface=127.0.0.1").host, parse("tcp:8080").port), ("127.0.0.1", 8080))
        self.assertEqual(parse("tcp6:80:interface=\\:\\:1").host, "::1")
        self.assertEqual(parse("unix:/run/a\\:b").path, "/run/a:b")

    def test_not_an_endpoint(self) -> None:
        """Refuse a string that Twisted cannot listen on, with an example of an endpoint."""
        for text in (
            "",
            ":8080",
            "tcp",
            "tcp:",
            "tcp:http",
            "tcp:8080:interfaces=x",
            "nonsense:8080",
            "unix",
            "unix:/s:mode=none",
            "unix:/s:none",
            "unix:/s:660:mode=600",
            "tcp:1:2:3:4",
            "systemd:domain=INET:index=0",
            "ssl:8443:privateKey=/none.pem",
        ):
            self.assertIn(f"Expected {EXAMPLES}.", str(self.assertRaises(SetupError, parse, text)), text)

    def test_addresses(self) -> None:
        """Accept a port, which is for this machine only, and an address with a port, as other servers do."""
        for text, host, port, local in (
            ("9000", "127.0.0.1", 9000, True),
            ("127.0.0.1:9000", "127.0.0.1", 9000, True),
            ("localhost:9000", "localhost", 9000, True),
            ("0.0.0.0:9000", "0.0.0.0", 9000, False),
            ("192.168.1.5:80", "192.168.1.5", 80, False),
            ("[::1]:9000", "::1", 9000, True),
            ("[0:0::1]:9000", "::1", 9000, True),
            ("[::]:9000", "::", 9000, False),
        ):
            listener = parse(text)
            self.assertEqual((listener.host, listener.port, listener.local), (host, port, local), text)
            self.assertEqual(listener.name, f"--listen {text}")

    def test_no_address(self) -> None:
        """Show the accepted forms for anything that only resembles an address."""
        for text in (
            "999.1.1.1:80",
            "1.2:80",
            "[::g]:80",
            "[1.2.3.4]:80",
            "[]:80",
            "[::1]",
            "::1:80",
            "host:80",
            "80 ",
        ):
            self.assertIn(f"Expected {EXAMPLES}.", str(self.assertRaises(SetupError, parse, text)), text)

    def test_colons(self) -> None:
        """Show how to write an IPv6 address whose colons Twisted reads as separators."""
        for text, advice in (
            ("tcp:8090:interface=::1", "[::1]:8090"),
            ("tcp6:8090:interface=[::1]", "[::1]:8090"),
            ("tcp:port=81:interface=fe80::2", "[fe80::2]:81"),
            ("tcp6:8090:interface=::", "[::]:8090"),
        ):
            error = str(self.assertRaises(SetupError, parse, text))
            self.assertEqual(error, f"--listen {text}: Twisted reads these colons as separators. Write {advice}.")

    def test_workers(self) -> None:
        """Give the second worker the next port of an address, too."""
        self.assertEqual(numbered("9100", 2), "tcp:9101:interface=127.0.0.1")
        self.assertEqual(numbered("[::1]:9100", 2), "tcp6:9101:interface=\\:\\:1")

    def test_own_url(self) -> None:
        """Name the address by which this machine reaches the first TCP listener."""
        for texts, url in (
            (["8090"], "http://127.0.0.1:8090"),
            (["[::1]:8090"], "http://[::1]:8090"),
            (["[::]:8090"], "http://[::1]:8090"),
            (["tcp:80"], "http://127.0.0.1:80"),
            (["127.0.0.9:80"], "http://127.0.0.9:80"),
            (["unix:/run/g.sock", "192.168.1.5:80", "81"], "http://192.168.1.5:80"),
            (["0", "81"], None),
            (["unix:/run/g.sock"], None),
        ):
            self.assertEqual(own_url([parse(text) for text in texts]), url, texts)

    def test_no_port(self) -> None:
        """Refuse an invalid port before listening, with a message of gamed."""
        for port in ("-1", "65536", "99999999999999999999", "80x", "http", ""):
            error = self.assertRaises(SetupError, parse, f"tcp:{port}:interface=127.0.0.1")
            self.assertIn("the port is not one of 0 to 65535", str(error))

    def test_no_certificate(self) -> None:
        """A file that is no certificate, or no key, is one sentence too."""
        file = folder_of(self) / "server.pem"
        file.write_text("not PEM")
        error = self.assertRaises(SetupError, parse, f"ssl:8443:privateKey={file}")
        self.assertIn("the certificate or its key cannot be used", str(error))

    def test_reached(self) -> None:
        """Record an address for `gamed health` that leads to the same listener."""
        for text in ("tcp:8080:interface=127.0.0.1", "tcp:8080", "tcp6:80:interface=\\:\\:1", "unix:/run/g.sock"):
            listener = describe(parse(text).client_endpoint)
            self.assertEqual((listener.host, listener.port, listener.path), (parse(text).host, *_rest(parse(text))))
        self.assertEqual(
            [describe(text).client_host for text in ("tcp:1", "tcp6:1", "tcp:1:interface=0.0.0.0")],
            ["127.0.0.1", "::1", "127.0.0.1"],
        )


def _rest(listener: Listener) -> tuple[int, str]:
    return listener.port, listener.path


@covers("5/10", "5/11")
class CheckTests(SynchronousTestCase):
    def test_exposed_without_encryption(self) -> None:
        """A plain port that others reach needs an https address, or the owner's word that they do not (SPEC 5/10)."""
        exposed = [parse("tcp:8080")]
        for config in (PLAIN, LOOPBACK_URL):
            error = self.assertRaises(SetupError, check_listeners, exposed, config, private=False)
            self.assertIn("without encryption", str(error))
            self.assertIn("--private-listen", str(error))
            check_listeners(exposed, config, private=True)
        check_listeners(exposed, HTTPS, private=False)

    def test_the_port_that_was_meant(self) -> None:
        """The advice to stay on this machine has the owner's own port."""
        error = str(self.assertRaises(SetupError, check_listeners, [parse("tcp:9000")], PLAIN, private=False))
        self.assertIn("Listen on 127.0.0.1:9000;", error)

    def test_one_of_several(self) -> None:
        """One exposed port among local ones is enough to be refused, and is the one named."""
        both = [parse("tcp:8080:interface=127.0.0.1"), parse("tcp:8081:interface=192.168.1.5")]
        self.assertTrue(
            str(self.assertRaises(SetupError, check_listeners, both, PLAIN, private=False)).startswith(
                "--listen tcp:8081"
            )
        )

    def test_no_address(self) -> None:
        """Without public_url the address is the first tcp listener's: there must be one.

        See docs/owners/commands.md: Three ways to run the service.
        """
        unix = [parse("unix:/run/gamed.sock")]
        self.assertIn("public_url", str(self.assertRaises(SetupError, check_listeners, unix, PLAIN, private=False)))
        check_listeners(unix, LOOPBACK_URL, private=False)
        check_listeners([*unix, parse("tcp:8080:interface=127.0.0.1")], PLAIN, private=False)

    def test_unknown_port(self) -> None:
        """Refuse a port that the kernel chooses where links would have another host than 127.0.0.1."""
        error = self.assertRaises(SetupError, check_listeners, [parse("[::1]:0")], PLAIN, private=False)
        self.assertIn("needs a port", str(error))
        check_listeners([parse("0")], PLAIN, private=False)
        check_listeners([parse("[::1]:0")], LOOPBACK_URL, private=False)

    def test_inherited(self) -> None:
        """A socket that systemd passed is checked by the address it is bound to."""
        for address, local in (("127.0.0.1", True), ("0.0.0.0", False)):
            with closing(socket.create_server((address, 0))) as server:
                text = f"fd:{server.fileno()}"
                listener = describe_inherited(text, server.fileno(), socket.AF_INET)
                self.assertEqual(listener.local, local)
                self.assertEqual(describe(listener.client_endpoint).port, server.getsockname()[1])

    def test_inherited_unix(self) -> None:
        """The same with a unix socket: local, with its path noted."""
        path = str(folder_of(self) / "s")
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(path)
            server.listen()
            listener = describe_inherited("fd", server.fileno(), socket.AF_UNIX)
        self.assertTrue(listener.local)
        self.assertEqual(describe(listener.client_endpoint).path, path)
        self.assertRaises(SetupError, check_listeners, [listener], PLAIN, private=False)

    def test_inherited_reached(self) -> None:
        """`gamed health` finds an IPv6 socket, an abstract one, and one whose path has colons."""
        for family, address in (
            (socket.AF_INET6, ("::1", 0)),
            (socket.AF_UNIX, f"\0gamed-{id(self)}"),
            (socket.AF_UNIX, str(folder_of(self) / "a:b")),
        ):
            with closing(socket.socket(family)) as server:
                server.bind(address)
                server.listen()
                listener = describe_inherited("fd", server.fileno(), family)
                name = server.getsockname()
            noted = describe(listener.client_endpoint)
            self.assertTrue(listener.local)
            if family == socket.AF_INET6:
                self.assertEqual((noted.client_host, noted.port), name[:2])
            else:
                self.assertEqual(noted.path, address)

    def test_not_to_be_listened_on(self) -> None:
        """A socket of another family than the string says, or without a way to connect, is refused, not adopted."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            error = self.assertRaises(ValueError, describe_inherited, "fd", server.fileno(), socket.AF_UNIX)
        self.assertIn("domain=INET", str(error))
        with closing(socket.socket()) as idle, closing(socket.socket(type=socket.SOCK_DGRAM)) as datagrams:
            for each in (idle, datagrams):
                error = self.assertRaises(ValueError, describe_inherited, "fd", each.fileno(), socket.AF_INET)
                self.assertIn("not a listening stream socket", str(error))
        with open(__file__, "rb") as file:
            self.assertRaises(OSError, describe_inherited, "fd", file.fileno(), socket.AF_INET)


class RepeatedTests(SynchronousTestCase):
    def test_given_twice(self) -> None:
        """One endpoint given twice is refused in these words."""
        twice = [parse("tcp:8080:interface=127.0.0.1")] * 2
        error = str(self.assertRaises(SetupError, refuse_repeated, twice))
        self.assertEqual(error, "--listen tcp:8080:interface=127.0.0.1 is given twice. Leave one of them out.")

    def test_one_port_in_two_words(self) -> None:
        """Two endpoints that the kernel would not open side by side are refused, and both are named."""
        for one, other in (
            ("tcp:8080:interface=127.0.0.1", "tcp:port=8080:interface=127.0.0.1"),
            ("tcp:8080:interface=localhost", "tcp:8080:interface=127.0.0.1"),
            ("tcp:8080", "tcp:8080:interface=127.0.0.1"),
            ("tcp:8080:interface=0.0.0.0", "tcp:8080"),
            ("tcp6:8080", "tcp6:8080:interface=\\:\\:1"),
            ("unix:/run/g.sock", "unix:/run/./g.sock:mode=660"),
        ):
            error = str(self.assertRaises(SetupError, refuse_repeated, [parse("tcp:1"), parse(one), parse(other)]))
            self.assertIn(f"--listen {one} and --listen {other} name one", error)

    def test_side_by_side(self) -> None:
        """Other ports, other addresses, both families, ports that the kernel chooses: all of them may be given."""
        for texts in (
            ["tcp:8080:interface=127.0.0.1", "tcp:8081:interface=127.0.0.1"],
            ["tcp:8080:interface=127.0.0.1", "tcp:8080:interface=127.0.0.2"],
            ["tcp:8080", "tcp6:8080"],
            ["tcp:8080:interface=127.0.0.1", "tcp6:8080:interface=\\:\\:1"],
            ["tcp:0", "tcp:0"],
            ["unix:/run/a.sock", "unix:/run/b.sock", "tcp:8080"],
        ):
            refuse_repeated([parse(text) for text in texts])


class ProbeTests(SynchronousTestCase):
    def test_taken(self) -> None:
        """A port that another program listens on is one sentence; a free one is free again afterwards."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            taken = parse(f"tcp:{server.getsockname()[1]}:interface=127.0.0.1")
            self.assertIn("taken by another program", str(self.assertRaises(CommandFailed, probe, [taken])))
        probe([taken])
        probe([taken])

    def test_taken_everywhere(self) -> None:
        """A port taken on one address is taken for all addresses."""
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            error = self.assertRaises(CommandFailed, probe, [parse(f"tcp:{server.getsockname()[1]}")])
        self.assertIn("taken by another program", str(error))

    def test_not_ours(self) -> None:
        """An address that this machine does not have is named as the reason; it may have it once its network is up."""
        error = self.assertRaises(CommandFailed, probe, [parse("tcp:8080:interface=192.0.2.77")])
        self.assertIn("Cannot assign requested address", str(error))

    def test_unix(self) -> None:
        """A socket file left by a killed server is no obstacle; one that answers is."""
        path = folder_of(self) / "gamed.sock"
        listener = parse(f"unix:{path}")
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(str(path))
            server.listen()
            self.assertIn("another program listens there", str(self.assertRaises(CommandFailed, probe, [listener])))
        probe([listener])
        self.assertTrue(path.is_socket())

    def test_no_place_for_a_unix_socket(self) -> None:
        """A missing folder, or another file in the socket's place, is reported before the start."""
        folder = folder_of(self)
        (folder / "file").touch()
        for path, expected in (
            (folder / "none" / "s", "is not a folder that can be written"),
            (folder / "file", "another file has that name"),
            (folder / ("long" * 30), "path too long"),
        ):
            error = self.assertRaises(SetupError, probe, [parse(f"unix:{path}")])
            self.assertIn(expected, str(error))
