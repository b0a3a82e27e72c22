"""Contenders are started when a row first needs them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

from bench.instance import GAMED, LIMITS, GamedInstance, Player
from bench.process import Process
from bench.references import peer_store, pocketbase
from tests.support.ports import free_port

PLAYERS = 64
FEW_TOKENS, MANY_TOKENS = 100, 100_000
OVER_MS = 30 * 60 * 1000
"""The time over which the live tokens were issued."""
REFERENCES = "bench.references."
FILLED = "filled"
"""The folder with a copy of the data, to which each round of these servers returns."""
SLOW = "slow_fsync"
TICKETS = {"ticket_audiences": {"match.example": {"name": True}}, "limits": {**LIMITS, "tickets_per_minute": 0}}
NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; root {files}; }}
}}
"""


class Servers:
    """The processes of the contenders by letter; N and D read the files of `G`."""

    def __init__(self, folder: Path, *, tokens: int = MANY_TOKENS) -> None:
        """`tokens` is the number of live tokens of `G-100k`."""
        self._folder = folder
        self._processes: dict[str, Process] = {}
        self._instances: dict[str, GamedInstance] = {}
        self._makers: Mapping[str, Callable[[], Process]] = {
            "K": lambda: self._reference("klein_ok"),
            "N": lambda: self._reference("naive", str(self._instance_of("G").folder)),
            "D": lambda: self._reference("direct", str(self._instance_of("G").folder)),
            "N1": lambda: self._peer("N1", "klein_peer", "1"),
            "NG": lambda: self._peer("NG", "klein_peer", "64"),
            "F": lambda: self._peer("F", "fastapi_peer", needs=("fastapi", "uvicorn", "uvloop", "httptools")),
            "P": self._pocketbase,
            "X": self._nginx,
            "W1": lambda: self._instance("W1", script="one_commit"),
            "quiet": lambda: self._instance("quiet", script="quiet"),
            "G": lambda: self._instance("G"),
            "G-admin": lambda: self._instance("G-admin", f"--admin=tcp:{free_port()}:interface=127.0.0.1"),
            "G-tickets": lambda: self._instance("G-tickets", members=TICKETS),
            "G-100": lambda: self._filled("G-100", FEW_TOKENS),
            "G-100k": lambda: self._filled("G-100k", tokens),
            "G-free": lambda: self._instance("G-free", shared_cpus=True),
            "G-slow": lambda: self._instance("G-slow", slow=True),
            "W1-slow": lambda: self._instance("W1-slow", script="one_commit", slow=True),
        }
        self._started: list[Process] = []
        self._locks = {name: Lock() for name in self._makers}

    def get(self, name: str) -> Process:
        with self._locks[name]:
            if name not in self._processes:
                self._processes[name] = self._makers[name]()
            return self._processes[name]

    def players(self, name: str) -> Path:
        """Return a file with this server's players, each with one save, for wrk.lua; servers without get those of G."""
        own = self._folder / f"{name}.players"
        return own if own.exists() else self._folder / "G.players"

    def sign_in(self, name: str) -> None:
        """Sign in again after credentials were consumed."""
        if (self._folder / name / FILLED).exists():
            self._restore(self._instances[name])
        if name in self._instances:
            self._write_players(name, self._instances[name])
        elif (self._folder / name / peer_store.FILE).exists():
            self._write_lines(name, peer_store.sign_in(self._folder / name, PLAYERS))

    def stop(self) -> None:
        """Stop every server, also one whose preparation failed after its start."""
        instances = (instance.process for instance in self._instances.values())
        started = [*self._processes.values(), *instances, *self._started]
        for process in dict.fromkeys(started):
            process.stop()

    def _reference(self, name: str, *more: str) -> Process:
        port = free_port()
        words = [sys.executable, "-m", REFERENCES + name, str(port), *more]
        process = Process(words, port, self._folder / f"{name}.log", {})
        process.start()
        return process

    def _peer(self, name: str, script: str, *more: str, needs: tuple[str, ...] = ()) -> Process:
        """Start a server with a store of its own."""
        for library in needs:
            if find_spec(library) is None:
                raise Missing(library)
        folder = self._folder / name
        folder.mkdir()
        self._write_lines(name, peer_store.sign_in(folder, PLAYERS))
        return self._reference(script, str(folder), *more)

    def _pocketbase(self) -> Process:
        program = pocketbase_program()
        if program is None:
            raise Missing("pocketbase")
        folder, port = self._folder / "P", free_port()
        folder.mkdir()
        password = pocketbase.create_superuser(program, folder)
        process = Process(pocketbase.command(program, folder, port), port, self._folder / "P.log", {})
        process.start()
        self._started.append(process)
        client = pocketbase.PocketBaseClient(port, password)
        self._write_lines("P", client.prepare(PLAYERS))
        client.close()
        return process

    def _nginx(self) -> Process:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            raise Missing("nginx")
        port = free_port()
        settings = self._folder / "nginx.conf"
        settings.write_text(NGINX.format(folder=self._folder, files=self._files(), port=port))
        words = [program, "-e", str(self._folder / "nginx.log"), "-c", str(settings)]
        process = Process(words, port, self._folder / "nginx.log", {})
        process.start()
        return process

    def _files(self) -> Path:
        """Return the folder of files that gamed publishes and nginx serves."""
        files = self._folder / "files"
        if not files.exists():
            files.mkdir()
            (files / "large.bin").write_bytes(os.urandom(2**20))
            (files / "small.bin").write_bytes(os.urandom(4096))
        return files

    def _publish(self, instance: GamedInstance) -> None:
        places = ["--config", str(instance.folder / "authentication.json"), "--data", str(instance.data)]
        subprocess.run([*GAMED, *places, "assets", "publish", str(self._files())], check=True, capture_output=True)

    def _instance_of(self, name: str) -> GamedInstance:
        self.get(name)
        return self._instances[name]

    def _instance(
        self,
        name: str,
        *arguments: str,
        script: str | None = None,
        slow: bool = False,
        shared_cpus: bool = False,
        members: Mapping[str, object] | None = None,
    ) -> Process:
        command = GAMED if script is None else (sys.executable, "-m", REFERENCES + script)
        environment = {"LD_PRELOAD": str(self._slow_library())} if slow else {}
        instance = GamedInstance(
            self._folder / name,
            command=command,
            arguments=arguments,
            environment=environment,
            shared_cpus=shared_cpus,
            members=members,
        )
        instance.start()
        self._instances[name] = instance
        self._write_players(name, instance)
        if name == "G":
            self._publish(instance)
        return instance.process

    def _filled(self, name: str, tokens: int) -> Process:
        """Start gamed with so many live tokens, two for each session, and keep a copy of its data."""
        instance = GamedInstance(self._folder / name)
        instance.start().stop()
        instance.sign_in([f"ply_filled{number:016d}" for number in range(tokens // 2)], over_ms=OVER_MS)
        shutil.copytree(instance.data, instance.folder / FILLED)
        instance.start()
        self._instances[name] = instance
        self._write_players(name, instance)
        return instance.process

    def _restore(self, instance: GamedInstance) -> None:
        """Replace the data by the copy: each refresh of an earlier round has added two live tokens."""
        instance.stop()
        shutil.rmtree(instance.data)
        shutil.copytree(instance.folder / FILLED, instance.data)
        instance.start()

    def _slow_library(self) -> Path:
        library = self._folder / f"{SLOW}.so"
        if not library.exists():
            compiler = shutil.which("cc") or shutil.which("gcc")
            if compiler is None:
                raise Missing("a C compiler")
            source = Path(__file__).parent / f"{SLOW}.c"
            subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
        return library

    def _write_players(self, name: str, instance: GamedInstance) -> None:
        players = instance.sign_in([f"ply_{number:022d}" for number in range(PLAYERS)])
        self._write_lines(name, (f"{each.access} {each.refresh} {saved(instance, each)}\n" for each in players))

    def _write_lines(self, name: str, lines: Iterable[str]) -> None:
        (self._folder / f"{name}.players").write_text("".join(lines))


class Missing(Exception):
    """A program that a row needs is not installed."""


def pocketbase_program() -> str | None:
    """Return the path of PocketBase, which pip installs beside the interpreter; None if it is not installed."""
    return shutil.which("pocketbase", path=Path(sys.executable).parent) or shutil.which("pocketbase")


def saved(instance: GamedInstance, player: Player) -> str:
    """Return the entity-tag of the player's save, which is written where there is none."""
    connection = instance.connect()
    headers = {"If-None-Match": "*"}
    status, body = GamedInstance.request(
        connection, "PUT", "/game/saves/auto", player.access, body=os.urandom(4096), headers=headers
    )
    connection.close()
    answer = json.loads(body)
    return str(answer["etag"] if status == 201 else answer["current"]["etag"])
