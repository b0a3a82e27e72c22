"""An erased player leaves only the data that the privacy sheet names (docs/players/privacy.md)."""

import subprocess
import time
from typing import ClassVar

from msgspec.structs import replace

from tests.cli.process import GAMED, environment
from tests.e2e.cases import NAME, PASSWORD, QUICK, ServiceCase
from tests.e2e.service import Service
from tests.support.stores import sqlite_files

DEVICE, GAME, SLOT, SHOWN = "Margravine-Deck", "Palimpsest-Game", "quintessence-slot", "Zenobia Fairweather"
MARKER = b"the bytes of an erased save: heliotrope"
PATIENCE_SECONDS = 120


@sqlite_files("PostgreSQL's own files are recycled by its server")
class ErasedTests(ServiceCase):
    """A player of a quiet server: no other player writes afterwards."""

    config: ClassVar = {"mode": "local"}
    intervals: ClassVar = replace(QUICK, cleanup_seconds=2)

    def setUp(self) -> None:
        super().setUp()
        self.look = self.window()
        login = self.start(client={"name": GAME, "device_name": DEVICE})
        self.look.open(login["login_url"])
        self.look.create_account(NAME, PASSWORD)
        pair = self.collect(login, finish_code=self.look.code()).json
        self.token, self.player_id = pair["access_token"], pair["player"]["id"]
        for slot, body in ((SLOT, MARKER * 8), (f"{SLOT}-2", MARKER * 40_000)):
            saved = self.ask("PUT", f"/game/saves/{slot}", body=body, bearer=self.token)
            self.assertEqual(saved.status, 201, saved.body)
        answer = self.ask("PATCH", "/auth/player", json_body={"name": SHOWN}, bearer=self.token)
        self.assertEqual(answer.status, 200, answer.body)
        self.markers = {
            "device": DEVICE, "game": GAME, "slot": SLOT, "save": MARKER.decode(), "session": pair["session_id"],
            "login": login["login_id"],
        }  # fmt: skip

    def found(self, service: Service | None = None) -> list[tuple[str, str]]:
        """Return each marker that a file has, with the file's path."""
        files = (service or self.service).files()
        self.assertIn("data/state.db", files)
        return [
            (name, path)
            for path, content in sorted(files.items())
            if path.startswith("data/")
            for name, marker in self.markers.items()
            if marker.encode() in content
        ]

    def wait_until_gone(self) -> None:
        ends = time.monotonic() + PATIENCE_SECONDS
        while (found := self.found()) and time.monotonic() < ends:
            time.sleep(0.05)
        self.assertEqual(found, [])

    def test_by_the_game(self) -> None:
        """Soon after the deletion no file has a trace, while the server runs and after it has stopped."""
        self.assertEqual({name for name, _ in self.found()}, set(self.markers))
        self.assertEqual(self.ask("DELETE", "/auth/player", bearer=self.token).status, 204)
        self.wait_until_gone()
        self.assertEqual(self.service.terminate(), 0)
        self.assertEqual(self.found(), [])
        self.service.start()

    def test_the_id_that_stays(self) -> None:
        """The player's id stays in the row of state.db and in the record of the erasure, as the sheet states."""
        self.ask("DELETE", "/auth/player", bearer=self.token)
        self.wait_until_gone()
        self.assertEqual(self.service.terminate(), 0)
        files = self.service.files()
        kept = {
            path for path, content in files.items() if self.player_id.encode() in content and path.startswith("data/")
        }
        self.assertEqual(kept, {"data/auth.db", "data/state.db"})
        self.service.start()

    def test_by_command(self) -> None:
        """The owner's command leaves no trace beside a server after its next cleanup.

        The real minute until then is in tests.account.test_periodic.
        """
        self.erase()
        self.wait_until_gone()

    def test_by_command_of_a_stopped_server(self) -> None:
        """The command on a stopped server leaves no trace."""
        self.assertEqual(self.service.terminate(), 0)
        self.erase()
        self.assertEqual(self.found(), [])
        self.service.start()

    def erase(self) -> None:
        where = ["--config", str(self.service.config), "--data", str(self.service.data)]
        command = [*GAMED, *where, "players", "erase", self.player_id, "--yes"]
        run = subprocess.run(command, env=environment({}), capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
