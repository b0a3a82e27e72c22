"""`gamed events` shows an operator what happened, beside the service and after it was killed."""

import json
import time
from typing import Any

from gamed.database.connection import AUTH
from tests.cli.process import WAIT_SECONDS, get
from tests.cli.test_people import PeopleCase
from tests.support.covers import covers


class EventCommandTests(PeopleCase):
    def named(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.done("events", *options)
        return found

    def await_event(self, name: str) -> None:
        """Return once an event of the service is written, and `gamed events` shows it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.rows(AUTH, f"SELECT 1 FROM security_event WHERE event = '{name}'"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertIn(name, [each["event"] for each in self.named()])

    def sign_out(self, who: str) -> None:
        held = self.token(who)
        body = {"refresh_credential": held["refresh_credential"]}
        self.assertEqual(self.code("POST", "/auth/session/logout", body=body)[0], 204)

    def test_commands(self) -> None:
        """Show a command as soon as it has ended, with its player and the system's user."""
        self.done("players", "block", "anna")
        [block, *adds] = self.named()
        self.assertEqual((block["event"], block["player"], block["times"]), ("command", self.anna, 1))
        self.assertEqual(block["values"]["command"], "players block")
        self.assertRegex(block["values"]["by"], r"^uid:\d+")
        self.assertEqual({each["values"]["command"] for each in adds}, {"players add"})
        text = self.gamed("events")[1]
        self.assertRegex(text, r"^LAST +TIMES +EVENT +PLAYER +DETAILS\n")
        self.assertRegex(text, r"\njust now +1 +command +Anna +command=\"players block\" by=uid:\d+\n")

    def test_of_one_player(self) -> None:
        """Choose the events of a player by id, without the key, or by name."""
        self.done("players", "block", "ben")
        for who in ("anna", self.anna):
            self.assertEqual({each["player"] for each in self.named("--player", who)}, {self.anna})
        self.assertIn("There is no player", self.refused("events", "--player", "nobody"))
        self.assertEqual(self.gamed("events", "--player", "ply_nobody")[1], "no events in that time\n")

    def test_since(self) -> None:
        """Look back by a duration; refuse every other form with a sentence."""
        self.assertEqual(self.named("--since", "0s"), [])
        self.assertEqual(len(self.named("--since", "999999999999d")), 2)
        for wrong in ("1", "1w", "-1d", "yesterday", "2026-11-22", "", "1d1d", "\u0661d", "1" * 10_000 + "d", "1D"):
            code, out, err = self.gamed_here("events", f"--since={wrong}")
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn("expected a duration such as 24h or 7d", err, wrong[:20])

    @covers("threats/48")
    def test_killed(self) -> None:
        """Keep the events that were written before kill -9, and those of commands in any case."""
        self.sign_out("anna")
        self.await_event("signed_out")
        self.process.kill()
        self.process.wait(WAIT_SECONDS)
        self.done("players", "block", "ben")
        found = [each["event"] for each in self.named()]
        self.assertEqual((found[0], found.count("signed_out")), ("command", 1))

    def test_stopped(self) -> None:
        """Write every event before the service ends; the lines of commands are there once only."""
        self.sign_out("anna")
        self.assertEqual(self.stop(self.process), 0)
        names = [each["values"].get("command", each["event"]) for each in self.named()]
        self.assertEqual(sorted(names), ["players add", "players add", "players token", "signed_out"])

    def test_no_server_yet(self) -> None:
        """Name the reason on a data folder without databases."""
        code, out, err = self.run_command("--data", str(self.folder / "new"), "events", "--json")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("There is no auth.db", err)

    def test_nothing_is_secret(self) -> None:
        """Show neither name, nor session, nor address."""
        held = self.token("anna")
        get(self.port, "/auth/sessions", held["access_token"])
        self.sign_out("anna")
        self.await_event("signed_out")
        text = json.dumps(self.named())
        for secret in ("Anna", "127.0.0.1", held["session_id"], held["access_token"], held["refresh_credential"]):
            self.assertNotIn(secret, text)
