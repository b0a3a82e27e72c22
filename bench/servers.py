"""Contenders are started when a row first needs them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from bench.instance import GAMED, GamedInstance, Player
from bench.process import Process, free_port

PLAYERS = 64
REFERENCES = "bench.references."
SLOW = "slow_fsync"
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, Process] = {}
        self._instances: dict[str, GamedInstance] = {}
        self._makers: Mapping[str, Callable[[], Process]] = {
            "K": lambda: self._reference("klein_ok"),
            "N": lambda: self._reference("naive", str(self._instance_of("G").folder)),
            "D": lambda: self._reference("direct", str(self._instance_of("G").folder)),
            "X": self._nginx,
            "W1": lambda: self._instance("W1", script="one_commit"),
            "quiet": lambda: self._instance("quiet", script="quiet"),
            "G": lambda: self._instance("G"),
            "G-admin": lambda: self._instance("G-admin", f"--admin=tcp:{free_port()}:interface=127.0.0.1"),
            "G-slow": lambda: self._instance("G-slow", slow=True),
            "W1-slow": lambda: self._instance("W1-slow", script="one_commit", slow=True),
        }
        self._locks = {name: Lock() for name in self._makers}

    def get(self, name: str) -> Process:
        with self._locks[name]:
            if name not in self._processes:
                self._processes[name] = self._makers[name]()
            return self._processes[name]

    def players(self, name: str) -> Path:
        """Return a file with this server's players, each with one save, for wrk.lua; references get those of G."""
        return self._folder / (f"{name}.players" if name in self._instances else "G.players")

    def sign_in(self, name: str) -> None:
        """Sign in again after credentials were consumed."""
        if name in self._instances:
            self._write_players(name, self._instances[name])

    def stop(self) -> None:
        """Stop every server, also one whose preparation failed after its start."""
        started = [*self._processes.values(), *(instance.process for instance in self._instances.values())]
        for process in dict.fromkeys(started):
            process.stop()

    def _reference(self, name: str, *more: str) -> Process:
        port = free_port()
        words = [sys.executable, "-m", REFERENCES + name, str(port), *more]
        process = Process(words, port, self._folder / f"{name}.log", {})
        process.start()
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

    def _instance(self, name: str, *arguments: str, script: str | None = None, slow: bool = False) -> Process:
        command = GAMED if script is None else (sys.executable, "-m", REFERENCES + script)
        environment = {"LD_PRELOAD": str(self._slow_library())} if slow else {}
        instance = GamedInstance(self._folder / name, command=command, arguments=arguments, environment=environment)
        instance.start()
        self._instances[name] = instance
        self._write_players(name, instance)
        if name == "G":
            self._publish(instance)
        return instance.process

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
        lines = [f"{player.access} {player.refresh} {saved(instance, player)}\n" for player in players]
        (self._folder / f"{name}.players").write_text("".join(lines))


class Missing(Exception):
    """A program that a row needs is not installed."""


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
