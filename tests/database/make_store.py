"""`python -m tests.database.make_store` keeps a store of the present schemas for the tests of later ones.

It runs the real commands: `gamed dev` for players with identities, then `gamed serve`, changes by HTTP and by commands,
`gamed backup`, `gamed move-store` to a PostgreSQL of its own and a backup there. Passkeys and recovery codes
are written by gamed's own functions, since they need a browser. The archive is
`tests/database/schemas/auth<number>-state<number>.tar.xz`; the SHA-256 of each script is in `scripts.sha256` beside it.
"""

import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import closing, suppress
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from fido2 import cbor
from fido2.cose import ES256

import gamed
from gamed.crypto import Keys, Secret
from gamed.database.connection import AUTH, STATE, Connection
from gamed.database.sqlite.store import SqliteStore
from gamed.login.transaction import ClientInfo
from gamed.passkeys import recovery_tables, ways_tables
from gamed.passkeys import tables as passkey_tables
from gamed.passkeys.ceremony import Ceremony
from gamed.passkeys.model import HANDLE_BYTES, Credential, NewPasskey, Use, new_passkey_id
from gamed.passkeys.recovery_rules import RecoveryCodes, code_index
from gamed.sessions import browser_tables
from gamed.sessions import tables as session_tables
from gamed.sessions.browser_rules import BrowserName, NewBrowserSession
from gamed.sessions.credentials import PASSKEY, RECOVERY_CODE, SessionPolicy, generate_pair, new_session_id
from tests.support.ports import free_port
from tests.support.postgresql import cluster

FOLDER = Path(__file__).parent / "schemas"
HASHES = FOLDER / "scripts.sha256"
DATABASES = Path(gamed.__file__).parent / "database"
KEY_ENV, KEY = "GAMED_MASTER_KEY", b64encode(bytes(range(32))).decode()
DEV_KEY_ENV = "GAMED_DEV_MASTER_KEY"
PASSWORD = "correct horse battery"
SETTINGS = {
    "mode": "local",
    "master_key_env": KEY_ENV,
    "session": {"access_ttl": "24h", "refresh_ttl": "8760h"},
}
GAME = {"keep_days": 3650, "keep_hours": 8760}
LARGE = bytes(range(256)) * 2_500
"""Bytes of several parts, which take little room in an archive."""
PASSKEYS = (("Phone", "game.example"), ("Old phone", "old.example"))
"""The names and hosts of passkeys."""
CODES = [f"BCDFG-HJKLM-NPQRS-TVWX{last}" for last in "BCDFGHJKLM"]
"""Recovery codes, with which a later test can sign in."""
WAIT_SECONDS = 60.0


def main() -> None:
    """Make the archive of the present schemas; refuse to replace one."""
    if changed := {name for name, found in frozen().items() if scripts().get(name) != found}:
        names = ", ".join(sorted(changed))
        sys.exit(f"{names} changed. Undo that, and add a script. If no server has run it, delete its store and line.")
    archive = FOLDER / f"{present_name()}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive} exists. Add a script first: a store of each number is kept once.")
    with TemporaryDirectory(prefix="gamed-store-") as folder:
        Maker(Path(folder)).make()
        pack(Path(folder) / "store", archive)
    HASHES.write_text("".join(f"{found}  {name}\n" for name, found in sorted(scripts().items())), "utf-8")
    print(f"{archive}: {archive.stat().st_size} bytes")


def scripts() -> dict[str, str]:
    """Return the SHA-256 of each script by its path in gamed/database."""
    found = DATABASES.glob("*/schema/*/[0-9][0-9][0-9]_*.sql")
    return {str(path.relative_to(DATABASES)): sha256(path.read_bytes()).hexdigest() for path in found}


def frozen() -> dict[str, str]:
    """Return the SHA-256 that each script had when its store was kept."""
    lines = HASHES.read_text("utf-8").splitlines() if HASHES.exists() else []
    return {name: found for found, name in (line.split("  ") for line in lines)}


def present_name() -> str:
    """Return the name of a store that the scripts of this checkout make."""
    numbers = {name: len([*(DATABASES / "sqlite" / "schema" / name).glob("*.sql")]) for name in (AUTH, STATE)}
    return f"auth{numbers[AUTH]}-state{numbers[STATE]}"


def pack(folder: Path, archive: Path) -> None:
    """Write the files of a folder into an archive, without names of users."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    archive.parent.mkdir(exist_ok=True)
    part = archive.with_suffix(".part")
    with lzma.open(part, "wb", preset=9 | lzma.PRESET_EXTREME) as file, tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder, ".", filter=plain)
    part.replace(archive)


class Maker:
    """The commands and requests that fill a store, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        self.config, self.data = self.store / "authentication.json", self.store / "data"
        self.port = free_port()

    def make(self) -> None:
        """Make the folder `store`: configuration, data folder, a backup of each engine, and what is in them."""
        self._begin()
        with Served(self):
            found = self._fill()
        found["passkeys"] = self._add_passkeys(found["players"]["anna"]["id"])
        found["recovery_codes"] = self._add_codes(found["players"]["anna"]["id"])
        for _ in range(2):  # a command that no server has logged yet, and its repeat
            self._json("players", "note", "Zoë", "asked twice")
        found["made_ms"] = time.time_ns() // 1_000_000
        self._gamed("backup", str(self.store / "sqlite"))
        self._copy_to_postgresql()
        (self.store / "expected.json").write_text(json.dumps(found, indent=1), "utf-8")
        assert not [*self.data.glob("*-wal")], "SQLite has not written its log into the files"
        for path in self.data.iterdir():
            if path.suffix != ".db":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _begin(self) -> None:
        """Let `gamed dev` make its two players, each with two identities."""
        dev = self.folder / "dev"
        dev.mkdir(mode=0o700)
        (dev / "master.key").write_text(KEY, "utf-8")
        (dev / "authentication.json").write_text(json.dumps({"master_key_env": DEV_KEY_ENV}), "utf-8")
        self._run("dev", "--folder", str(dev), "--script", "true")
        self.store.mkdir()
        shutil.copytree(dev / "data", self.data)
        self.config.write_text(json.dumps(SETTINGS), "utf-8")
        (self.store / "game.json").write_text(json.dumps(GAME), "utf-8")

    def _fill(self) -> dict[str, Any]:
        players = {}
        for name in ("anna", "bert", "Zoë"):
            made = self._json("players", "add", name, "--password-stdin", text=PASSWORD)
            players[name] = {"id": made["id"], **self._json("players", "token", name)}
        anna, bert = players["anna"]["access_token"], players["bert"]["access_token"]
        saves: dict[str, dict[str, str]] = {"anna": {}, "bert": {}}
        tag = ""
        for level in range(4):
            body = f"level {level}".encode()
            headers = {"If-Match": tag} if tag else {"If-None-Match": "*"}
            tag = self._put(anna, "auto", body, **headers, **{"Save-Meta": json.dumps({"level": level})})
        self._put(anna, "auto", b"another device's level", 412, **{"If-Match": '"9-0000000000000000"'})
        saves["anna"]["auto"] = digest(b"level 3")
        self._put(anna, "large", LARGE, **{"If-None-Match": "*"})
        saves["anna"]["large"] = digest(LARGE)
        self._put(anna, "gone", b"deleted", **{"If-None-Match": "*"})
        self.ask("DELETE", "/game/saves/gone", anna, expected=204, **{"If-Match": "*"})
        self._put(bert, "world", b"\0\xff\n", **{"If-None-Match": "*"})
        saves["bert"]["world"] = digest(b"\0\xff\n")
        self._put(bert, "replaced", b"x" * 40_000, **{"If-None-Match": "*"})
        self._put(bert, "replaced", b"y" * 40_000, **{"If-Match": "*"})
        saves["bert"]["replaced"] = digest(b"y" * 40_000)
        self._json("players", "block", "Zoë")
        self._json("players", "note", "bert", "plays on Sundays")
        self._json("players", "invite")
        for _ in range(2):
            self.ask("POST", "/auth/login", body=b"{}", expected=201)
        self.ask("GET", "/game/saves", "gat_wrong", expected=401)
        history = json.loads(self.ask("GET", "/game/saves/auto/versions", anna)[1])
        return {"players": players, "saves": saves, "versions": len(history["versions"])}

    def _add_passkeys(self, player_id: str) -> list[dict[str, str]]:
        """Store two passkeys of a player, two sessions that the first has opened, and its challenge.

        The second is of another host. Their private keys are 1 and 2, so that a later test can sign with them.
        """
        keys, now_ms = Keys.of(Secret(b64decode(KEY)), token_bytes), time.time_ns() // 1_000_000
        used = Ceremony.begin(token_bytes, now_ms, token_bytes(HANDLE_BYTES))
        found = [new_passkey_id(token_bytes) for _ in PASSKEYS]
        game = generate_pair(token_bytes, now_ms, SessionPolicy(86_400, 31_536_000), now_ms)
        browser = NewBrowserSession.generate(token_bytes, BrowserName("Firefox", "Linux"))
        by_passkey = {"player_id": player_id, "provider": PASSKEY, "now_ms": now_ms, "passkey_id": found[0]}

        def transaction(connection: Connection) -> None:
            for number, ((name, host), passkey_id) in enumerate(zip(PASSKEYS, found, strict=True), start=1):
                public_key = derive_private_key(number, SECP256R1()).public_key()
                cose = cbor.encode(ES256.from_cryptography_key(public_key))
                credential = Credential(bytes([number]) * 32, cose, used.user_handle)
                new = NewPasskey(credential, number, synced=number == 1, backed_up=number == 1)
                named = {"passkey_id": passkey_id, "player_id": player_id, "rp_id": host, "name": name}
                passkey_tables.insert(connection, keys, new, **named, now_ms=now_ms)
            passkey_tables.record_use(connection, found[0], Use(1, backed_up=True, went_back=False), now_ms)
            passkey_tables.use_challenge(connection, keys.indexer, used, now_ms)
            session = {"session_id": new_session_id(token_bytes), "client": ClientInfo().to_json(), "login_id": None}
            session_tables.open_session(connection, keys, **session, **by_passkey, pair=game)
            browser_tables.open_browser(connection, keys.indexer, browser, **by_passkey, verified=True)

        with closing(SqliteStore(data=self.data)) as store:
            store.run_transaction(AUTH, transaction)
        return [{"player": player_id, "name": name, "host": host} for name, host in PASSKEYS]

    def _add_codes(self, player_id: str) -> list[dict[str, object]]:
        """Store ten recovery codes of a player, of which one was used, and the session that it has opened."""
        keys, now_ms = Keys.of(Secret(b64decode(KEY)), token_bytes), time.time_ns() // 1_000_000
        game, made = generate_pair(token_bytes, now_ms, SessionPolicy(86_400, 31_536_000), now_ms), RecoveryCodes(CODES)
        by_code = {"player_id": player_id, "provider": RECOVERY_CODE, "now_ms": now_ms}

        def transaction(connection: Connection) -> None:
            recovery_tables.replace(connection, keys.indexer, player_id, made, now_ms)
            ways_tables.use_code(connection, code_index(keys.indexer, player_id, CODES[0]), player_id)
            session = {"session_id": new_session_id(token_bytes), "client": ClientInfo().to_json(), "login_id": None}
            session_tables.open_session(connection, keys, **session, **by_code, pair=game)

        with closing(SqliteStore(data=self.data)) as store:
            store.run_transaction(AUTH, transaction)
        return [{"player": player_id, "left": len(CODES) - 1}]

    def _copy_to_postgresql(self) -> None:
        """Move a copy of the store to PostgreSQL, and make a backup there."""
        copy, address = self.folder / "copy", cluster().database()
        shutil.copytree(self.data, copy)
        config = self.folder / "postgresql.json"
        config.write_text(json.dumps(SETTINGS), "utf-8")
        places = ("--config", str(config), "--data", str(copy))
        self._run(*places, "move-store", "--to", address.url)
        config.write_text(json.dumps({**SETTINGS, "store": address.url}), "utf-8")
        self._run(*places, "backup", str(self.store / "postgresql"))

    def _put(self, token: str, slot: str, body: bytes, expected: int = 0, **headers: str) -> str:
        status, _, fields = self.ask("PUT", f"/game/saves/{slot}", token, body, **headers)
        assert status == expected or (not expected and status in {200, 201, 204}), (slot, status)
        return fields.get("etag", "")

    def ask(
        self, method: str, path: str, token: str = "", body: bytes | None = None, expected: int = 0, **headers: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Send a request; return status, body and headers."""
        fields = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        if body is not None and path.startswith("/auth/"):
            fields["Content-Type"] = "application/json"
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)) as connection:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            found = answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        assert expected in {0, found[0]}, (method, path, found)
        return found

    def _gamed(self, *arguments: str, text: str = "") -> str:
        return self._run("--config", str(self.config), "--data", str(self.data), *arguments, text=text)

    def _json(self, *arguments: str, text: str = "") -> Any:
        return json.loads(self._gamed(*arguments, "--json", text=text))

    def _run(self, *arguments: str, text: str = "") -> str:
        command = [sys.executable, "-m", "gamed", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=self.environ, check=False)
        if done.returncode:
            sys.exit(f"gamed {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of commands: nothing of the caller's settings."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, KEY_ENV: KEY}


class Served:
    """A running `gamed serve`, as a context."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    def __enter__(self) -> None:
        maker = self._maker
        places = ("--config", str(maker.config), "--data", str(maker.data))
        command = [sys.executable, "-m", "gamed", *places, "serve", f"--listen=tcp:{maker.port}:interface=127.0.0.1"]
        self._process = subprocess.Popen(command, env=maker.environ, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                if maker.ask("GET", "/healthz")[0] == 200:
                    return
            assert self._process.poll() is None, "gamed serve has ended"
            time.sleep(0.05)
        raise AssertionError("gamed serve does not answer")

    def __exit__(self, *_exception: object) -> None:
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)


def digest(body: bytes) -> str:
    """Return the SHA-256 of a save's bytes."""
    return sha256(body).hexdigest()


if __name__ == "__main__":
    main()
