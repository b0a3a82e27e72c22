"""The contenders, started when a row first asks for them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from bench.house import GAMED, House, Player
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
    """By letter; one process each until stop(). N and D read the files that `G` serves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, Process] = {}
        self._houses: dict[str, House] = {}
        self._makers: Mapping[str, Callable[[], Process]] = {
            "K": lambda: self._reference("klein_ok"),
            "N": lambda: self._reference("naive", str(self._house_of("G").folder)),
            "D": lambda: self._reference("direct", str(self._house_of("G").folder)),
            "X": self._nginx,
            "W1": lambda: self._house("W1", script="one_commit"),
            "quiet": lambda: self._house("quiet", script="quiet"),
            "G": lambda: self._house("G"),
            "G-admin": lambda: self._house("G-admin", f"--admin=tcp:{free_port()}:interface=127.0.0.1"),
            "G-slow": lambda: self._house("G-slow", slow=True),
            "W1-slow": lambda: self._house("W1-slow", script="one_commit", slow=True),
        }
        self._locks = {name: Lock() for name in self._makers}

    def get(self, name: str) -> Process:
        with self._locks[name]:
            if name not in self._processes:
                self._processes[name] = self._makers[name]()
            return self._processes[name]

    def players(self, name: str) -> Path:
        """A file of this server's players, each with one save; for wrk.lua. Servers that know nobody get G's."""
        return self._folder / (f"{name}.players" if name in self._houses else "G.players")

    def sign_in(self, name: str) -> None:
        """Anew, where credentials are spent."""
        if name in self._houses:
            self._write_players(name, self._houses[name])

    def stop(self) -> None:
        for process in self._processes.values():
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
        """What is published, and what nginx serves."""
        files = self._folder / "files"
        if not files.exists():
            files.mkdir()
            (files / "large.bin").write_bytes(os.urandom(2**20))
            (files / "small.bin").write_bytes(os.urandom(4096))
        return files

    def _publish(self, house: House) -> None:
        places = ["--config", str(house.folder / "authentication.json"), "--data", str(house.data)]
        subprocess.run([*GAMED, *places, "assets", "publish", str(self._files())], check=True, capture_output=True)

    def _house_of(self, name: str) -> House:
        self.get(name)
        return self._houses[name]

    def _house(self, name: str, *arguments: str, script: str | None = None, slow: bool = False) -> Process:
        command = GAMED if script is None else (sys.executable, "-m", REFERENCES + script)
        environment = {"LD_PRELOAD": str(self._slow_library())} if slow else {}
        house = House(self._folder / name, command=command, arguments=arguments, environment=environment)
        house.start()
        self._houses[name] = house
        self._write_players(name, house)
        if name == "G":
            self._publish(house)
        return house.process

    def _slow_library(self) -> Path:
        library = self._folder / f"{SLOW}.so"
        if not library.exists():
            compiler = shutil.which("cc") or shutil.which("gcc")
            if compiler is None:
                raise Missing("a C compiler")
            source = Path(__file__).parent / f"{SLOW}.c"
            subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
        return library

    def _write_players(self, name: str, house: House) -> None:
        players = house.sign_in([f"ply_{number:022d}" for number in range(PLAYERS)])
        lines = [f"{player.access} {player.refresh} {saved(house, player)}\n" for player in players]
        (self._folder / f"{name}.players").write_text("".join(lines))


class Missing(Exception):
    """What this machine lacks for a row."""


def saved(house: House, player: Player) -> str:
    """Return the entity-tag of the player's save, which is written where there is none."""
    connection = house.connect()
    headers = {"If-None-Match": "*"}
    status, body = House.request(
        connection, "PUT", "/game/saves/auto", player.access, body=os.urandom(4096), headers=headers
    )
    connection.close()
    answer = json.loads(body)
    return str(answer["etag"] if status == 201 else answer["current"]["etag"])
