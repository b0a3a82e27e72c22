"""What a game finds at a development server without anybody doing anything first: players, and releases."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from secrets import token_bytes
from sqlite3 import Connection
from tempfile import TemporaryDirectory

from gamed.assets.errors import PublishRefused
from gamed.assets.plan import Order
from gamed.assets.publisher import Publisher
from gamed.assets.store import FOLDER, AssetStore
from gamed.cli.assets_host import refusing
from gamed.cli.dev_folder import DATA
from gamed.cli.files import AUTH_DB, write_whole
from gamed.cli.player_commands import sign_in
from gamed.cli.progress import growing
from gamed.cli.refusal import Refusal
from gamed.clock import now_ms
from gamed.config.game import Game
from gamed.config.model import Config
from gamed.crypto import Keys
from gamed.dev.people import PEOPLE, Person
from gamed.identity.provider import Identity
from gamed.identity.realm import Realm
from gamed.players.names import new_player_id
from gamed.storage.auth import identities
from gamed.storage.auth.players import Player, create_player, find_player
from gamed.storage.command import once

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

    file, found = place / PLAYERS_FILE, once(place / DATA / AUTH_DB, unit)
    write_whole(file, json.dumps({"server": config.public_url, "players": found}, indent=2).encode() + b"\n", 0o600)
    return file


def _player(connection: Connection, keys: Keys, config: Config, person: Person) -> Player:
    """Of an earlier start if there was one: the developer may have blocked them since. Signs in through both sides."""
    ways = _ways(config, person)
    owners = [identities.owner(connection, identity.index(keys.indexer)) for identity in ways.values()]
    player_id = next(filter(None, owners), None)
    if player_id is None:
        player_id = new_player_id(token_bytes)
        create_player(connection, player_id, now_ms())
    for (provider, identity), owner in zip(ways.items(), owners, strict=True):
        if owner is None and not identities.has_one(connection, player_id, provider):
            index, realm = identity.index(keys.indexer), Realm.where(identity).index(keys.indexer)
            identities.insert(
                connection, index=index, realm=realm, player_id=player_id, provider=provider, now_ms=now_ms()
            )
    player = find_player(connection, player_id)
    assert player is not None
    return player


def _ways(config: Config, person: Person) -> dict[str, Identity]:
    subjects = {"discord": person.discord_id, "google": person.google_sub}
    realms = {provider: Realm.of(config.providers[provider]) for provider in subjects}
    return {
        provider: Identity(realms[provider].kind, realms[provider].namespace, subjects[provider])
        for provider in subjects
    }


def prepare_assets(data: Path, game: Game, folder: Path | None) -> Sequence[str]:
    """The folder as `stable`; without one a sample in `stable` and `beta`, unless something was published already.

    The channels there are, with their releases.
    """
    store = AssetStore(data / FOLDER)
    publisher = Publisher(store, growing, now_ms, 0, game.assets.keep_releases)
    if folder is not None:
        _publish(publisher, Order(folder, "stable", "gamed dev"))
    elif not store.channels():
        for channel, note, files in RELEASES:
            with TemporaryDirectory(prefix="gamed-dev-") as source:
                for path, content in files.items():
                    Path(source, path).parent.mkdir(parents=True, exist_ok=True)
                    Path(source, path).write_bytes(content)
                _publish(publisher, Order(Path(source), channel, note))
    return [f"{channel} ({store.pointer(channel).release})" for channel in store.channels()]


def _publish(publisher: Publisher, order: Order) -> None:
    try:
        with refusing(order.folder):
            publisher.publish(order)
    except PublishRefused as e:
        reasons = [f"  {refused.path}: {refused.reason}" for refused in e.refused[:SHOWN_REFUSALS]]
        raise Refusal("\n".join([f"{order.folder} cannot be published:", *reasons])) from None
