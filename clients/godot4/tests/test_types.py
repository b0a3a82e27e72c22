"""Every declaration in the client for Godot 4 has a type, and its classes have names for games."""

import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from shutil import copy

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import CLIENTS
from clients.conformance.tests.test_godot3 import own_folders
from clients.godot3.tests.readme_game import CLASSES
from clients.godot4.tests.engine import godot4
from clients.godot4.tests.test_godot4 import FILES
from tests.support.folders import unused_path

ERRORS = (
    "untyped_declaration",
    "inference_on_variant",
    "redundant_await",
    "shadowed_global_identifier",
    "unassigned_variable",
    "unreachable_code",
    "unused_parameter",
    "unused_variable",
)
"""Warnings of the engine that are errors here; in a game's project they are as its developer wants them."""
SCRIPTS = (*FILES, "plugin.gd")
LOAD_ALL = """\
extends SceneTree

func _init() -> void:
	for name: String in DirAccess.get_files_at("res://"):
		if name.ends_with(".gd") and name != "main.gd" and load("res://" + name) != null:
			print("LOADED " + name)
	quit()
"""
NAMED_GAME = """\
extends SceneTree

const GamedClient = preload("res://gamed.gd")  # as games do that were written for an earlier version
var client := GamedClient.new("http://127.0.0.1:1", {"app": "types"})

func _init() -> void:
	call_deferred("_play")

func _play() -> void:
	var saves := GamedSync.new(client)
	var assets := GamedAssets.new(client)
	print("NAMES %s %s %s" % [saves.is_open(), assets.current(), GamedTexts.new("de").text("Cancel")])
	print("OLDER %s %s %s %s" % [client.flaw, saves.flaw, saves.trouble, saves.dropped("auto").error])
	saves.trouble_changed.connect(_on_changed)
	var sent := await saves.pump()
	print("OLDER %s %s" % [sent.error.code, saves.trouble == saves.problem])
	saves.close()
	quit()

func _on_changed(error: GamedClient.GamedError) -> void:
	print("OLDER %s" % error.code)
"""


class Types(SynchronousTestCase):
    def project(self, *, added: Mapping[str, str] | None = None) -> Path:
        """Make a project of all scripts in which the warnings are errors, with `added` at the end of a script."""
        folder = unused_path(self)
        folder.mkdir()
        warnings = "".join(f"gdscript/warnings/{name}=2\n" for name in ERRORS)
        (folder / "project.godot").write_text(f"config_version=5\n[debug]\n{warnings}", "utf-8")
        for name in SCRIPTS:
            copy(CLIENTS / "godot4" / name, folder)
        for name, text in (added or {}).items():
            with (folder / name).open("a") as script:
                script.write(text)
        return folder

    def run_engine(self, project: Path, *arguments: str) -> list[str]:
        """Return the output of the engine."""
        command = [*own_folders(), godot4(), "--headless", "--path", str(project), *arguments]
        ran = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False
        )
        return ran.stdout.splitlines()

    def errors_of(self, project: Path) -> tuple[list[str], set[str]]:
        """Return the engine's errors with their places, and the names of the scripts that it has loaded."""
        (project / "main.gd").write_text(LOAD_ALL, "utf-8")
        said = self.run_engine(project, "-s", "main.gd")
        errors = [" ".join(pair) for pair in pairwise(said) if "SCRIPT ERROR" in pair[0]]
        return errors, {line.partition(" ")[2] for line in said if line.startswith("LOADED ")}

    def test_every_declaration(self) -> None:
        """Each variable, parameter, result and loop of all scripts has a type."""
        errors, loaded = self.errors_of(self.project())
        self.assertEqual(errors, [])
        self.assertEqual(loaded, set(SCRIPTS))

    def test_can_fail(self) -> None:
        """A declaration without a type is an error, with the place."""
        for declaration in ("\tvar x = 1\n\tprint(x)\n", "\tfor x in [1]:\n\t\tprint(x)\n"):
            added = {"gamed_texts.gd": f"\n\nfunc _f() -> void:\n{declaration}"}
            [error, *_] = self.errors_of(self.project(added=added))[0]
            self.assertRegex(error, r"static type.* at: .*gamed_texts\.gd:\d+")

    def test_global_names(self) -> None:
        """The editor registers the names of the classes, and a game may still preload a script under such a name."""
        project = self.project()
        self.run_engine(project, "--import")
        self.assertEqual(
            self.errors_of(project), ([], set(SCRIPTS))
        )  # an older name that shadows a global one is said to
        (project / "main.gd").write_text(NAMED_GAME, "utf-8")
        (project / "project.godot").write_text("config_version=5\n", "utf-8")
        said = self.run_engine(project, "-s", "main.gd")
        self.assertIn("NAMES true <null> Abbrechen", said)
        self.assertEqual([line for line in said if "ERROR" in line or "WARNING" in line], [])
        expected = ["OLDER <null> <null> <null> <null>", "OLDER signed_out", "OLDER signed_out true"]
        self.assertEqual([line for line in said if line.startswith("OLDER ")], expected)
        known = (project / ".godot" / "global_script_class_cache.cfg").read_text("utf-8")
        self.assertEqual([name for name in CLASSES.values() if f'"{name}"' not in known], [])
        self.assertNotIn('"Gamed"', known)  # the name of the autoload
