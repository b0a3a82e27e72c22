"""`gamed assets` works on a data folder as an operator runs it."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from gamed.assets.store import AssetStore, publish_lock
from gamed.cli.checks import doctor_local
from gamed.database.connection import AUTH
from gamed.ops.findings import Level
from tests.assets.fixtures import AssetsCase, contents, served
from tests.cli.backup_helpers import command
from tests.support.covers import covers
from tests.support.databases import prepare_files, unlogged_commands
from tests.support.postgresql import cluster
from tests.support.stores import POSTGRESQL, forget_store, store_of, with_store

FILES = {"readme.txt": b"hello", "data/level1.pck": b"\x00one" * 100}


class CommandCase(AssetsCase):
    def setUp(self) -> None:
        super().setUp()
        self.data = self.folder / "data"
        self.prepare()
        self.game = self.folder / "game.json"
        self.game.write_text('{"min_free_bytes": 0, "assets": {"keep_releases": 2}}')
        self.put(FILES)

    def prepare(self) -> None:
        """Create the databases of the data folder; PostgreSQL's are named in the configuration."""
        prepare_files(self.data)
        self.config = self.folder / "authentication.json"
        if POSTGRESQL:
            self.config.write_text(json.dumps(with_store({}, self.data)))
            self.addCleanup(forget_store, self.data)

    def gamed(self, *arguments: str) -> tuple[int, str, str]:
        return self.run_with(self.config, *arguments)

    def run_with(self, config: Path, *arguments: str) -> tuple[int, str, str]:
        """Run a command with this configuration."""
        places = ("--config", str(config), "--data", str(self.data))
        return command(self.folder / "run", {}, *places, "assets", *arguments)

    def run_text(self, *arguments: str) -> str:
        """Run a command that succeeds; return its stdout."""
        code, out, err = self.gamed(*arguments)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def run_json(self, *arguments: str) -> Any:
        """Run a command with --json that succeeds; return the JSON."""
        return json.loads(self.run_text(*arguments, "--json"))

    def refused(self, code: int, *words: str, arguments: list[str]) -> str:
        """Run a command that fails and changes nothing; return its stderr."""
        before = contents(self.store.folder)
        ended, _, err = self.gamed(*arguments)
        self.assertEqual((ended, "Traceback" in err), (code, False), err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(contents(self.store.folder), before)
        return err

    def published(self, *options: str) -> str:
        return str(self.run_json("publish", str(self.source), *options)["release"])


class PublishCommandTests(CommandCase):
    def test_publish(self) -> None:
        """Publishing prints its result as text or JSON; the service's log gets the commands that changed something."""
        self.put({".git/config": b""})
        dry = self.run_text("publish", str(self.source), "--dry-run")
        self.assertIn("would be stored: 2 objects, 405 B", dry)
        out = self.run_text("publish", str(self.source), "--note", "1.0")
        self.assertIn("left out because the name begins with a dot: .git (--hidden", out)
        self.assertIn("2 files, 405 B; stored: 2 objects, 405 B", out)
        release = self.store.pointer("stable").release
        self.assertIn(f"stable points at {release}\n", out)
        self.assertIn("already, which has these files", self.run_text("publish", str(self.source), "--note", "1.0"))
        self.put({"new": b"new"})
        changed = ["--type", ".PCK=a/b", "--channel", "beta"]
        done = self.run_json("publish", str(self.source), "--meta", '{"a": 1}', *changed)
        self.assertEqual(
            {name: done[name] for name in ("channel", "before", "changed", "files", "new_objects", "new_bytes")},
            {"channel": "beta", "before": None, "changed": True, "files": 3, "new_objects": 1, "new_bytes": 3},
        )
        manifest = json.loads(self.store.manifest(done["release"]))
        self.assertEqual((manifest["meta"], manifest["files"]["data/level1.pck"]["type"]), ({"a": 1}, "a/b"))
        with closing(store_of(self.data)) as store:
            logged = store.run_read(AUTH, unlogged_commands)
        self.assertEqual(logged, [("assets publish", None, f"uid:{os.getuid()}")] * 2)

    def test_refused_files(self) -> None:
        """All refused files are printed with their reasons, one per line, also in JSON."""
        (self.source / "link").symlink_to("/etc/passwd")
        self.put({"two\nlines": b"", "README.txt": b"", "nul": b""})
        words = ["link: a symbolic link", "two\\nlines: a control", "README.txt", "nul: ", "Nothing was published"]
        self.refused(1, *words, arguments=["publish", str(self.source)])
        code, out, _ = self.gamed("publish", str(self.source), "--json")
        self.assertEqual((code, len(json.loads(out)["refused"])), (1, 4))

    @covers("threats/55")
    def test_refused_folders(self) -> None:
        """A path that is not a folder is refused, and a folder with the secrets of the server in it or around it."""
        members = json.dumps(with_store({}, self.data))
        self.config.write_text(members)
        for folder, word in (
            (self.folder / "nowhere", "does not exist"),
            (self.source / "readme.txt", "is not a folder"),
            (self.folder, "one inside the other"),
            (self.data, "one inside the other"),
            (self.data / "assets", "does not exist"),
        ):
            self.refused(1, word, arguments=["publish", str(folder)])
        (self.folder / "link").symlink_to(self.data)
        self.refused(1, "one inside the other", arguments=["publish", str(self.folder / "link")])
        (self.source / "config").mkdir()
        config = self.source / "config/authentication.json"
        config.write_text(members)
        code, _, err = self.run_with(config, "publish", str(self.source))
        self.assertEqual((code, "would be public" in err), (1, True), err)

    def test_wrong_usage(self) -> None:
        """Wrong options are reported before anything is read."""
        for options, word in (
            (["--channel", "Stable"], "a channel's name is"),
            (["--channel", "objects"], "a channel's name is"),
            (["--channel", "r0123456789abcdef"], "a channel's name is"),
            (["--note", "two\nlines"], "one line"),
            (["--meta", "[1]"], "not a JSON object"),
            (["--meta", '{"a": NaN}'], "not a JSON object"),
            (["--type", "bank"], "EXT=TYPE"),
            (["--type", "bank=plain"], "EXT=TYPE"),
        ):
            self.refused(2, word, arguments=["publish", str(self.source), *options])
        self.refused(2, "a release is r and 16", arguments=["set-channel", "stable", "newest"])
        self.refused(2, "such as 24h", arguments=["gc", "--older-than", "yesterday"])
        self.run_text("publish", str(self.source))
        self.refused(2, "--yes", arguments=["delete-channel", "stable"])

    def test_not_now(self) -> None:
        """During another publish, on a full disk and without a service the error says what to do."""
        self.published()
        self.put({"new": b"new"})
        with publish_lock(self.store.folder):
            self.refused(1, "another command works on", arguments=["publish", str(self.source)])
        self.game.write_text('{"min_free_bytes": "1 TiB"}')
        self.refused(1, "min_free_bytes", "gamed assets gc", arguments=["publish", str(self.source)])
        self.game.write_text('{"min_free_bytes": -1}')
        self.refused(78, "game.json:1:20", arguments=["publish", str(self.source)])
        self.lose_databases()
        self.game.unlink()
        self.refused(1, "gamed serve", arguments=["publish", str(self.source)])

    def lose_databases(self) -> None:
        """Leave no database that a service has used."""
        if POSTGRESQL:
            place = cluster().database()
            self.addCleanup(cluster().drop, place.database)
            self.config.write_text(json.dumps({"store": place.url}))
        else:
            (self.data / "auth.db").unlink()

    def test_unwritable(self) -> None:
        """If the assets folder cannot be created, the error has the system's reason and the path."""
        self.store.folder.write_text("in the way")
        code, _, err = self.gamed("publish", str(self.source))
        self.assertEqual((code, "Traceback" in err, str(self.store.folder) in err), (1, False, True), err)


class MaintenanceTests(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.one = self.published("--note", "1.0")
        self.put({"readme.txt": b"two"})
        self.two = self.published("--note", "2.0")

    def test_moving(self) -> None:
        """Channels are rolled back, set, created and deleted."""
        self.assertEqual(
            self.run_json("rollback", "stable"),
            {"channel": "stable", "release": self.one, "before": self.two, "changed": True, "past_lost": False},
        )
        self.assertEqual(served(self.store), FILES)
        self.refused(1, "nothing from before it", arguments=["rollback", "stable"])
        self.assertEqual(
            self.run_text("set-channel", "stable", self.two), f"stable points at {self.two} (before: {self.one})\n"
        )
        self.assertEqual(self.run_text("set-channel", "stable", self.two), f"stable points at {self.two}, as before\n")
        self.assertEqual(self.run_text("set-channel", "beta", self.one), f"beta points at {self.one}\n")
        self.assertEqual(self.run_json("delete-channel", "beta", "--yes"), {"channel": "beta", "before": self.one})
        for arguments in (["rollback", "beta"], ["delete-channel", "beta", "--yes"]):
            self.refused(1, "There is no channel beta", arguments=arguments)
        self.refused(1, "There is no release", arguments=["set-channel", "beta", "r" + "0" * 16])
        self.refused(1, "There is no channel stabel. Did you mean stable? See:", arguments=["rollback", "stabel"])

    def test_list(self) -> None:
        """The list has channels, releases and their sizes."""
        out = self.run_text("list")
        self.assertRegex(out, rf"(?m)^CHANNEL +RELEASE +SINCE\nstable +{self.two}  just now$")
        self.assertRegex(out, rf"(?m)^{self.two}  just now +\d+ +\d+ B +3 B +stable +2\.0$")
        self.assertRegex(out, rf"(?m)^{self.one}  just now +\d+ +\d+ B +5 B +before +1\.0$")
        self.assertIn("3 objects, 408 B on disk, for releases of 808 B in all", out)
        listed = self.run_json("list")
        self.assertEqual(listed["channels"]["stable"]["release"], self.two)
        self.assertEqual(listed["channels"]["stable"]["before"], [self.one])
        self.assertEqual([(each["note"], each["own_bytes"]) for each in listed["releases"]], [("2.0", 3), ("1.0", 5)])

    def test_nothing_published(self) -> None:
        """Without any release every command reports that."""
        self.data = self.folder / "other"
        self.data.mkdir()
        self.prepare()
        self.store = AssetStore(self.data / "assets")
        self.assertIn("nothing is published yet", self.run_text("list"))
        self.assertIn("no errors: 0 releases", self.run_text("verify"))
        self.assertIn("deleted: 0 releases", self.run_text("gc"))
        self.refused(1, "There is no channel stable", arguments=["rollback", "stable"])
        # the command does not ask for confirmation when the channel does not exist
        for words in (["delete-channel", "stable", "--yes"], ["delete-channel", "stable"]):
            self.refused(1, "There is no channel stable", arguments=words)

    def test_verify(self) -> None:
        """`verify` exits with 1 and says what to do, which repairs the damage."""
        self.assertEqual(self.run_json("verify"), {"releases": 2, "objects": 3, "bytes": 408, "errors": []})
        self.damaged().write_bytes(b"TWO")
        err = self.refused(1, "is damaged: readme.txt of", "1 error", "--repair", arguments=["verify", self.two])
        self.assertNotIn("Traceback", err)
        self.assertEqual(self.run_json("verify", self.one)["errors"], [])
        self.assertIn("1 object, 3 B", self.run_text("publish", str(self.source), "--note", "2.0", "--repair"))
        self.assertIn("no errors", self.run_text("verify"))
        self.refused(1, "There is no release", arguments=["verify", "r" + "0" * 16])

    def damaged(self) -> Path:
        manifest = json.loads(self.store.manifest(self.two))
        return self.store.object_path(manifest["files"]["readme.txt"]["sha256"])

    def test_gc(self) -> None:
        """`gc` prints what it deletes or would delete, and what is not old enough."""
        self.put({"readme.txt": b"three"})
        self.published("--note", "3.0")
        self.assertIn("not needed, but not yet for long enough: 1 release, 5 B", self.run_text("gc"))
        would = self.run_text("gc", "--older-than", "0s", "--dry-run")
        self.assertIn(f"{self.one} would be deleted\nwould be deleted: 1 release, 1 object, 5 B", would)
        done = self.run_json("gc", "--older-than", "0s")
        self.assertEqual((done["releases"], done["objects"], done["bytes"]), ([self.one], 1, 5))
        self.assertNotIn(self.one, self.run_text("list"))
        self.refused(1, "There is no release", arguments=["set-channel", "stable", self.one])

    def test_doctor(self) -> None:
        """The doctor checks the releases of all channels, and prints nothing about assets without any."""
        store = AssetStore(self.folder / "other")
        self.assertEqual(doctor_local._assets(store), [])
        self.assertEqual([each.level for each in doctor_local._assets(self.store)], [Level.OK])
        self.damaged().unlink()
        [finding] = doctor_local._assets(self.store)
        self.assertEqual((finding.level, "1 of its objects" in finding.text), (Level.PROBLEM, True))
        (self.store.folder / "releases" / f"{self.two}.json").unlink()
        [finding] = doctor_local._assets(self.store)
        self.assertIn("which does not exist", finding.text)

    def test_damaged_pointer(self) -> None:
        """A damaged pointer is listed, `gc` refuses to run, and set-channel repairs it."""
        (self.store.folder / "channels/stable.json").write_bytes(b"{")
        self.assertIn("channel stable is damaged, see: gamed assets verify", self.run_text("list"))
        self.refused(1, "channel stable: ", arguments=["verify"])
        self.refused(1, "gamed assets verify", arguments=["gc"])
        self.refused(1, "gamed assets verify", arguments=["rollback", "stable"])
        self.assertIn("its pointer was damaged", self.run_text("set-channel", "stable", self.one))
        self.assertIn("no errors", self.run_text("verify"))
