"""The sample for match servers in Godot checks tickets of a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from clients.conformance.tests.test_godot3 import own_folders
from clients.godot4.tests.engine import godot4
from tests.tickets.samples import PATIENCE_SECONDS, SAMPLES, SECRET, FailingServer, SampleCase, lines

GODOT_MAIN = """
extends SceneTree

const TicketCheck = preload("res://ticket_check.gd")


func _initialize():
	var tickets = TicketCheck.new(OS.get_environment("SERVER"), OS.get_environment("GAMED_MATCH_SECRET"))
	root.add_child(tickets)
	await process_frame
	for line in FileAccess.open("res://lines.txt", FileAccess.READ).get_as_text().split("\\n", false):
		var words = line.split(" ")
		var player = await tickets.check(words[-1], words[0] if words.size() == 2 else "")
		print("ANSWER " + JSON.stringify({"refused": "empty"} if player.is_empty() else {"player": player["sub"]}))
	quit()
"""
GODOT_PEERS = """
extends SceneTree

const TicketCheck = preload("res://ticket_check.gd")


func _initialize():
	var tickets = TicketCheck.new(OS.get_environment("SERVER"), OS.get_environment("GAMED_MATCH_SECRET"))
	root.add_child(tickets)
	await process_frame
	var nonces = [tickets.new_nonce(7), tickets.new_nonce(8), tickets.new_nonce(9)]
	tickets.forget(9)
	for id in [7, 7, 7, 8, 8, 9, 10]:
		tickets.check_peer(id, "a.b.c")
	while tickets.get_child_count() > 0:
		await process_frame
	print("ANSWER " + JSON.stringify({"nonces": nonces}))
	quit()
"""


class GodotTests(SampleCase):
    def test_checks(self) -> None:
        """The Godot server accepts the tickets of this connection alone, and none without gamed."""
        cases = self.cases()
        project = self.project(GODOT_MAIN)
        (project / "lines.txt").write_text(lines(cases), "utf-8")
        self.check(self.played(project, self.service.base), cases)
        self.service.terminate()
        self.assertEqual({"player" in answer for answer in self.played(project, self.service.base)}, {False})

    def test_peers(self) -> None:
        """Each nonce is for one request to gamed, however often its peer calls meanwhile."""
        failing = FailingServer()
        self.addCleanup(failing.close)
        [answer] = self.played(self.project(GODOT_PEERS), failing.base)
        self.assertEqual(failing.paths, ["/auth/tickets/introspect"] * 2)
        self.assertEqual(len(set(answer["nonces"])), 3)
        for nonce in answer["nonces"]:
            self.assertRegex(nonce, "^[0-9a-f]{48}$")

    def project(self, main: str) -> Path:
        """Return a Godot project with the sample and a main script."""
        project = self.folder / "project"
        project.mkdir()
        shutil.copy(SAMPLES / "ticket_check.gd", project)
        (project / "project.godot").write_text("config_version=5\n")
        (project / "main.gd").write_text(main)
        return project

    def played(self, project: Path, server: str) -> list[dict[str, Any]]:
        command = [*own_folders(), godot4(), "--headless", "--path", str(project), "-s", "main.gd"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env={"PATH": os.environ["PATH"], "SERVER": server, "GAMED_MATCH_SECRET": SECRET},
            check=False,
        )
        said = done.stdout + done.stderr
        self.assertNotIn("SCRIPT ERROR", said)
        answers = [line.partition("ANSWER ")[2] for line in said.splitlines() if "ANSWER " in line]
        self.assertNotEqual(answers, [], said)
        return [json.loads(answer) for answer in answers]
