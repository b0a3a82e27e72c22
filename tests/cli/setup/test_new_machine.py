"""A server comes back on another machine, from its backup and its key, as docs/owners/backup.md prints it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.cli.process import WAIT_SECONDS
from tests.cli.setup.fixtures import HERE, PASSWORD, SetupCase
from tests.support.stores import sqlite_files
from tests.test_page_commands import blocks
from tests.test_spec import ROOT

PAGE = "docs/owners/backup.md"
MODULE = "tests.cli.setup.test_new_machine"
ADDRESS = "https://play.example.net"


@sqlite_files("a backup of PostgreSQL is restored by other programs")
class NewMachineTests(SetupCase):
    """Root, on two machines, one after the other."""

    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()
        self.disk, self.stick = self.folder / "disk", self.folder / "stick"
        self.disk.mkdir()
        self.stick.mkdir()

    def back_up(self, places: list[str]) -> Path:
        """Add a player to the server, back it up, and take the machine away; return the backup, of another user."""
        code, _, err = self.gamed(*places, "players", "add", "Anna", "--password-stdin", stdin=PASSWORD)
        self.assertEqual(code, 0, err)
        folder = self.disk / "gamed"
        folder.mkdir()
        folder.chmod(0o777)
        code, out, err = self.gamed(*places, "backup", "--json", str(folder))
        self.assertEqual(code, 0, err)
        folder.chmod(0o700)
        self.shell(f"chown -R nobody: {folder}")  # that machine had another number for gamed
        return Path(json.loads(out)["backup"])

    def shell(self, text: str) -> None:
        """Run commands as root of the machine."""
        done = subprocess.run(
            [*self.before, "/bin/sh", "-euc", text],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            env={"PATH": os.environ["PATH"]},
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def printed(self, backup: Path) -> list[str]:
        """Return the blocks of the page about a new machine, with the places of this test."""
        text = (ROOT / PAGE).read_text("utf-8")
        found = [block.text for block in blocks(PAGE, text) if block.word == MODULE]
        self.assertEqual(len(found), 2)
        moved = (
            ("/mnt/disk/gamed/gamed-20261121T195400Z", backup),
            ("/mnt/disk", self.disk),
            ("/media/key", self.stick),
        )
        for old, new in moved:
            self.assertIn(old, "".join(found))
            found = [block.replace(old, str(new)) for block in found]
        return found

    def restore(self, backup: Path) -> str:
        """Run restore as gamedctl does, as the service's user and with its secrets; return what it prints."""
        self.environ |= {**self.key(), "GAMED_CONFIG": str(self.new.config), "GAMED_DATA": str(self.new.data)}
        key = self.place("/etc/gamed/credentials/MASTER_KEY").read_text().strip()
        del self.environ["GAMED_MASTER_KEY_FILE"]
        self.environ["GAMED_MASTER_KEY"] = key
        words = ["setpriv", "--reuid=gamed", "--regid=gamed", "--init-groups", self.python, "-c", HERE]
        done = subprocess.run(
            [*self.before, *words, "restore", str(backup)],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            cwd="/",
            env=self.environ,
            check=False,
        )
        for name in ("GAMED_MASTER_KEY", "GAMED_CONFIG", "GAMED_DATA"):
            del self.environ[name]
        return done.stdout if done.returncode == 0 else done.stderr

    def test_with_a_master_key(self) -> None:
        """The page's commands bring settings and players back, and the unit serves them."""
        self.set_up(players="internet", address=ADDRESS, server_name="Old house")
        places = ["--config", str(self.new.config), "--data", str(self.new.data)]
        self.environ |= self.key()
        backup = self.back_up(places)
        del self.environ["GAMED_MASTER_KEY_FILE"]
        shutil.copy(self.place("/etc/gamed/credentials/MASTER_KEY"), self.stick)
        shutil.rmtree(self.folder / "root")
        bring, allow = self.printed(backup)
        self.shell(bring)
        self.set_up(players="internet", address=ADDRESS)
        config = json.loads(self.place(self.new.config).read_text())
        self.assertEqual((config["public_url"], config["master_key_env"]), (ADDRESS, "GAMED_MASTER_KEY"))
        refused = self.restore(backup)
        self.assertIn(f"{backup.parent} is closed to the user gamed", refused)
        # Whose the folder is, such as root's own, stays.
        copy = f"/var/tmp/gamed-restore/{backup.name}"
        self.assertIn(f"cp -R {backup} {copy} && chown -R gamed: {copy}, and restore {copy}", refused)
        self.shell(allow)
        self.assertIn("Restored both databases", self.restore(backup))
        self.serve_unit()
        self.assertEqual(self.players(self.new), ["Anna"])

    def test_with_a_key_file(self) -> None:
        """The file `auth.key` is enough for a server that had no master key; the next start gives it one."""
        self.shell('install -d /etc/gamed /var/lib/gamed; echo \'{"mode": "local"}\' > /etc/gamed/authentication.json')
        self.begin(self.new, "Bo")
        backup = self.back_up(["--config", str(self.new.config), "--data", str(self.new.data)])
        shutil.copy(self.place("/var/lib/gamed/auth.key"), self.stick)
        (self.stick / "MASTER_KEY").touch()
        shutil.rmtree(self.folder / "root")
        bring, allow = self.printed(backup)
        self.shell(bring)
        self.shell("rm /etc/gamed/credentials/MASTER_KEY")
        self.set_up()
        self.shell(allow)
        self.assertIn("does not fit this backup", self.restore(backup))
        [line] = [line for line in (ROOT / PAGE).read_text("utf-8").splitlines() if "auth.key /var/lib/gamed`" in line]
        command = f"install {line.partition('`install ')[2].partition('`')[0]}"
        self.shell(f"cd {self.stick}; {command}")
        self.assertIn("Restored both databases", self.restore(backup))
        self.serve_unit()
        self.assertEqual(self.players(self.new), ["Bo", "Anna"])

    def test_before_the_set_up(self) -> None:
        """Without the settings in place the service's user reads how root brings them; nothing is changed."""
        self.set_up()
        self.environ |= self.key()
        backup = self.back_up(["--config", str(self.new.config), "--data", str(self.new.data)])
        del self.environ["GAMED_MASTER_KEY_FILE"]
        self.shell(f"chown -R gamed: {self.disk}/gamed /var/lib/gamed")
        self.place(self.new.config).rename(self.stick / "authentication.json")
        before = sorted(self.place(self.new.data).iterdir())
        said = self.restore(backup)
        self.assertIn("/etc/gamed/authentication.json is missing", said)
        self.assertEqual(sorted(self.place(self.new.data).iterdir()), before)
        self.shell(said.strip().partition("as root: ")[2])
        self.assertIn("Restored both databases", self.restore(backup))
