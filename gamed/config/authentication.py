"""`authentication.json` judged whole: every rule of SPEC 2.1, 2.2, 7 and 8 in one pass, all errors at once."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from gamed.config.model import (
    LOOPBACK,
    Config,
    Limits,
    LoginRules,
    Mode,
    Network,
    Provider,
    Registration,
    ReturnProof,
    SessionTimes,
)
from gamed.config.positions import Document, Malformed, read
from gamed.config.problems import ConfigError, Problem
from gamed.config.providers import judge_providers, secret_names
from gamed.config.public_url import origin, public_url
from gamed.config.section import Section
from gamed.config.sources import ReadFile, Sources, master_key, variable_name, weak
from gamed.config.values import choice, count, duration, network, words
from gamed.crypto import Secret

FILE_NAME = "authentication.json"
MEMBERS = (
    "mode",
    "public_url",
    "master_key_env",
    "providers",
    "session",
    "server_name",
    "trusted_proxies",
    "cors_origins",
    "login",
    "limits",
)
HINTS = {
    "master_key": "the key itself is never written to this file: put it into an environment variable "
    "and name that in master_key_env",
}
MINUTE, HOUR, DAY = 60, 3600, 86400
ACCESS = (1, DAY)
REFRESH = (10, 8760 * HOUR)
DEVICE_TRANSACTION = (5, HOUR)
MAX_LIFETIME = (10, 10 * 8760 * HOUR)


class Judged(Struct, frozen=True):
    """A file that can be used."""

    config: Config
    warnings: tuple[str, ...]
    """One line each, placed like problems."""
    secret_names: tuple[str, ...]
    """Variables that hold secrets, or whose _FILE form points to one: not for child processes, nor for /proc."""


def parse(
    text: str, environ: Mapping[str, str], read_file: ReadFile, file: str = FILE_NAME, *, providers: bool = True
) -> Judged:
    """The meaning of the text, or ConfigError with everything that is wrong; `file` is the name to complain about.

    Secrets are looked up in `environ` and in files that it names; without `providers` theirs are not asked for, and
    are empty: enough for a command that only needs the master key.
    """
    try:
        document = read(text)
    except Malformed as e:
        raise ConfigError(file, [e.problem]) from None
    return judge(document, Sources(environ, read_file), file, providers)


def judge(document: Document, sources: Sources, file: str, providers: bool) -> Judged:
    problems: list[Problem] = list(document.slips)
    warnings: list[Problem] = []
    top = Section.top(document, problems, warnings)
    top.only(MEMBERS, HINTS)
    mode = _mode(top) if isinstance(document.value, dict) else None
    address = _public_url(top, mode)
    key, key_origin = _master_key(top, mode, sources)
    config = Config(
        mode=mode or Mode.LOCAL,
        public_url=address,
        master_key=key,
        master_key_origin=key_origin,
        providers=_providers(top, mode, sources if providers else None),
        session=_session(top.section("session")),
        login=_login(top.section("login")),
        limits=_limits(top.section("limits")),
        server_name=top.value("server_name", words(64), None),
        trusted_proxies=_trusted_proxies(top),
        cors_origins=top.items("cors_origins", origin, ()),
    )
    if problems:
        raise ConfigError(file, list(dict.fromkeys(problems)))
    return Judged(config, tuple(warning.line(file) for warning in warnings), _secret_names(top))


def _mode(top: Section) -> Mode | None:
    return top.needed("mode", choice(Mode), 'missing; expected "oauth" or "local"')


def _public_url(top: Section, mode: Mode | None) -> str | None:
    if mode is Mode.OAUTH:
        return top.needed("public_url", public_url, 'missing; oauth mode needs it, as "https://play.example.org"')
    return top.value("public_url", public_url, None)


def _master_key(top: Section, mode: Mode | None, sources: Sources) -> tuple[Secret | None, str]:
    """Return the key and where it was found; None and "" without one."""
    missing = "missing; oauth mode needs the name of the variable that holds the master key (`gamed key new` makes one)"
    if mode is Mode.OAUTH and "master_key_env" not in top:
        top.problem("master_key_env", missing)
    name = top.value("master_key_env", variable_name, None)
    if name is None:
        return None, ""
    key, key_origin = top.value("master_key_env", lambda _: sources.read(name, master_key), (None, ""))
    weakness = weak(key) if key is not None else None
    if weakness is not None:
        top.warning("master_key_env", weakness)
    return key, key_origin


def _providers(top: Section, mode: Mode | None, sources: Sources | None) -> Mapping[str, Provider]:
    """Local mode judges their form, and uses none."""
    if isinstance(top.members.get("providers"), list):
        top.problem("providers", 'expected an object with one member per provider, such as {"discord": {...}}')
        return {}
    section = top.section("providers")
    if mode is Mode.OAUTH and not section.members and isinstance(top.members.get("providers", {}), dict):
        top.problem("providers", "missing; oauth mode needs at least one provider, such as discord or google")
    found = judge_providers(section, sources if mode is Mode.OAUTH else None)
    master = top.members.get("master_key_env")
    for name, provider in section.members.items():
        if isinstance(provider, dict) and master is not None and provider.get("client_secret_env") == master:
            section.problem((name, "client_secret_env"), "names the master key's variable; that key goes to nobody")
    return found if mode is Mode.OAUTH else {}


def _session(section: Section) -> SessionTimes:
    section.only(("access_ttl", "refresh_ttl", "device_transaction_ttl", "max_lifetime"))
    usual = SessionTimes()
    access = _time(section, "access_ttl", ACCESS, usual.access_seconds)
    refresh = _time(section, "refresh_ttl", REFRESH, usual.refresh_seconds)
    device = _time(section, "device_transaction_ttl", DEVICE_TRANSACTION, usual.device_transaction_seconds)
    cap = section.value("max_lifetime", duration(*MAX_LIFETIME), None)
    if access is not None and refresh is not None and refresh <= access:
        section.problem("refresh_ttl", "must be longer than access_ttl")
    if access is not None and cap is not None and cap < access:
        section.problem("max_lifetime", "must not be shorter than access_ttl")
    return SessionTimes(access or 0, refresh or 0, device or 0, cap)


def _time(section: Section, name: str, bounds: tuple[int, int], usual: int) -> int | None:
    """None when it is wrong."""
    seconds = section.value(name, duration(*bounds), None) if name in section else usual
    if seconds is not None and seconds < MINUTE:
        section.warning(name, "is shorter than 1m; that is for trying things out")
    return seconds


def _login(section: Section) -> LoginRules:
    section.only(("return_proof", "registration"))
    usual = LoginRules()
    proof = section.value("return_proof", choice(ReturnProof), usual.return_proof)
    if proof is ReturnProof.OFF:
        section.warning("return_proof", "is off: whoever gets a player to open a sign-in link is signed in as them")
    return LoginRules(proof, section.value("registration", choice(Registration), usual.registration))


def _limits(section: Section) -> Limits:
    usual: dict[str, int] = asdict(Limits())
    section.only(tuple(usual))
    return Limits(**{name: section.value(name, count, default) for name, default in usual.items()})


def _trusted_proxies(top: Section) -> tuple[Network, ...]:
    networks = top.items("trusted_proxies", network, LOOPBACK)
    if any(trusted.prefixlen == 0 for trusted in networks):
        top.warning("trusted_proxies", "trusts every address: anyone can then pretend to come from anywhere")
    return networks


def _secret_names(top: Section) -> tuple[str, ...]:
    master = top.value("master_key_env", variable_name, None)
    names = secret_names(top.section("providers"))
    return (*([master] if master else []), *names)
