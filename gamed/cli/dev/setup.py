"""`gamed dev` prepares its folder here: a configuration, a master key, sample players and sample releases."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from secrets import token_bytes, token_urlsafe
from shutil import rmtree
from tempfile import TemporaryDirectory

from msgspec import Struct

from gamed.assets.errors import PublishRefused
from gamed.assets.publish import Publisher, PublishRequest
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli.errors import SetupError
from gamed.cli.files.context import asset_errors
from gamed.cli.paths import read_file, write_whole
from gamed.cli.people.players import sign_in
from gamed.cli.service.folder_lock import Lock
from gamed.cli.terminal import bar
from gamed.clock import now_ms
from gamed.config.authentication import FILE_NAME
from gamed.config.game import GameSettings
from gamed.config.model import Config
from gamed.crypto import KEY_BYTES, Keys
from gamed.database.connection import AUTH, Connection
from gamed.database.sqlite.store import SqliteStore
from gamed.dev import documents
from gamed.dev.clients import EMULATED, KEY_ID, PEOPLE, STEAM, TEAM_ID, EmulatedProvider, SamplePerson
from gamed.dev.servers import origins
from gamed.players import tables as player_tables
from gamed.players.model import Player
from gamed.players.names import new_player_id
from gamed.players.tables import create_player, find_player
from gamed.providers.base import ExternalIdentity
from gamed.providers.discovery import identity_of

LOOPBACK = "127.0.0.1"
MASTER_KEY_ENV = "GAMED_DEV_MASTER_KEY"
SECRET_ENVS = {name: f"GAMED_DEV_{name.upper()}_SECRET" for name in EMULATED}
CLIENT_IDS = {
    "discord": "80351110224678912",
    "google": "gamed-dev.apps.googleusercontent.com",
    "github": "Iv1.8a61f9b3a7aba766",
    "twitch": "hof5gwx0su6owfnys0yan9c87zr6t1",
    "microsoft": "535fb089-9ff3-47b6-9bfb-4f1264799865",
    "apple": "org.example.gamed-dev",
}
MATCH_AUDIENCE, MATCH_SECRET_ENV = "match.example", "GAMED_MATCH_SECRET"
"""The server that may introspect tickets, and the variable in which --script finds its secret."""
KEY_FILE = "master.key"
DATA = "data"
PLAYERS_FILE = "players.json"
SHOWN_REFUSALS = 10
SAMPLES, NEWCOMERS = PEOPLE[:2], PEOPLE[2:]
"""The people who have played here before, and those who sign in for the first time."""
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


class DevOptions(Struct, frozen=True):
    """The ports and folders of one start of `gamed dev`."""

    port: int
    provider_port: int
    static_port: int
    folder: Path
    temporary: bool
    """The folder is deleted at the end."""
    statics: Sequence[Path] = ()
    """The folders of a web page; without any, `static_port` is not opened."""
    assets: Path | None = None
    """A folder to publish as `stable`; None: samples, if nothing is published yet."""
    script: Sequence[str] = ()
    """A command whose end stops the server; without one a person stops it."""

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
        """Return the ports by the option that sets them."""
        named = {"--port": self.port, "--provider-port": self.provider_port}
        return named | ({"--static-port": self.static_port} if self.statics else {})


def prepare(options: DevOptions) -> Path:
    """Make the folder, or reuse one that this command made; return its configuration file.

    Addresses may differ at each start. Members that the developer added to the file stay as they are; the page's
    origins are added to `cors_origins`.
    """
    folder, file = options.folder, options.folder / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        existing = _existing_members(folder, file)
        if "store" in existing:
            raise SetupError(f"{file} has a store, and `gamed dev` keeps its data in its folder. Take store out.")
        if not (folder / KEY_FILE).exists():
            write_whole(folder / KEY_FILE, b64encode(token_bytes(KEY_BYTES)) + b"\n", 0o600)
        write_whole(file, json.dumps({**existing, **_members(options, existing)}, indent=2).encode() + b"\n", 0o640)
    except OSError as e:
        raise SetupError(f"{folder} cannot be used ({e.strerror}). Name another with --folder DIR.") from None
    return file


def clear(folder: Path) -> None:
    """Delete the folder of earlier starts; raise SetupError if another program made or uses it."""
    try:
        if not folder.exists():
            return
        _existing_members(folder, folder / FILE_NAME)
        if (folder / DATA).is_dir():
            Lock.acquire(folder / DATA, "gamed dev --fresh").release()
        rmtree(folder)
    except OSError as e:
        raise SetupError(f"{folder} cannot be removed ({e.strerror}).") from None


def _existing_members(folder: Path, file: Path) -> dict[str, object]:
    """Return the members of the configuration file; raise SetupError if another program made the folder."""
    if not any(folder.iterdir()):
        return {}
    try:
        found = json.loads(read_file(str(file)))
    except (FileNotFoundError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("master_key_env") != MASTER_KEY_ENV:
        raise SetupError(f"{folder} has files that `gamed dev` did not make. Name an empty folder with --folder DIR.")
    return found


def new_secrets() -> dict[str, str]:
    """Generate the client secrets, or the keys that sign them, by the names of EMULATED."""
    return {
        name: documents.new_signing_key().decode() if emulated.signed_secret else token_urlsafe(32)
        for name, emulated in EMULATED.items()
    }


def _members(options: DevOptions, existing: Mapping[str, object]) -> dict[str, object]:
    """Return the members to write: each preset with the provider's endpoints, or by its issuer."""
    registered = {
        name: {"client_id": CLIENT_IDS[name], "client_secret_env": SECRET_ENVS[name], **_label(emulated)}
        for name, emulated in EMULATED.items()
    }
    addresses = _addresses(options.provider)
    members = {
        "mode": "oauth",
        "public_url": options.server,
        "master_key_env": MASTER_KEY_ENV,
        "providers": {
            name: {**named, **addresses[name]} for name, named in {**registered, "steam": _label(STEAM)}.items()
        },
    }
    named_audiences = existing.get("ticket_audiences", {})
    if isinstance(named_audiences, dict):
        match = {"name": True, "owner": True, "secret_env": MATCH_SECRET_ENV}
        members["ticket_audiences"] = {MATCH_AUDIENCE: match, **named_audiences}
    return members | ({"cors_origins": _origins(options, existing)} if options.statics else {})


def _label(emulated: EmulatedProvider) -> dict[str, str]:
    return {"label": f"{emulated.name} (development)"}


def _addresses(provider: str) -> dict[str, dict[str, str]]:
    """Return the members that name the endpoints of each preset, below the provider's address."""
    member_names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
    discord = documents.DISCORD_AUTHORIZE, documents.DISCORD_TOKEN, documents.DISCORD_USER
    github = "/github/authorize", "/github/token", documents.GITHUB_USER
    of_discord, of_github = (
        {member: provider + path for member, path in zip(member_names, paths, strict=True)}
        for paths in (discord, github)
    )
    return {
        "discord": of_discord,
        "google": {"issuer": provider},
        "github": {**of_github, "identity_namespace": f"{provider}/github"},  # its origin alone is Discord's, too
        "twitch": {"issuer": f"{provider}/twitch"},
        "microsoft": {"issuer": f"{provider}/microsoft/common/v2.0"},
        "apple": {"issuer": f"{provider}/apple", "team_id": TEAM_ID, "key_id": KEY_ID},
        "steam": {"authorization_endpoint": provider + documents.STEAM_LOGIN},
    }


def _origins(options: DevOptions, existing: Mapping[str, object]) -> list[object]:
    """Return the page's origins and those that the developer added; the server reports errors in them."""
    named = existing.get("cors_origins", [])
    others = named if isinstance(named, list) else [named]
    page = origins(options.static_port)
    return [*page, *(origin for origin in others if origin not in page)]


def prepare_players(folder: Path, config: Config) -> Path:
    """Create the sample players, and return a file with new credentials for them."""
    assert config.master_key is not None
    keys = Keys.of(config.master_key, token_bytes)

    def transaction(connection: Connection) -> dict[str, object]:
        players = {person.key: _player(connection, keys, config, person) for person in SAMPLES}
        active = {key: player for key, player in players.items() if player.state == "active"}
        return {key: sign_in(connection, keys, player, config) for key, player in active.items()}

    file, found = folder / PLAYERS_FILE, SqliteStore(data=folder / DATA).run_transaction(AUTH, transaction)
    write_whole(file, json.dumps({"server": config.public_url, "players": found}, indent=2).encode() + b"\n", 0o600)
    return file


def _player(connection: Connection, keys: Keys, config: Config, person: SamplePerson) -> Player:
    """Return the sample player of an earlier start, or create one; all providers identify the same player."""
    known = _identities(config, person)
    owners = [player_tables.identity_owner(connection, identity.index(keys.indexer)) for identity in known.values()]
    player_id = next(filter(None, owners), None)
    if player_id is None:
        player_id = new_player_id(token_bytes)
        create_player(connection, player_id, now_ms())
        player_tables.set_display_name(connection, keys.sealer, player_id, person.name)
    for (provider, identity), owner in zip(known.items(), owners, strict=True):
        if owner is None and not player_tables.has_identity(connection, player_id, provider):
            index, realm = identity.index(keys.indexer), identity.namespace_index(keys.indexer)
            player_tables.insert_identity(
                connection, index=index, namespace=realm, player_id=player_id, provider=provider, now_ms=now_ms()
            )
    player = find_player(connection, player_id)
    assert player is not None
    return player


def _identities(config: Config, person: SamplePerson) -> dict[str, ExternalIdentity]:
    return {name: identity_of(config.providers[name], subject) for name, subject in person.subjects.items()}


def prepare_assets(data: Path, game: GameSettings, folder: Path | None) -> Sequence[str]:
    """Publish the folder as `stable`, or without one samples in `stable` and `beta` if nothing is published yet.

    Return the channels with their releases.
    """
    store = AssetStore(data / FOLDER)
    publisher = Publisher(
        store=store, progress=bar, now_ms=now_ms, min_free_bytes=0, keep_releases=game.assets.keep_releases
    )
    if folder is not None:
        _publish(publisher, PublishRequest(folder, "stable", "gamed dev"))
    elif not store.channels():
        for channel, note, files in RELEASES:
            with TemporaryDirectory(dir=data) as source:
                for path, content in files.items():
                    Path(source, path).parent.mkdir(parents=True, exist_ok=True)
                    Path(source, path).write_bytes(content)
                _publish(publisher, PublishRequest(Path(source), channel, note))
    return [f"{channel} ({store.pointer(channel).release})" for channel in store.channels()]


def _publish(publisher: Publisher, request: PublishRequest) -> None:
    try:
        with asset_errors(publisher.store):
            publisher.publish(request)
    except PublishRefused as e:
        reasons = [f"  {refused.path}: {refused.reason}" for refused in e.refused[:SHOWN_REFUSALS]]
        raise SetupError("\n".join([f"{request.folder} cannot be published:", *reasons])) from None
