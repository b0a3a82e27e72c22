"""`authentication.json` is validated in one pass that reports all errors at once (SPEC 2.1, 2.2, 7, 8)."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from gamed.config.json_reader import ObjectReader, read_object
from gamed.config.look import parse_look
from gamed.config.model import (
    LOOPBACK,
    AuthLimits,
    Checkpoints,
    Config,
    LoginSettings,
    Mode,
    Network,
    Provider,
    Registration,
    ReturnProofSetting,
    SessionLifetimes,
)
from gamed.config.notify import parse_backup_interval, parse_notify, url_variable
from gamed.config.providers import NEVER_HERE, parse_providers, secret_names
from gamed.config.secrets import ReadFile, SecretSources, master_key, variable_name, weak
from gamed.config.store_address import StoreSources
from gamed.config.tickets import parse_audiences, secret_variables
from gamed.config.validators import app_link, choice, count, duration, network, origin, plain_text, public_url
from gamed.crypto import Secret

FILE_NAME = "authentication.json"
MEMBERS = (
    "mode",
    "public_url",
    "master_key_env",
    "store",
    "store_password_env",
    "checkpoints",
    "providers",
    "session",
    "server_name",
    "look",
    "trusted_proxies",
    "cors_origins",
    "login",
    "limits",
    "notify",
    "backup_interval",
    "ticket_audiences",
)
HINTS = {
    "master_key": NEVER_HERE.format(what="key", member="master_key_env"),
    "store_password": NEVER_HERE.format(what="password", member="store_password_env"),
    "app_links": "it belongs into login",
}
MINUTE, HOUR, DAY = 60, 3600, 86400
ACCESS = (1, DAY)
REFRESH = (10, 8760 * HOUR)
DEVICE_TRANSACTION = (5, HOUR)
MAX_LIFETIME = (10, 10 * 8760 * HOUR)
TICKET = (1, 5 * MINUTE)


class LoadedConfiguration(Struct, frozen=True):
    """A valid configuration, and its warnings."""

    config: Config
    warnings: tuple[str, ...]
    """One line for each warning, with file, line and column."""
    secret_names: tuple[str, ...]
    """Variables with secrets, or whose _FILE form names a file: child processes and /proc must not have them."""


def load(
    text: str,
    environ: Mapping[str, str],
    read_file: ReadFile,
    file: str = FILE_NAME,
    *,
    providers: bool = True,
    read_mark: ReadFile | None = None,
    require_driver: Callable[[], object] = lambda: None,
) -> LoadedConfiguration:
    """Return the configuration; raise ConfigError with all problems, in which `file` is the name of the file.

    Secrets are read from `environ` and from files that it names. Without `providers` the secrets of providers and the
    URL of `notify` are not read, and are empty: enough for a command that needs only the master key. `read_mark` reads
    the picture of the pages, by default as `read_file` does. `require_driver` raises InvalidValue without a driver for
    PostgreSQL.
    """
    sources = SecretSources(environ=environ, read_file=read_file)
    store_sources = StoreSources(environ=environ, read_file=read_file, require_driver=require_driver)
    with read_object(text, file, '{"mode": "local"}') as top:
        top.reject_unknown(MEMBERS, HINTS)
        mode = top.required("mode", choice(Mode), 'missing; expected "oauth" or "local"')
        if mode is Mode.OAUTH and "public_url" not in top:
            top.problem("public_url", 'missing; oauth mode needs it, as "https://play.example.org"')
        own = top.value("public_url", public_url, None)
        key, key_origin = _master_key(top, mode, sources)
        config = Config(
            mode=mode or Mode.LOCAL,
            public_url=own,
            master_key=key,
            master_key_origin=key_origin,
            store=store_sources.parse(top),
            checkpoints=_checkpoints(top),
            providers=_providers(top, mode, sources if providers else None, own),
            session=_session(top.section("session")),
            login=_login(top.section("login"), own),
            limits=_limits(top.section("limits")),
            server_name=top.value("server_name", plain_text(64), None),
            look=parse_look(top.section("look"), read_mark or read_file, file),
            trusted_proxies=_trusted_proxies(top),
            cors_origins=top.items("cors_origins", origin, ()),
            notify=parse_notify(top, sources if providers else None),
            backup_seconds=parse_backup_interval(top),
            ticket_audiences=parse_audiences(top, sources if providers else None),
        )
    named = (top.value(member, variable_name, None) for member in ("master_key_env", "store_password_env"))
    names = (
        *filter(None, (*named, url_variable(top))),
        *secret_names(top.section("providers")),
        *secret_variables(top),
    )
    if config.store is not None:
        names += store_sources.ignored_variables(names)
    return LoadedConfiguration(config, tuple(warning.line(file) for warning in top.warnings), names)


def _master_key(top: ObjectReader, mode: Mode | None, sources: SecretSources) -> tuple[Secret | None, str]:
    """Return the key and where it was found; None and "" without one."""
    needed_by = "oauth mode" if mode is Mode.OAUTH else "a PostgreSQL store" if "store" in top else None
    if needed_by is not None and "master_key_env" not in top:
        missing = "the name of the variable that holds the master key (`gamed key new` makes one)"
        top.problem("master_key_env", f"missing; {needed_by} needs {missing}")
    name = top.value("master_key_env", variable_name, None)
    if name is None:
        return None, ""
    key, key_origin = top.value("master_key_env", lambda _: sources.read(name, master_key), (None, ""))
    weakness = weak(key) if key is not None else None
    if weakness is not None:
        top.warning("master_key_env", weakness)
    return key, key_origin


def _checkpoints(top: ObjectReader) -> Checkpoints:
    chosen = top.value("checkpoints", choice(Checkpoints), Checkpoints.OWN)
    if "checkpoints" in top and "store" in top:
        top.problem("checkpoints", "belongs to SQLite; leave it out with a PostgreSQL store")
    return chosen


def _providers(
    top: ObjectReader, mode: Mode | None, sources: SecretSources | None, own: str | None
) -> Mapping[str, Provider]:
    """Return the providers; local mode validates them, and uses none. `own` is `public_url`."""
    if isinstance(top.members.get("providers"), list):
        top.problem("providers", 'expected an object with one member per provider, such as {"discord": {...}}')
        return {}
    section = top.section("providers")
    if mode is Mode.OAUTH and not section.members and isinstance(top.members.get("providers", {}), dict):
        top.problem("providers", "missing; oauth mode needs at least one provider, such as discord or google")
    used = mode is Mode.OAUTH  # else neither secrets nor the public_url need fit them
    found = parse_providers(section, sources if used else None, own if used else None)
    master = top.members.get("master_key_env")
    for name, provider in section.members.items():
        if isinstance(provider, dict) and master is not None and provider.get("client_secret_env") == master:
            section.problem(
                (name, "client_secret_env"),
                "names the master key's variable; name another variable",
            )
    return found if mode is Mode.OAUTH else {}


def _session(section: ObjectReader) -> SessionLifetimes:
    section.reject_unknown(("access_ttl", "refresh_ttl", "device_transaction_ttl", "max_lifetime", "ticket_ttl"))
    defaults = SessionLifetimes()
    access = _lifetime(section, "access_ttl", ACCESS, defaults.access_seconds)
    refresh = _lifetime(section, "refresh_ttl", REFRESH, defaults.refresh_seconds)
    device = _lifetime(section, "device_transaction_ttl", DEVICE_TRANSACTION, defaults.device_transaction_seconds)
    cap = section.value("max_lifetime", duration(*MAX_LIFETIME), None)
    if access is not None and refresh is not None and refresh <= access:
        section.problem("refresh_ttl", "must be longer than access_ttl")
    if access is not None and cap is not None and cap < access:
        section.problem("max_lifetime", "must not be shorter than access_ttl")
    ticket = section.value("ticket_ttl", duration(*TICKET), defaults.ticket_seconds)
    return SessionLifetimes(access or 0, refresh or 0, device or 0, cap, ticket)


def _lifetime(section: ObjectReader, name: str, bounds: tuple[int, int], default: int) -> int | None:
    """Return a lifetime in seconds, or None if it is invalid."""
    seconds = section.value(name, duration(*bounds), None) if name in section else default
    if seconds is not None and seconds < MINUTE:
        section.warning(name, "is shorter than 1m; use such a short time only for tests")
    return seconds


def _login(section: ObjectReader, own: str | None) -> LoginSettings:
    """Return the settings of logins; `own` is `public_url`."""
    section.reject_unknown(("return_proof", "registration", "app_links"))
    defaults = LoginSettings()
    proof = section.value("return_proof", choice(ReturnProofSetting), defaults.return_proof)
    if proof is ReturnProofSetting.OFF:
        section.warning("return_proof", "is off: an attacker who sends a player a sign-in link is signed in as them")
    app_links = section.items("app_links", app_link(own), defaults.app_links)
    registration = section.value("registration", choice(Registration), defaults.registration)
    return LoginSettings(proof, registration, app_links)


def _limits(section: ObjectReader) -> AuthLimits:
    defaults: dict[str, int] = asdict(AuthLimits())
    section.reject_unknown(tuple(defaults))
    return AuthLimits(**{name: section.value(name, count, default) for name, default in defaults.items()})


def _trusted_proxies(top: ObjectReader) -> tuple[Network, ...]:
    networks = top.items("trusted_proxies", network, LOOPBACK)
    if any(trusted.prefixlen == 0 for trusted in networks):
        top.warning("trusted_proxies", "trusts every address: any client can then send a forged client address")
    return networks
