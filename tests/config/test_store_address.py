from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.authentication import load
from gamed.config.errors import ConfigError, InvalidValue
from gamed.config.model import Checkpoints, PostgresqlAddress
from gamed.config.store_address import LIBPQ_VARIABLES, OWN, load_store, parse_store
from tests.config.fixtures import ENVIRON, LOCAL, changed, load_config, reader
from tests.support.covers import covers

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
FILES = {AUTHORITIES: b"certificates", "/etc/gamed/ca.crt": b"one", "/etc/gamed/own.crt": b"two", "/k/own.key": b"key"}
SERVER = "postgresql://gamed@db.example.org/gamed"
SOCKET = "postgresql:///gamed?host=/run/postgresql&user=gamed"
STORED = changed(LOCAL, master_key_env="GAMED_MASTER_KEY", store=SERVER)
PASSWORD = "hush-hush-hush"


def address(url: str, environ: Mapping[str, str] = ENVIRON, **members: Any) -> PostgresqlAddress:
    """Return the address of a configuration with this URL."""
    found = load_config(changed(STORED, store=url, **members), environ, FILES).config.store
    assert found is not None
    return found


def problems(environ: Mapping[str, str] = ENVIRON, **members: Any) -> list[str]:
    """Return the complaints, without their position, about a configuration with these members."""
    try:
        load_config(changed(STORED, **members), environ, FILES)
    except ConfigError as e:
        return [line.split(": ", 1)[1] for line in str(e).split("\n")]
    return []


class AddressTests(SynchronousTestCase):
    def test_default(self) -> None:
        """A configuration without a store uses SQLite, whose log gamed itself copies into the database."""
        config = load_config(LOCAL).config
        self.assertEqual((config.store, config.checkpoints), (None, Checkpoints.OWN))

    def test_one_server(self) -> None:
        """A server on another machine is used at the default port, as primary, with a certificate that is verified."""
        found = address(SERVER)
        self.assertEqual(
            found.conninfo,
            {
                "host": "db.example.org",
                "port": "5432",
                "user": "gamed",
                "dbname": "gamed",
                "sslmode": "verify-full",
                "sslrootcert": AUTHORITIES,
                "target_session_attrs": "read-write",
            },
        )
        self.assertEqual((found.password, found.url), (None, "postgresql://db.example.org/gamed"))

    def test_several_servers(self) -> None:
        """Several hosts have one port each, or one for all; the other scheme and capital letters mean the same."""
        for url, ports in (
            ("postgres://gamed@A.lan,[2001:db8::1]:5433/gamed", "5432,5433"),
            ("postgresql://gamed@/gamed?host=a.lan,2001:db8::1&port=5433", "5433,5433"),
        ):
            found = address(url).conninfo
            self.assertEqual((found["host"], found["port"]), ("a.lan,2001:db8::1", ports), url)

    def test_socket(self) -> None:
        """A unix socket is named by its folder, behind the question mark or in place of the host."""
        for url in (SOCKET, "postgresql://gamed@%2Frun%2Fpostgresql/gamed"):
            found = address(url)
            self.assertEqual((found.conninfo["host"], found.conninfo["sslmode"]), ("/run/postgresql", "prefer"), url)
            self.assertEqual(found.url, "postgresql:///gamed?host=/run/postgresql&port=5432")

    @covers("threats/69")
    def test_shown(self) -> None:
        """Messages show hosts, ports that are not the default, and the name of the database."""
        for url, shown in (
            ("postgresql://gamed@a.lan:5432,b.lan:5433/g", "postgresql://a.lan,b.lan:5433/g"),
            ("postgresql://gamed@[::1]:5433/g", "postgresql://[::1]:5433/g"),
        ):
            self.assertEqual(address(url).url, shown)

    def test_names(self) -> None:
        """Names have other characters as percent escapes of UTF-8."""
        found = address("postgresql://an%20n%C3%A4%40home@localhost/a%2Fb%25").conninfo
        self.assertEqual((found["user"], found["dbname"]), ("an nä@home", "a/b%"))

    def test_parameters(self) -> None:
        """Certificates, channel binding and the kind of server are passed to libpq."""
        query = "sslcert=/etc/gamed/own.crt&sslkey=/k/own.key&sslrootcert=/etc/gamed/ca.crt&channel_binding=require"
        found = address(f"{SERVER}?{query}&target_session_attrs=primary&sslmode=verify-full").conninfo
        given = dict(each.split("=") for each in query.split("&"))
        self.assertEqual({name: found[name] for name in given}, given)
        self.assertEqual((found["target_session_attrs"], found["sslmode"]), ("primary", "verify-full"))


class RefusalTests(SynchronousTestCase):
    def test_form(self) -> None:
        """Everything that is not a URL of PostgreSQL is refused with an example."""
        for value in (
            "sqlite",
            "",
            "host=db dbname=gamed",
            "https://db/gamed",
            "Postgresql://g@db/g",
            1,
            None,
            True,
            [],
        ):
            [complaint] = problems(store=value)
            self.assertTrue(complaint.startswith('store: expected an address such as "postgresql://gamed@'), complaint)
            self.assertIn("leave store out to use SQLite", complaint)

    def test_incomplete(self) -> None:
        """User, host and database have no default: libpq's would depend on the user who runs the command."""
        for url, missing in (
            ("postgresql://db.lan/gamed", "the user is missing"),
            ("postgresql://gamed@/gamed", "the host is missing"),
            ("postgresql://gamed@db.lan", "the name of the database is missing"),
            ("postgresql://gamed@db.lan/", "the name of the database is missing"),
        ):
            [complaint] = problems(store=url)
            self.assertIn(missing, complaint, url)
        self.assertEqual(len(problems(store="postgresql://")), 3)

    def test_hosts(self) -> None:
        """Each host is a name, an address or a socket's folder, and each port a number up to 65535."""
        for hosts in (
            "a..b",
            "-a",
            "a b",
            "1.2.3",
            "1.2.3.400",
            "[::1",
            "[::1]x",
            "::1",
            "[::g]",
            "a,,b",
            "é",
            "%2F%0A",
        ):
            found = problems(store=f"postgresql://gamed@{hosts}/gamed")
            self.assertTrue(found, hosts)
        for ports in ("0", "65536", "x", "5432:1", "+1", "५"):
            found = problems(store=f"postgresql://gamed@localhost:{ports}/gamed")
            self.assertIn(
                "store: expected ports from 1 to 65535: one for all hosts, or one for each", found[-1:], ports
            )
        self.assertTrue(problems(store=f"postgresql://gamed@{','.join(['localhost'] * 17)}/gamed"))
        self.assertTrue(problems(store="postgresql://gamed@a,b/gamed?port=1"))

    def test_characters(self) -> None:
        """A very long address, control characters, and half a percent escape are refused."""
        for end in ("x" * 2048, "\n", "\x7f", " ", "%", "%2", "%zz"):
            self.assertEqual(len(problems(store=f"{SERVER}{end}")), 1, end)
        for name in ("%FF", "%00", "x" * 64, "a%3Db"):
            self.assertEqual(len(problems(store=f"postgresql://gamed@localhost/{name}")), 1, name)

    @covers("threats/69")
    def test_password_in_the_address(self) -> None:
        """A password at any place of the address is refused with advice, and no part of it is shown."""
        for url in (
            f"postgresql://gamed:{PASSWORD}@db.lan/gamed",
            f"postgresql://gamed:{PASSWORD}/hush@db.lan/gamed",
            f"postgresql://gamed:{PASSWORD}@hush@db.lan/gamed",
            f"postgresql://gamed:?hush={PASSWORD}@db.lan/gamed",
            f"postgresql://gamed@lan:{PASSWORD}?hush=hush@db.lan/gamed",
            f"postgresql://gamed@db.lan/gamed?password={PASSWORD}",
            f"{SOCKET}&sslpassword={PASSWORD}",
            f"{SOCKET}&passfile=/{PASSWORD}",
        ):
            [complaint] = problems(store=url)
            self.assertIn("the password itself is never written to this file", complaint, url)
            self.assertIn("store_password_env", complaint)
            self.assertNotIn("hush", complaint)

    def test_values_are_not_shown(self) -> None:
        """No complaint repeats a value of the address, nor a text that is no parameter."""
        for url in (f"postgresql://gamed@{PASSWORD}:hush/gamed?hush", f"{SERVER}?sslmode=hush&user=hush&hush"):
            self.assertNotIn("hush", "".join(problems(store=url)), url)

    def test_other_parameters(self) -> None:
        """Parameters that gamed sets itself, unknown ones, empty ones and those given twice are refused by name."""
        for name in OWN:
            self.assertEqual(problems(store=f"{SERVER}?{name}=1"), [f"store: gamed sets {name} itself; leave it out"])
        self.assertEqual(
            problems(store=f"{SERVER}?sslmod=a&zzz=1&sslmode=&host=x"),
            [
                "store: sslmod is not accepted; did you mean sslmode?",
                "store: zzz is not accepted; known are host, port, user, dbname, sslmode, channel_binding, "
                "target_session_attrs, sslrootcert, sslcert, sslkey, sslcrl",
                "store: sslmode has no value",
                "store: host is given twice",
            ],
        )

    def test_standby(self) -> None:
        """gamed reads and writes on the primary only: a wish for a standby is refused."""
        self.assertEqual(
            problems(store=f"{SERVER}?target_session_attrs=any"),
            ["store: expected target_session_attrs=read-write or primary"],
        )


class CertificateTests(SynchronousTestCase):
    @covers("threats/68")
    def test_verified(self) -> None:
        """Less than a verified certificate is accepted only if every host is on this machine."""
        for mode in ("disable", "allow", "prefer", "require", "verify-ca"):
            for hosts in ("localhost", "127.0.0.1,[::1]:5433", "127.0.0.2", "%2Frun"):
                found = address(f"postgresql://gamed@{hosts}/gamed?sslmode={mode}").conninfo
                self.assertEqual(found["sslmode"], mode)
            for hosts in ("db.lan", "10.0.0.1", "localhost,db.lan", "%2Frun,db.lan", "localhost.lan"):
                [complaint] = problems(store=f"postgresql://gamed@{hosts}/gamed?sslmode={mode}")
                self.assertIn("store: expected sslmode=verify-full, or no sslmode", complaint)

    def test_default_on_this_machine(self) -> None:
        """A server on this machine needs no certificate, unless the address names an authority for it."""
        found = address("postgresql://gamed@localhost/gamed").conninfo
        self.assertEqual((found["sslmode"], "sslrootcert" in found), ("prefer", False))
        found = address("postgresql://gamed@localhost/gamed?sslrootcert=/etc/gamed/ca.crt").conninfo
        self.assertEqual(found["sslmode"], "verify-full")

    def test_system_authorities(self) -> None:
        """The authorities of the system are the file that SSL_CERT_FILE names, else the first of the usual files."""
        environ = {**ENVIRON, "SSL_CERT_FILE": "/etc/gamed/ca.crt"}
        for url in (SERVER, f"{SERVER}?sslrootcert=system"):
            self.assertEqual(address(url, environ).conninfo["sslrootcert"], "/etc/gamed/ca.crt")
            self.assertEqual(address(url).conninfo["sslrootcert"], AUTHORITIES)
        error = self.assertRaises(ConfigError, load_config, STORED)
        self.assertIn("store: the system has no file with certificate authorities. Install ca-cert", str(error))

    def test_files(self) -> None:
        """Named files have absolute paths and can be read; a certificate has a key."""
        self.assertEqual(
            problems(store=f"{SERVER}?sslrootcert=/none/ca.crt"),
            ["store: the file that sslrootcert names cannot be read: No such file or directory"],
        )
        self.assertEqual(
            problems(store=f"{SERVER}?sslrootcert=ca.crt"),
            ["store: expected sslrootcert to be the absolute path of a file"],
        )
        self.assertEqual(
            problems(store=f"{SERVER}?sslcert=/etc/gamed/own.crt"),
            ["store: sslcert and sslkey belong together; name both or none"],
        )


class SecretTests(SynchronousTestCase):
    named = changed(STORED, store_password_env="GAMED_STORE_PASSWORD")

    def test_sources(self) -> None:
        """The password comes from a variable, the file that its _FILE form names, or a credential."""
        files = {**FILES, "/run/pw": b"h\xc3\xbcsh : x\n", "/creds/GAMED_STORE_PASSWORD": b"h\xc3\xbcsh : x"}
        for environ in (
            {"GAMED_STORE_PASSWORD": "hüsh : x"},
            {"GAMED_STORE_PASSWORD_FILE": "/run/pw"},
            {"CREDENTIALS_DIRECTORY": "/creds"},
        ):
            found = load_config(self.named, ENVIRON | environ, files)
            assert found.config.store is not None and found.config.store.password is not None
            self.assertEqual(found.config.store.password.reveal(), "hüsh : x".encode())
            self.assertIn("GAMED_STORE_PASSWORD", found.secret_names)
            self.assertNotIn("sh : x", repr(found))

    def test_missing(self) -> None:
        """A password that is named and not set is reported like every secret."""
        self.assertEqual(
            problems(store_password_env="GAMED_STORE_PASSWORD"),
            [
                "store_password_env: GAMED_STORE_PASSWORD is not set; nor is its _FILE form, "
                "nor a credential of that name"
            ],
        )

    def test_malformed(self) -> None:
        """An empty file, control characters and bytes that are not UTF-8 are refused, and not shown."""
        environ = {**ENVIRON, "GAMED_STORE_PASSWORD_FILE": "/pw"}
        for content in (b"", b"\n", b"hu\nsh", b"hush\n\n", b"hu\0sh", b"hu\xffsh", b"h" * 513):
            error = self.assertRaises(ConfigError, load_config, self.named, environ, {**FILES, "/pw": content})
            self.assertIn("the password must be 1 to 512 bytes of UTF-8", str(error))
            self.assertNotIn("hu", str(error).partition("the password must")[2])

    @covers("threats/69")
    def test_in_the_file(self) -> None:
        """A password in the configuration file is refused, and not shown."""
        [complaint] = problems(store_password=PASSWORD)
        self.assertIn("store_password: no such member here; the password itself is never written", complaint)
        self.assertNotIn("hush", complaint)

    def test_one_variable_for_two_secrets(self) -> None:
        """The password has another variable than the master key."""
        self.assertIn(
            "store_password_env: names the master key's variable; name another variable",
            problems(store_password_env="GAMED_MASTER_KEY"),
        )

    def test_without_store(self) -> None:
        """A password without a store is an error: the operator believes that PostgreSQL is used."""
        config = changed(LOCAL, store_password_env="GAMED_MASTER_KEY")
        error = self.assertRaises(ConfigError, load_config, config)
        self.assertIn("store_password_env: belongs to a PostgreSQL store; set store, or leave this out", str(error))

    @covers("threats/68")
    def test_variables_of_libpq(self) -> None:
        """libpq's own variables are erased, with a warning, unless the configuration names them: they change the
        address behind the operator's back, or have a password."""
        environ = {**ENVIRON, "PGHOSTADDR": "192.0.2.1", "PGPASSWORD": PASSWORD, "PGDATA": "/srv"}
        found = load_config(STORED, environ, FILES)
        self.assertEqual(found.secret_names, ("GAMED_MASTER_KEY", "PGHOSTADDR", "PGPASSWORD"))
        [warning] = found.warnings
        self.assertIn("store: gamed ignores variables of libpq: PGHOSTADDR, PGPASSWORD", warning)
        named = load_config(changed(STORED, store_password_env="PGPASSWORD"), environ, FILES)
        self.assertEqual(named.secret_names, ("GAMED_MASTER_KEY", "PGPASSWORD", "PGHOSTADDR"))
        self.assertEqual(load_config(LOCAL, environ).secret_names, ())

    def test_every_variable_of_libpq(self) -> None:
        """Each variable that this machine's libpq reads is known."""
        from psycopg.pq import Conninfo

        read = {option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
        self.assertEqual(read - LIBPQ_VARIABLES, set())


class OtherMemberTests(SynchronousTestCase):
    def test_key_is_needed(self) -> None:
        """A PostgreSQL store needs a master key in local mode, too: a key file would be one machine's alone."""
        error = self.assertRaises(ConfigError, load_config, changed(LOCAL, store=SERVER), ENVIRON, FILES)
        self.assertEqual(
            str(error),
            "authentication.json:1:1: master_key_env: missing; a PostgreSQL store needs the name of the variable that "
            "holds the master key (`gamed key new` makes one)",
        )

    def test_checkpoints(self) -> None:
        """Another program may copy SQLite's log into the database; with PostgreSQL there is no such log."""
        found = load_config(changed(LOCAL, checkpoints="external")).config.checkpoints
        self.assertEqual(found, Checkpoints.EXTERNAL)
        for value, expected in (("own", []), ("litestream", ['checkpoints: expected "own" or "external"'])):
            refused = "checkpoints: belongs to SQLite; leave it out with a PostgreSQL store"
            self.assertEqual(problems(checkpoints=value), [*expected, refused])

    def test_driver(self) -> None:
        """A store whose driver is not installed is an error at its place in the file."""

        def require_driver() -> None:
            raise InvalidValue("PostgreSQL needs the library psycopg")

        text = f'{{"mode": "local", "master_key_env": "GAMED_MASTER_KEY",\n"store": "{SERVER}"}}'
        error = self.assertRaises(ConfigError, load, text, ENVIRON, reader(FILES), require_driver=require_driver)
        self.assertEqual(str(error), "authentication.json:2:10: store: PostgreSQL needs the library psycopg")

    def test_address_alone(self) -> None:
        """A command that needs no key reads the address alone, and reports its errors in the same way."""

        def loaded(text: str) -> tuple[PostgresqlAddress | None, tuple[str, ...]]:
            environ = {"STORE_PASSWORD": PASSWORD, "PGHOST": "x", "PGPORT": "1"}
            return load_store(text, environ, reader(FILES), "x.json", lambda: None)

        found, names = loaded(f'{{"mode": 7, "store": "{SERVER}", "store_password_env": "STORE_PASSWORD"}}')
        assert found is not None and found.password is not None
        self.assertEqual((found.conninfo, found.password.reveal()), (address(SERVER).conninfo, PASSWORD.encode()))
        self.assertEqual(names, ("STORE_PASSWORD", "PGHOST", "PGPORT"))
        self.assertEqual(loaded('{"mode": "local"}'), (None, ()))
        error = self.assertRaises(ConfigError, loaded, '{"store": 1}')
        self.assertTrue(str(error).startswith("x.json:1:11: store: expected an address"))

    def test_bounded(self) -> None:
        """An address of a megabyte is refused at once."""
        self.assertRaises(InvalidValue, parse_store, "postgresql://" + "a@:,%[" * 200_000)
