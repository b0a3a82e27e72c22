"""The main job: sign in, save, load; also after a power cut."""

import os
import subprocess
import sys
import threading
import time
from typing import ClassVar

from tests.e2e.cases import NAME, PASSWORD, PATIENCE_SECONDS, QUICK, Player, ServiceCase
from tests.support.covers import covers
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import gamed_client as gc
from tests.support.stores import sqlite_files

SAVE = bytes(range(256)) * 4096


class MainJob(ServiceCase):
    """The service with the configuration that it writes itself."""

    config = None
    intervals: ClassVar = QUICK

    def program(self, *arguments: str, browser: str = "false") -> subprocess.Popen:
        """Run the reference client as players do."""
        place = ["--server", self.service.base, "--folder", str(self.folder / "player")]
        command = [sys.executable, str(PATH), *place, *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env={**os.environ, "BROWSER": browser}, **streams)

    def done(self, process: subprocess.Popen) -> bytes:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(process.returncode, 0, err)
        return out

    @covers("1/2", "1/8", "5/5")
    def test_saves_outlive_kill(self) -> None:
        """A save is unchanged after kill -9, a restart and a refresh."""
        asked, window = self.folder / "asked", self.window()
        hook = self.folder / "browser"
        hook.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}.new && mv {asked}.new {asked}\n')
        hook.chmod(0o700)
        login = self.program("login", browser=f"{hook} %s")
        self.addCleanup(login.kill)
        while not asked.exists():
            self.assertIsNone(login.poll())
            time.sleep(0.02)
        window.open(asked.read_text())
        window.create_account(NAME, PASSWORD)
        self.assertIn(b"Signed in as ply_", self.done(login))
        window.wait_for("You can go back to the game")
        (self.folder / "save").write_bytes(SAVE)
        self.done(self.program("save", "put", "auto", str(self.folder / "save")))
        self.assertEqual(self.done(self.program("save", "get", "auto")), SAVE)
        before = self.client().credential
        self.service.kill()
        self.service.start()
        self.assertEqual(self.done(self.program("save", "get", "auto")), SAVE)
        later = self.client(now=lambda: time.time() + 3600)  # for this game the access token has expired
        self.assertEqual(later.get("auto").data, SAVE)
        self.assertNotEqual(later.credential.refresh_credential, before.refresh_credential)
        self.assertEqual(later.credential.session_id, before.session_id)
        self.assertEqual(self.done(self.program("save", "get", "auto")), SAVE)

    @sqlite_files("a server without a configuration keeps its data in files")
    @covers("1/6", "2.1/5")
    def test_first_configuration(self) -> None:
        """The first run has written a configuration with `local` mode to the given path, for owner and group."""
        self.assertEqual(self.client().policy(), ("local", ()))
        self.assertEqual(self.service.config.stat().st_mode & 0o777, 0o640)
        self.assertEqual(self.service.data.stat().st_mode & 0o777, 0o700)

    def test_second_sign_in(self) -> None:
        """The same name and password are the same player, also on another device."""
        client = self.created(self.window())
        client.put("auto", b"mine", base=None)
        window = self.window()
        other = gc.GamedClient(self.service.base, folder=self.folder / "laptop")
        other.sign_in(Player(), open_browser=self.opens(window, lambda: window.sign_in(NAME, PASSWORD)))
        self.assertEqual(other.credential.player_id, client.credential.player_id)
        self.assertNotEqual(other.credential.session_id, client.credential.session_id)
        self.assertEqual(other.get("auto").data, b"mine")

    def test_conflict(self) -> None:
        """If two devices write over the same version, one wins, the other gets a conflict, and no bytes are lost."""
        client = self.created(self.window())
        first = client.put("auto", b"first", base=None)
        client.put("auto", b"second", base=first)
        error = self.assertRaises(gc.Conflict, client.put, "auto", b"third", base=first)
        self.assertEqual((error.code, error.current.version), ("version_conflict", 2))
        self.assertEqual(error.yours.size, len(b"third"))
        self.assertEqual(client.get("auto").data, b"second")
        self.assertEqual([(save.slot, save.version) for save in client.list_saves()], [("auto", 2)])
        client.delete("auto", base=error.current)
        self.assertRaises(gc.Deleted, client.get, "auto")

    @covers("5/12")
    def test_sign_out(self) -> None:
        """After the sign-out the session has ended at the server, and no credential is kept here."""
        client = self.created(self.window())
        kept = client.credential
        self.assertTrue(client.sign_out())
        self.assertEqual(list((self.folder / "player").glob("*.json")), [])
        answer = self.ask("GET", "/game/", bearer=kept.access_token)
        self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))
        refresh = {"refresh_credential": kept.refresh_credential}
        answer = self.ask("POST", "/auth/session/refresh", json_body=refresh)
        self.assertEqual((answer.status, answer.json["code"]), (401, "session_revoked"))

    def test_killed_while_signing_in(self) -> None:
        """A login survives kill -9 between its start and its collect; the client only waits a little longer."""
        client, window = self.client(), self.window()

        def interrupted() -> None:
            self.service.kill()
            self.service.start()
            window.create_account(NAME, PASSWORD)

        client.sign_in(Player(), open_browser=self.opens(window, interrupted))
        self.assertEqual(client.whoami()["player"]["id"], client.credential.player_id)

    def test_terminated_while_signing_in(self) -> None:
        """SIGTERM answers waiting requests and ends with 0; the login goes on after the restart."""
        client, window, codes = self.client(), self.window(), []

        def interrupted() -> None:
            codes.append(self.service.terminate())
            self.service.start()
            window.create_account(NAME, PASSWORD)

        client.sign_in(Player(), open_browser=self.opens(window, interrupted))
        self.assertEqual(codes, [0])
        self.assertTrue(client.signed_in)

    def test_shared_credential(self) -> None:
        """Eight games that share an expired sign-in all continue, and the session stays."""
        self.created(self.window())
        late = lambda: time.time() + 3600  # noqa: E731
        outcomes: list[str] = []
        threads = [
            threading.Thread(target=lambda: outcomes.append(self.client(now=late).whoami()["player"]["id"]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        self.assertEqual(len(outcomes), 8)
        self.assertEqual(len(set(outcomes)), 1)
