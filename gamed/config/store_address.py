"""The members `store` and `store_password_env` say where the databases are on a PostgreSQL server.

The address is a URL of libpq with the parameters that gamed knows, and never has a password. Its hosts are checked so
that a password, and what players save, crosses no network without a verified certificate.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from re import ASCII, compile
from urllib.parse import unquote

from gamed.config.errors import InvalidValue, plain_word
from gamed.config.json_reader import ObjectReader, read_object, suggestion
from gamed.config.model import PostgresqlAddress
from gamed.config.secrets import ReadFile, SecretSources, store_password, variable_name
from gamed.structs import Component

EXAMPLE = 'expected an address such as "postgresql://gamed@db.example.org/gamed"'
SCHEMES = ("postgresql://", "postgres://")
PORT, STRICT, SYSTEM = "5432", "verify-full", "system"
MAX_ADDRESS, MAX_HOST, MAX_NAME_BYTES, MAX_SOCKET_BYTES, MAX_HOSTS, MAX_PORT = 2048, 253, 63, 90, 16, 65535
"""PostgreSQL cuts longer names; the kernel refuses longer paths of sockets, to which libpq appends `.s.PGSQL.5432`."""
FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
CHOICES: Mapping[str, Sequence[str]] = {
    "sslmode": ("verify-full", "verify-ca", "require", "prefer", "allow", "disable"),
    "channel_binding": ("require", "prefer", "disable"),
    "target_session_attrs": ("read-write", "primary"),
}
"""The values of parameters that have few; gamed reads from the primary only, so a standby is never wanted."""
ADDRESS = ("host", "port", "user", "dbname")
ACCEPTED = (*ADDRESS, *CHOICES, *FILES)
PASSWORDS = frozenset({"password", "passfile", "sslpassword", "scram_client_key", "scram_server_key"})
OWN = frozenset(
    {
        *("application_name", "fallback_application_name", "client_encoding", "options", "replication"),
        *("connect_timeout", "tcp_user_timeout", "gssencmode", "load_balance_hosts"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)
"""Parameters that gamed sets itself: its promises depend on them."""
NO_PASSWORD = (
    "the password itself is never written to this file: put it into an environment variable and name that in "
    "store_password_env. If this was a real password, set a new one"
)
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
"""The system's certificate authorities on Debian, Fedora and Alpine; psycopg's own OpenSSL looks at another place."""
LIBPQ_VARIABLES = frozenset(
    {
        *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGREQUIREAUTH"),
        *("PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGAPPNAME", "PGREQUIREPEER", "PGCHANNELBINDING"),
        *("PGSSLMODE", "PGREQUIRESSL", "PGSSLCERT", "PGSSLKEY", "PGSSLROOTCERT", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLSNI"),
        *("PGSSLCERTMODE", "PGSSLCOMPRESSION", "PGSSLNEGOTIATION", "PGSSLMINPROTOCOLVERSION"),
        *("PGSSLMAXPROTOCOLVERSION", "PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION", "PGGSSENCMODE", "PGGSSLIB"),
        *("PGKRBSRVNAME", "PGGSSDELEGATION", "PGCONNECT_TIMEOUT", "PGCLIENTENCODING", "PGTARGETSESSIONATTRS"),
        *("PGLOADBALANCEHOSTS", "PGDATESTYLE", "PGTZ", "PGGEQO"),
    }
)
"""Variables that libpq reads; with a store they are ignored, since they could lead to another database."""
_LABEL = compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", ASCII)
_NUMBER = compile(r"[1-9][0-9]{0,4}", ASCII)
_LONE_PERCENT = compile(r"%(?![0-9A-Fa-f]{2})", ASCII)


class StoreSources(Component, frozen=True, kw_only=True):
    """The sources of the address outside of the configuration file: variables, certificates, and the driver."""

    environ: Mapping[str, str]
    read_file: ReadFile
    require_driver: Callable[[], object]

    def parse(self, top: ObjectReader) -> PostgresqlAddress | None:
        """Return the address with its password; None if the databases are SQLite's, or if there is an error."""
        named = top.value("store_password_env", variable_name, None)
        if "store" not in top:
            if "store_password_env" in top:
                top.problem("store_password_env", "belongs to a PostgreSQL store; set store, or leave this out")
            return None
        if named is not None and named == top.members.get("master_key_env"):
            top.problem("store_password_env", "names the master key's variable; name another variable")
        conninfo = top.value("store", self._conninfo, None)
        secrets = SecretSources(environ=self.environ, read_file=self.read_file)
        password = None
        if named is not None:
            password = top.value("store_password_env", lambda _: secrets.read(named, store_password)[0], None)
        if ignored := self.ignored_variables([named]):
            top.warning("store", f"gamed ignores variables of libpq: {', '.join(ignored)}")
        return None if conninfo is None else PostgresqlAddress(conninfo, password)

    def ignored_variables(self, named: Collection[str | None]) -> tuple[str, ...]:
        """Return libpq's own variables that are set, but for those that the configuration names."""
        return tuple(sorted(LIBPQ_VARIABLES.intersection(self.environ).difference(named)))

    def _conninfo(self, value: object) -> dict[str, str]:
        found = parse_store(value)
        if found.get("sslrootcert") == SYSTEM:
            found["sslrootcert"] = self._system_certificates()
        wrong = list(_unreadable(found, self.read_file))
        if wrong:
            raise InvalidValue(*wrong)
        self.require_driver()
        return found

    def _system_certificates(self) -> str:
        for path in filter(None, (self.environ.get("SSL_CERT_FILE"), *CERTIFICATES)):
            try:
                if self.read_file(path):
                    return path
            except OSError:
                continue
        raise InvalidValue(
            "the system has no file with certificate authorities. Install ca-certificates, or name the server's "
            "authority: ?sslrootcert=/path/of/ca.crt"
        )


def load_store(
    text: str, environ: Mapping[str, str], read_file: ReadFile, file: str, require_driver: Callable[[], object]
) -> tuple[PostgresqlAddress | None, tuple[str, ...]]:
    """Return the address alone, and the names of variables to erase; raise ConfigError.

    This is for a command that needs no key: it ignores all other members of the file, right or wrong.
    """
    sources = StoreSources(environ=environ, read_file=read_file, require_driver=require_driver)
    with read_object(text, file, '{"mode": "local"}') as top:
        address = sources.parse(top)
        named = top.value("store_password_env", variable_name, None)
    names = () if named is None else (named,)
    return address, names if address is None else (*names, *sources.ignored_variables(names))


def parse_store(value: object) -> dict[str, str]:
    """Return the address as keywords of libpq, complete with defaults; raise InvalidValue with all errors.

    No message shows a part of the address, since an operator may have written a password at any place; only the name
    of a parameter of an otherwise well-formed address is shown.
    """
    text = value if isinstance(value, str) else ""
    scheme = next((scheme for scheme in SCHEMES if text.startswith(scheme)), None)
    if scheme is None:
        raise InvalidValue(f"{EXAMPLE}; leave store out to use SQLite")
    if len(text) > MAX_ADDRESS or not text.isprintable() or " " in text or _LONE_PERCENT.search(text):
        raise InvalidValue(
            f"expected at most {MAX_ADDRESS} visible characters, and %25 for each percent sign of a name"
        )
    authority, mark, rest = text.removeprefix(scheme).partition("@")
    if ":" in authority and mark:
        raise InvalidValue(NO_PASSWORD)
    user, hosts = (authority, rest) if mark else ("", authority)
    hosts, _, query = hosts.partition("?")
    hosts, _, dbname = hosts.partition("/")
    if "@" in f"{hosts}{dbname}{query}":
        raise InvalidValue(f"{EXAMPLE}, with %40 for an @ in a name; {NO_PASSWORD}")
    given = {"user": user, "dbname": dbname} | _host_keywords(hosts)
    return _checked({name: _decoded(text) for name, text in given.items() if text}, query)


def _host_keywords(hosts: str) -> dict[str, str]:
    """Return `a:1,[::1]` as libpq has it: the hosts and the ports as two lists."""
    if not hosts:
        return {}
    parts = [_split_port(host) for host in hosts.split(",")]
    return {"host": ",".join(host for host, _ in parts), "port": ",".join(port for _, port in parts)}


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            return text, PORT  # its brackets make it an invalid host
    else:
        host, _, port = text.partition(":")
    return host, port.removeprefix(":") or PORT


def _checked(given: dict[str, str], query: str) -> dict[str, str]:
    """Return the keywords with those of the query and with defaults."""
    wrong = list(_add_parameters(given, query))
    hosts = [host if _is_socket(host) else host.lower() for host in given.get("host", "").split(",")]
    ports = given.get("port", PORT).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    local = all(_is_local(host) for host in hosts)
    wrong += [*_name_errors(given), *_host_errors(hosts, ports), *_value_errors(given, local=local)]
    if wrong:
        raise InvalidValue(*dict.fromkeys(wrong))
    own = "prefer" if local and "sslrootcert" not in given else STRICT
    keywords = {"sslmode": own, "target_session_attrs": "read-write"} | given
    keywords |= {"host": ",".join(hosts), "port": ",".join(ports)}
    if keywords["sslmode"].startswith("verify-"):
        keywords.setdefault("sslrootcert", SYSTEM)
    return keywords


def _add_parameters(given: dict[str, str], query: str) -> Iterator[str]:
    """Add the parameters behind the question mark; yield a message for each that gamed does not accept."""
    for each in query.split("&") if query else ():
        name, mark, value = each.partition("=")
        if name in PASSWORDS:
            yield NO_PASSWORD
        elif name in OWN:
            yield f"gamed sets {name} itself; leave it out"
        elif name not in ACCEPTED:
            shown = name if mark and plain_word(name) else "a parameter"
            yield f"{shown} is not accepted; {suggestion(name if mark else '', ACCEPTED)}"
        elif not mark or not value:
            yield f"{name} has no value"
        elif name in given:
            yield f"{name} is given twice"
        else:
            given[name] = _decoded(value)


def _name_errors(given: Mapping[str, str]) -> Iterator[str]:
    for name, meaning in (("user", "user"), ("dbname", "name of the database")):
        text = given.get(name, "")
        if not text:
            yield f"{EXAMPLE}; the {meaning} is missing"
        elif len(text.encode()) > MAX_NAME_BYTES or not text.isprintable() or "=" in text:
            yield f"expected a {meaning} of at most {MAX_NAME_BYTES} bytes, without control characters and ="


def _host_errors(hosts: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    if hosts == [""]:
        yield f"{EXAMPLE}; the host is missing (a unix socket is ?host=/run/postgresql)"
    elif len(hosts) > MAX_HOSTS or not all(_is_host(host) for host in hosts):
        yield (
            f"expected at most {MAX_HOSTS} hosts with commas in between: names, addresses (IPv6 in brackets), or the "
            "absolute path of a socket's folder"
        )
    if len(ports) != len(hosts) or not all(_NUMBER.fullmatch(port) and int(port) <= MAX_PORT for port in ports):
        yield f"expected ports from 1 to {MAX_PORT}: one for all hosts, or one for each"


def _value_errors(given: Mapping[str, str], *, local: bool) -> Iterator[str]:
    for name, values in CHOICES.items():
        if name in given and given[name] not in values:
            yield f"expected {name}={' or '.join(values)}"
    if not local and given.get("sslmode", STRICT) != STRICT:
        yield (
            f"expected sslmode={STRICT}, or no sslmode: only hosts on this machine (a unix socket, localhost) can do "
            "without a verified certificate"
        )
    if ("sslcert" in given) != ("sslkey" in given):
        yield "sslcert and sslkey belong together; name both or none"
    for name in FILES:
        path = given.get(name, SYSTEM)
        if path != SYSTEM and not (path.startswith("/") and path.isprintable()):
            yield f"expected {name} to be the absolute path of a file"


def _is_host(text: str) -> bool:
    if _is_socket(text):
        return text.isprintable() and len(text.encode()) <= MAX_SOCKET_BYTES
    name = text.lower()
    if ":" in name or name.rpartition(".")[2].isdigit():
        return _parse_ip(name) is not None
    return len(name) <= MAX_HOST and all(_LABEL.fullmatch(label) for label in name.split("."))


def _is_socket(host: str) -> bool:
    return host.startswith("/")


def _is_local(host: str) -> bool:
    address = _parse_ip(host)
    return _is_socket(host) or host.lower() == "localhost" or (address is not None and address.is_loopback)


def _parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidValue("expected UTF-8 in the percent-encoded characters") from None


def _unreadable(conninfo: Mapping[str, str], read_file: ReadFile) -> Iterator[str]:
    """Yield a message for each named file that cannot be read: libpq would report it at each connection."""
    for name in FILES:
        if name in conninfo:
            try:
                read_file(conninfo[name])
            except OSError as e:
                yield f"the file that {name} names cannot be read: {e.strerror}"
