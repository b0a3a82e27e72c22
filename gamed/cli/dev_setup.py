"""What one start of `gamed dev` is to be: ports, a folder, what is beside it.

What `gamed dev` keeps: a folder of its own with a configuration, a master key and the data of a server.

What a game finds at a development server without anybody doing anything first: players, and releases.

`gamed dev --script`: a command that begins when the server answers, and with whose end everything ends.
"""

import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection
from json import dumps, loads
from pathlib import Path
from random import Random
from secrets import token_bytes
from shutil import rmtree
from sqlite3 import Connection
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from msgspec import Struct
from twisted.internet.threads import deferToThread

from gamed.assets.errors import PublishRefused
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli.assets_context import asset_errors
from gamed.cli.errors import SetupError
from gamed.cli.output import measured
from gamed.cli.paths import AUTH_DB, read_file, write_whole
from gamed.cli.players import sign_in
from gamed.cli.process import Lock
from gamed.clock import now_ms
from gamed.config.authentication import FILE_NAME
from gamed.config.game import GameSettings
from gamed.config.model import Config
from gamed.crypto import KEY_BYTES, Keys
from gamed.database.offline import run_transaction
from gamed.dev.clients import PEOPLE, SamplePerson
from gamed.players import tables as player_tables
from gamed.players.names import new_player_id
from gamed.players.tables import Player, create_player, find_player
from gamed.providers.base import ExternalIdentity
from gamed.providers.discovery import IdentityNamespace

LOOPBACK = "127.0.0.1"


class DevOptions(Struct, frozen=True):
    port: int
    provider_port: int
    static_port: int
    place: Path
    temporary: bool
    """Whether `place` goes at the end."""
    statics: Sequence[Path] = ()
    """Folders of a web page; none: nothing listens on `static_port`."""
    assets: Path | None = None
    """A folder to publish as `stable`; None: samples, where nothing is published."""
    script: Sequence[str] = ()
    """A command to run; none: a person stops the server."""

    @property
    def server(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def provider(self) -> str:
        return f"http://{LOOPBACK}:{self.provider_port}"

    @property
    def page(self) -> str | None:
        return f"http://{LOOPBACK}:{self.static_port}/" if self.statics else None

    @property
    def ports(self) -> Mapping[str, int]:
        """By the option that names another one."""
        named = {"--port": self.port, "--provider-port": self.provider_port}
        return named | ({"--static-port": self.static_port} if self.statics else {})


MASTER_KEY_ENV = "GAMED_DEV_MASTER_KEY"
SECRET_ENVS = {"discord": "GAMED_DEV_DISCORD_SECRET", "google": "GAMED_DEV_GOOGLE_SECRET"}
CLIENT_IDS = {"discord": "80351110224678912", "google": "gamed-dev.apps.googleusercontent.com"}
KEY_FILE = "master.key"
DATA = "data"


def prepare(plan: DevOptions) -> Path:
    """Make the folder, or take up one that this command made; its configuration file.

    Addresses may change from start to start. Members the developer added to the file stay as they are; to
    `cors_origins` the page's origins are added.
    """
    folder, file = plan.place, plan.place / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _kept(folder, file)
        if not (folder / KEY_FILE).exists():
            write_whole(folder / KEY_FILE, b64encode(token_bytes(KEY_BYTES)) + b"\n", 0o600)
        write_whole(file, dumps({**kept, **_members(plan, kept)}, indent=2).encode() + b"\n", 0o640)
    except OSError as e:
        raise SetupError(f"{folder} cannot be used ({e.strerror}); name another with --folder DIR.") from None
    return file


def clear(folder: Path) -> None:
    """Remove what earlier starts made; a folder that is not this command's, or in use, is left alone."""
    try:
        if not folder.exists():
            return
        _kept(folder, folder / FILE_NAME)
        if (folder / DATA).is_dir():
            Lock.acquire(folder / DATA).release()
        rmtree(folder)
    except OSError as e:
        raise SetupError(f"{folder} cannot be removed ({e.strerror}).") from None


def _kept(folder: Path, file: Path) -> dict[str, object]:
    """What stands in the file already. A folder with anything of somebody else's in it is left alone."""
    if not any(folder.iterdir()):
        return {}
    try:
        found = loads(read_file(str(file)))
    except (FileNotFoundError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("master_key_env") != MASTER_KEY_ENV:
        raise SetupError(
            f"{folder} holds something else than what `gamed dev` makes; name an empty folder with --folder."
        )
    return found


def _members(plan: DevOptions, kept: Mapping[str, object]) -> dict[str, object]:
    """The preset of Discord with its endpoints turned to the provider, and Google by its issuer."""
    from gamed.dev import documents  # late: nothing but `gamed dev` loads that package

    provider = plan.provider
    named = {
        name: {"client_id": CLIENT_IDS[name], "client_secret_env": SECRET_ENVS[name], "label": f"{label} (development)"}
        for name, label in (("discord", "Discord"), ("google", "Google"))
    }
    named["discord"] |= {
        "authorization_endpoint": provider + documents.DISCORD_AUTHORIZE,
        "token_endpoint": provider + documents.DISCORD_TOKEN,
        "userinfo_endpoint": provider + documents.DISCORD_USER,
    }
    named["google"] |= {"issuer": provider}
    members = {"mode": "oauth", "public_url": plan.server, "master_key_env": MASTER_KEY_ENV, "providers": named}
    return members | ({"cors_origins": _origins(plan, kept)} if plan.statics else {})


def _origins(plan: DevOptions, kept: Mapping[str, object]) -> list[object]:
    """Those of the page, and what the developer allows: what is wrong with that the server will say."""
    from gamed.dev.servers import origins

    named = kept.get("cors_origins", [])
    others = named if isinstance(named, list) else [named]
    page = origins(plan.static_port)
    return [*page, *(origin for origin in others if origin not in page)]


PLAYERS_FILE = "players.json"
SHOWN_REFUSALS = 10
SAMPLES, NEWCOMERS = PEOPLE[:2], PEOPLE[2:]
"""Those who have played here before, and those who sign in for the first time."""
STABLE: Mapping[str, bytes] = {
    "welcome.txt": b"Hello from a release.\n",
    "levels/1.json": b'{"name":"The cellar","rats":3}\n',
    "levels/2.json": b'{"name":"The garden","rats":0}\n',
    "textures/noise.bin": Random(1).randbytes(256 * 1024),
}
BETA = {
    **STABLE,
    "welcome.txt": b"Hello from the next release.\n",
    "levels/3.json": b'{"name":"The attic","rats":41}\n',
    "music/theme.bin": Random(2).randbytes(2 * 1024 * 1024),
}
RELEASES = (("stable", "1.0", STABLE), ("beta", "1.1", BETA))


def prepare_players(place: Path, config: Config) -> Path:
    """Anna and Bo, whichever provider they come through; the file with credentials of theirs, new at each start."""
    assert config.master_key is not None
    keys = Keys.of(config.master_key, token_bytes)

    def unit(connection: Connection) -> dict[str, object]:
        players = {person.key: _player(connection, keys, config, person) for person in SAMPLES}
        playing = {key: player for key, player in players.items() if player.state == "active"}
        return {key: sign_in(connection, keys, player, config) for key, player in playing.items()}

    file, found = place / PLAYERS_FILE, run_transaction(place / DATA / AUTH_DB, unit)
    write_whole(file, json.dumps({"server": config.public_url, "players": found}, indent=2).encode() + b"\n", 0o600)
    return file


def _player(connection: Connection, keys: Keys, config: Config, person: SamplePerson) -> Player:
    """Of an earlier start if there was one: the developer may have blocked them since. Signs in through both sides."""
    ways = _ways(config, person)
    owners = [player_tables.identity_owner(connection, identity.index(keys.indexer)) for identity in ways.values()]
    player_id = next(filter(None, owners), None)
    if player_id is None:
        player_id = new_player_id(token_bytes)
        create_player(connection, player_id, now_ms())
    for (provider, identity), owner in zip(ways.items(), owners, strict=True):
        if owner is None and not player_tables.has_identity(connection, player_id, provider):
            index, realm = identity.index(keys.indexer), IdentityNamespace.where(identity).index(keys.indexer)
            player_tables.insert_identity(
                connection, index=index, namespace=realm, player_id=player_id, provider=provider, now_ms=now_ms()
            )
    player = find_player(connection, player_id)
    assert player is not None
    return player


def _ways(config: Config, person: SamplePerson) -> dict[str, ExternalIdentity]:
    subjects = {"discord": person.discord_id, "google": person.google_sub}
    realms = {provider: IdentityNamespace.of(config.providers[provider]) for provider in subjects}
    return {
        provider: ExternalIdentity(realms[provider].kind, realms[provider].namespace, subjects[provider])
        for provider in subjects
    }


def prepare_assets(data: Path, game: GameSettings, folder: Path | None) -> Sequence[str]:
    """The folder as `stable`; without one a sample in `stable` and `beta`, unless something was published already.

    The channels there are, with their releases.
    """
    store = AssetStore(data / FOLDER)
    publisher = Publisher(store, measured, now_ms, 0, game.assets.keep_releases)
    if folder is not None:
        _publish(publisher, PublishRequest(folder, "stable", "gamed dev"))
    elif not store.channels():
        for channel, note, files in RELEASES:
            with TemporaryDirectory(prefix="gamed-dev-") as source:
                for path, content in files.items():
                    Path(source, path).parent.mkdir(parents=True, exist_ok=True)
                    Path(source, path).write_bytes(content)
                _publish(publisher, PublishRequest(Path(source), channel, note))
    return [f"{channel} ({store.pointer(channel).release})" for channel in store.channels()]


def _publish(publisher: Publisher, order: PublishRequest) -> None:
    try:
        with asset_errors(order.folder):
            publisher.publish(order)
    except PublishRefused as e:
        reasons = [f"  {refused.path}: {refused.reason}" for refused in e.refused[:SHOWN_REFUSALS]]
        raise SetupError("\n".join([f"{order.folder} cannot be published:", *reasons])) from None


NOT_STARTED, SIGNALLED = 127, 128
LOG_FILE, LOG_LINES = "service.log", 30
TRY_SECONDS, GRACE_SECONDS = 0.05, 5.0


def environment(plan: DevOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """What the command finds: where the server is, and who may play there. None of the server's secrets."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("GAMED_DEV_")}
    told = {
        "GAMED_URL": plan.server,
        "GAMED_SERVER": plan.server,
        "GAMED_PROVIDER_URL": plan.provider,
        "GAMED_PLAYERS": str(plan.place / PLAYERS_FILE),
    }
    return {**kept, **told, **({"GAMED_PAGE_URL": plan.page} if plan.page else {})}


class ScriptRunner:
    """`code` is how the process ends: the command's own, 128 and the number of the signal that ended it, or 127."""

    def __init__(self, plan: DevOptions, environ: Mapping[str, str], umask: int) -> None:
        self.code = NOT_STARTED
        self._plan = plan
        self._environ = environ
        self._umask = umask
        self._over = Event()
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, reactor: Any) -> None:
        """In a thread of its own; the reactor stops when it is through."""
        reactor.addSystemEventTrigger("before", "shutdown", deferToThread, self._end)
        deferToThread(self._run).addBoth(lambda _: _stop(reactor))

    def _run(self) -> None:
        self._await_answer()
        if self._over.is_set():
            return
        try:
            self._process = subprocess.Popen(
                self._plan.script,
                stdin=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,  # so that what it leaves running can be ended with it
                umask=self._umask,
            )
        except OSError as e:
            print(f"gamed: {self._plan.script[0]} cannot be run: {e.strerror}", file=sys.__stderr__)
            return
        if self._over.is_set():
            self._end()
        code = self._process.wait()
        self.code = code if code >= 0 else SIGNALLED - code
        self._end()

    def _await_answer(self) -> None:
        while not self._over.is_set() and not _answers(self._plan.port):
            self._over.wait(TRY_SECONDS)

    def _end(self) -> None:
        """Whatever of it still runs: asked first."""
        self._over.set()
        if self._process is None:
            return
        _tell(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        _tell(self._process.pid, signal.SIGKILL)


def _stop(reactor: Any) -> None:
    if reactor.running:
        reactor.stop()


def _tell(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _answers(port: int) -> bool:
    with suppress(OSError), closing(HTTPConnection(LOOPBACK, port, timeout=GRACE_SECONDS)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def last_words(log: Path, say: Callable[[str], object]) -> None:
    """The end of the service's log: for whoever looks why the command failed."""
    with suppress(OSError):
        lines = log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
        say("\n".join(["The end of the server's log:", *lines]))
