"""nginx with the configuration that `gamed nginx` prints, and requests to it while servers restart."""

from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread

from cryptography.x509 import DNSName

from tests.proxies.programs import HOST
from tests.proxies.samples import UPSTREAM, Nginx
from tests.support.certificates import certificate

THREADS = 3
PAUSE_SECONDS = 0.01


class PrintedNginx(Nginx):
    """nginx in front of servers on these ports; the printed text names the first one."""

    def __init__(self, folder: Path, printed: str, ports: Sequence[int]) -> None:
        self._printed = printed.replace(f"127.0.0.1:{ports[0]} ", f"{UPSTREAM} ")
        trusted = certificate(folder, DNSName(HOST))
        super().__init__(folder / "nginx", trusted, " ".join(f"127.0.0.1:{port}" for port in ports))

    def text(self) -> str:
        return self._printed


class Requests:
    """Games that list a player's saves over and over, from entering a `with` until its end."""

    def __init__(self, nginx: Nginx, token: str) -> None:
        self._nginx, self._token = nginx, token
        self._enough = Event()
        self._threads = [Thread(target=self._run) for _ in range(THREADS)]
        self.statuses: list[int | str] = []
        """The status of each answer, or the error instead of it."""

    def __enter__(self) -> "Requests":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._enough.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        headers = {"Host": HOST, "Authorization": f"Bearer {self._token}"}
        while not self._enough.wait(PAUSE_SECONDS):
            with closing(self._nginx.line()) as line:
                try:
                    line.request("GET", "/game/saves", headers=headers)
                    self.statuses.append(line.getresponse().status)
                except (OSError, HTTPException) as e:
                    self.statuses.append(repr(e))
