"""`gamed doctor` checks this machine, or the public address as a player would use it, and prints findings.

With --write it also saves as a new player, who is erased afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from gamed.cli.checks import doctor_local
from gamed.cli.checks.doctor_local import server
from gamed.cli.checks.http_client import REQUEST_TIMEOUT_SECONDS, ask
from gamed.cli.context import (
    CommandContext,
    KeyedDatabases,
    OpenedConfiguration,
    read_game_settings,
    read_with_key,
    reports_json,
)
from gamed.cli.data.move_note import refuse_moved
from gamed.cli.data.restore_journal import refuse_unfinished
from gamed.cli.errors import CONFIGURATION, CommandFailed, SetupError, exit_with
from gamed.cli.output import utf8
from gamed.cli.paths import Paths
from gamed.cli.people.players import sign_in
from gamed.cli.people.removal import removal_service, run_inline
from gamed.cli.process import harden, ran_by, switch_to_owner
from gamed.cli.terminal import BAD, GOOD, WARNING, painted, steps_shown
from gamed.clock import now_ms
from gamed.config.errors import ConfigError, InvalidValue
from gamed.config.game import SaveLimits
from gamed.config.model import Config
from gamed.config.validators import parse_public_url
from gamed.crypto import Keys
from gamed.database.connection import AUTH, Connection
from gamed.database.errors import DatabaseError, MigrationError
from gamed.database.store import Store
from gamed.ops import doctor_public
from gamed.ops.findings import (
    Finding,
    HttpFailure,
    HttpReply,
    Level,
    Reached,
    any_problem,
    lines,
    problem,
    skipped,
    summary,
)
from gamed.ops.machine import Step
from gamed.players import tables as player_tables
from gamed.players.model import Player
from gamed.players.names import new_player_id
from gamed.stores import open_store
from gamed.structs import Component

FORGED = {"X-Forwarded-For": "203.0.113.9, 127.0.0.1"}
FAMILIES = ("/auth/sessions", "/game/saves", "/assets/stable")
OPERATOR_ONLY = ("/metrics", "/readyz")
WRITING = "ETag, If-Match, ranges, a save of 2 MiB, a wait of 25 s"
"""The name of what is skipped without --write."""
SIZE = 2 * 1024 * 1024
SLOT = "/game/saves/doctor"
FIRST, LAST = 1000, 1999
UNKNOWN_TAG = '"9-0000000000000000"'
"""A tag that the save never had."""
COLOURS = {Level.OK: GOOD, Level.SKIPPED: None, Level.WARNING: WARNING, Level.PROBLEM: BAD}
NOTE = "made by gamed doctor, to be erased"


@click.command()
@click.option(
    "--public",
    metavar="[URL]",
    type=utf8,
    is_flag=False,
    flag_value="",
    help="Ask the public address instead, as players do. [default: public_url]",
)
@click.option("--write", is_flag=True, help="With --public: also write saves, as a player who is erased afterwards.")
@reports_json
def doctor(context: CommandContext, public: str | None, write: bool) -> None:
    """Find what is wrong with this server, and print what to do about it. [key]

    The exit code is 0 if there is no problem (there may be warnings), 1 if there is one, 78 if the configuration must
    be corrected first.
    """
    if write and public is None:
        raise click.UsageError("--write needs --public. Pass both.")
    harden()
    refused = None
    if public is None:
        findings, refused = check_machine(context.places())
    else:
        findings = list(check_public(context.places(), public, write=write))
    bad = any_problem(findings)
    last = [] if bad or refused else [summary(findings)]
    shown = lines(findings, lambda level, word: painted(word, COLOURS[level]))
    context.report({"ok": not bad, "findings": [finding.members() for finding in findings]}, [*shown, *last])
    if refused is not None:
        exit_with(CONFIGURATION, f"gamed: {summary(findings)}; the configuration must be corrected first")
    if bad:
        raise CommandFailed(summary(findings))


def check_machine(places: Paths) -> tuple[list[Finding], Exception | None]:
    """Return the findings about this machine, and the error of the configuration if there is one."""
    try:
        refuse_moved(places)
    except SetupError as e:  # every other check would miss what is elsewhere, and advise to begin a new server
        return [problem("configuration", str(e), "Use the server at its new place.")], e
    opened, refused = None, None
    try:
        opened = _read(places, providers=True)
    except (ConfigError, SetupError) as e:
        refused = e
        problems = e.problems if isinstance(e, ConfigError) else ()
        if any(problem.path[-1:] in (("client_secret_env",), ("url_env",)) for problem in problems):
            opened = _read_without_secrets(places)
    switch_to_owner(places.data)
    found = list(doctor_local.unreadable(refused)) if refused else []
    return [*found, *_run_steps(doctor_local.steps(places, opened, complete=refused is None))], refused


def check_public(places: Paths, url: str, *, write: bool) -> Iterator[Finding]:
    """Yield findings about the address `url`, or public_url for ""; each request is sent when its finding is due."""
    opened = _read(places)
    base, runner = public_base(url, opened.config), ran_by()
    switch_to_owner(places.data)
    probe = probe_public(base, places.data, open_store(opened.config, places.data))
    yield from probe.findings
    if not probe.answered:
        yield skipped("everything else", "the address does not answer")
        return
    yield from _run_steps(public_steps(base, opened.config))
    if not write:
        yield skipped(WRITING, "they need a player", "Add --write. It creates a player and erases it afterwards.")
    elif not probe.ours:
        yield skipped(WRITING, "it does not use this server's databases, so this server's tokens do not work there")
    else:
        # CommandContext.open() would read the key again, which is in no environment any more.
        with trial_player(KeyedDatabases.of(opened, runner)) as token:
            yield from _run_steps(TrialPlayer(base=base, token=token, limits=opened.game.saves).steps())


def _read(places: Paths, *, providers: bool = False) -> OpenedConfiguration:
    """Read both configuration files; without `providers` their secrets and the webhook's URL are not read."""
    opened = read_with_key(places, providers=providers)
    if opened.first_run:
        raise SetupError(f"There is no {places.config} yet. `gamed serve` writes one.")
    refuse_unfinished(places.data)
    return replace(opened, game=read_game_settings(places))


def _read_without_secrets(places: Paths) -> OpenedConfiguration | None:
    """Return the configuration if only secrets for other servers are wrong with it: no other check needs them."""
    try:
        return _read(places)
    except (ConfigError, SetupError):
        return None


def _run_steps(steps: Sequence[Step]) -> list[Finding]:
    with steps_shown(steps, "doctor") as shown:
        return [finding for step in shown for finding in _run_step(step)]


def _run_step(step: Step) -> list[Finding]:
    """Run a step; an OSError becomes a finding, so that the other steps still run."""
    try:
        return step()
    except OSError as e:
        text = f"{e.filename or 'a file'} cannot be read ({e.strerror})"
        return [problem("access", text, "Give the owner of the data folder access to it, or run this as that user.")]


class PublicProbe(NamedTuple):
    """The first response of the public address, and whether a server with these databases sent it."""

    findings: list[Finding]
    answered: bool
    ours: bool
    """It uses the databases of this server: only then does it get a token."""


def public_base(text: str, config: Config) -> str:
    """Return the address to ask in canonical form, public_url for ""; raise click.UsageError if there is none."""
    chosen = text or config.public_url
    if chosen is None:
        raise click.UsageError("There is no public_url in authentication.json. Name the address: --public URL")
    try:
        return str(parse_public_url(chosen))
    except InvalidValue as e:
        raise click.BadParameter(str(e), param_hint="--public") from None


def probe_public(base: str, data: Path, store: Store) -> PublicProbe:
    """Send GET /healthz to the public address."""
    answer = ask(f"{base}/healthz")
    if isinstance(answer, HttpFailure):
        return PublicProbe([doctor_public.check_unreached(base, answer)], answered=False, ours=False)
    here, instance_id = server(data), answer.headers.get("gamed-instance", "")
    local = here if isinstance(here, HttpReply) else None
    try:
        same = doctor_public.check_instance(answer, local, lives_here=store.is_living(instance_id))
    except (DatabaseError, MigrationError):
        same = skipped("instance", f"{store.name(AUTH)} cannot be read", "To see why, run: gamed doctor")
    findings = [
        doctor_public.check_health(answer),
        same,
        doctor_public.check_certificate(answer.certificate, now_ms()),
    ]
    return PublicProbe(findings, answered=True, ours=same.level is Level.OK)


def public_steps(base: str, config: Config) -> list[Step]:
    """Return the checks of an address that answers; they send no credential."""
    provider = next(iter(config.providers), "discord")
    return [
        partial(_policy, base, config),
        lambda: [doctor_public.check_forged(ask(f"{base}/healthz", headers=FORGED))],
        *(partial(_ask_for, base + path, partial(doctor_public.check_family, path)) for path in FAMILIES),
        lambda: [doctor_public.check_callback(provider, ask(f"{base}/auth/{provider}/callback"))],
        *(partial(_ask_for, base + path, partial(doctor_public.check_operator_only, path)) for path in OPERATOR_ONLY),
        partial(_plain, base),
    ]


def _policy(base: str, config: Config) -> list[Finding]:
    first, second = (ask(f"{base}/auth/config") for _ in range(2))
    if not isinstance(first, HttpReply) or not isinstance(second, HttpReply):
        return [doctor_public.check_unreached(base, each) for each in (first, second) if isinstance(each, HttpFailure)]
    policy = doctor_public.check_policy(first, config.mode.value, tuple(config.providers))
    return [policy, doctor_public.check_caching(first, second)]


def _ask_for(url: str, check: Callable[[Reached], Finding]) -> list[Finding]:
    return [check(ask(url))]


def _plain(base: str) -> list[Finding]:
    parts = urlsplit(base)
    if parts.scheme != "https" or parts.port is not None:
        return [skipped("http", "only for an https address without a port")]
    host = parts.netloc
    return [doctor_public.check_plain(host, ask(f"http://{host}/healthz"))]


@contextmanager
def trial_player(store: KeyedDatabases) -> Iterator[str]:
    """Create a player and yield an access token; afterwards erase the player with all saves."""
    player_id = new_player_id(token_bytes)

    def transaction(connection: Connection, keys: Keys) -> str:
        now = now_ms()
        player_tables.create_player(connection, player_id, now)
        player_tables.set_note(connection, keys.sealer, player_id, NOTE)
        player = Player(player_id, "active", owner=False, created_ms=now, last_sign_in_ms=None)
        store.record(connection, "doctor", player_id)
        return str(sign_in(connection, keys, player, store.config)["access_token"])

    token = store.write(transaction)
    try:
        yield token
    finally:
        run_inline(removal_service(store).erase(player_id))


class TrialPlayer(Component, frozen=True, kw_only=True):
    """The requests that a new player sends to the public address."""

    base: str
    token: str
    limits: SaveLimits

    def steps(self) -> list[Step]:
        return [self._saves, self._wait]

    def _saves(self) -> list[Finding]:
        body = token_bytes(min(SIZE, self.limits.save_bytes))
        written = self._ask("PUT", SLOT, {"If-None-Match": "*"}, body)
        finding = doctor_public.check_write(written, len(body))
        tag = str(written.json().get("etag", "")) if isinstance(written, HttpReply) else ""
        if not tag:
            return [finding, skipped("ETag, conditions, ranges", "there is no save to try them with")]
        get = partial(self._ask, "GET", SLOT)
        part = body[FIRST : LAST + 1]
        return [
            finding,
            doctor_public.check_read(get({"Accept-Encoding": "gzip, br"}), body, tag),
            doctor_public.check_unchanged(get({"If-None-Match": tag})),
            doctor_public.check_range(get({"Range": f"bytes={FIRST}-{LAST}"}), part),
            doctor_public.check_conflict(self._ask("PUT", SLOT, {"If-Match": UNKNOWN_TAG}, b"another device's save")),
        ]

    def _wait(self) -> list[Finding]:
        seconds = min(doctor_public.WAIT_SECONDS, self.limits.wait_seconds)
        listed = self._ask("GET", "/game/saves", {})
        cursor = listed.json().get("cursor") if isinstance(listed, HttpReply) else None
        if not isinstance(cursor, str) or not seconds:
            return [skipped("wait", "there is nothing to wait for")]
        wanted = {"Prefer": f"wait={seconds}"}
        answer = self._ask("GET", f"/game/saves?since={cursor}", wanted, timeout=seconds + REQUEST_TIMEOUT_SECONDS)
        return [doctor_public.check_wait(answer, seconds)]

    def _ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> Reached:
        fields = {"Authorization": f"Bearer {self.token}", **headers}
        return ask(self.base + target, method, fields, body, timeout)
