"""`gamed setup` refuses what it cannot do with a sentence, and then has changed nothing."""

import json
import os
import socket
from contextlib import closing
from pathlib import Path

from gamed.cli.setup.answers import read_answers
from tests.cli.setup.fixtures import SetupCase
from tests.support.stores import sqlite_files
from tests.test_guides import blocks


@sqlite_files("the databases of a new server are files")
class AnswerTests(SetupCase):
    def wrong(self, text: str) -> list[str]:
        """Return the lines about this file of answers."""
        file = self.folder / "wrong.json"
        file.write_text(text, "utf-8")
        before = self.files()
        code, out, err = self.gamed("setup", "--answers", str(file))
        self.assertEqual((code, out), (78, ""), err)
        self.assertEqual(self.files(), before)
        return [line.removeprefix(f"{file}:") for line in err.splitlines()]

    def test_all_at_once(self) -> None:
        """Unknown, missing and invalid answers are reported together, each with line and column."""
        found = self.wrong(
            '{\n  "servername": "a",\n  "players": "home",\n  "join": "friends",\n  "backups": "disk"\n}'
        )
        self.assertEqual(
            found,
            [
                '1:1: address: missing; expected an https address such as "https://play.example.org"',
                "1:1: server_name: missing; expected the name that players see",
                "2:3: servername: no such member here; did you mean server_name?",
                '4:11: join: expected "invited" or "approval" or "everyone"',
                '5:14: backups: expected the absolute path of a folder, such as "/mnt/backups"',
            ],
        )

    def test_address(self) -> None:
        """An address needs https, and players on this machine need none."""
        rest = '"server_name": "a", "join": "invited", "backups": "/b"'
        for players, address, expected in (
            ("internet", "http://127.0.0.1:8080", "expected an https address"),
            ("internet", "https://play.example.org/x", "without a path"),
            ("machine", "https://play.example.org", "leave it out"),
        ):
            [line] = self.wrong(f'{{"players": "{players}", "address": "{address}", {rest}}}')
            self.assertIn(expected, line)

    def test_page(self) -> None:
        """The answers that the owner's guide shows are accepted."""
        [text] = [text for text in blocks("docs/owners/owner-guide.md", "json") if "join" in text]
        file = self.folder / "page.json"
        file.write_text(text, "utf-8")
        self.assertEqual(read_answers(file).text(), text)

    def test_no_json(self) -> None:
        """A file that is not JSON, or not there, is refused with its name."""
        self.assertIn(
            "text stands in straight double quotes",
            self.wrong('{"players": home}')[0],
        )
        code, _, err = self.gamed("setup", "--answers", "/nowhere.json")
        self.assertEqual(
            (code, err),
            (78, "gamed: /nowhere.json cannot be read (No such file or directory). Name the file of answers.\n"),
        )

    def test_no_terminal(self) -> None:
        """Without a terminal and without answers nothing is asked."""
        code, out, err = self.gamed("setup")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("Standard input is not a terminal. Pass --answers FILE.", err)


@sqlite_files("the databases of a new server are files")
class SurroundingsTests(SetupCase):
    def test_port(self) -> None:
        """A port of another program is refused with the option for another one."""
        with closing(socket.create_server(("127.0.0.1", self.port))):
            self.assertIn(f"Port {self.port} is used by another program", self.refused())

    def test_folders(self) -> None:
        """A data folder with other files, and one for backups inside it or that is a file, are refused."""
        self.new.data.mkdir(parents=True)
        (self.new.data / "holiday.jpg").write_bytes(b"")
        os.chmod(self.new.data, 0o755)
        self.assertIn("has no server, but holiday.jpg", self.refused())
        (self.new.data / "holiday.jpg").unlink()
        self.assertIn("would be lost together", self.refused(backups=str(self.new.data / "backups")))
        file = self.home / "file"
        file.write_text("")
        self.assertIn(f"{file} is not a folder", self.refused(backups=str(file)))

    def test_unit_of_another(self) -> None:
        """A unit that gamed did not print is not replaced."""
        folder = self.home / ".config/systemd/user"
        folder.mkdir(parents=True)
        (folder / "gamed.service").write_text("[Service]\nExecStart=/bin/true\n")
        self.assertIn("was not printed by gamed", self.refused(code=78))

    def test_damaged_configuration(self) -> None:
        """Errors of a configuration that is there are reported as everywhere."""
        self.new.config.parent.mkdir(parents=True)
        self.new.config.write_text('{"mode": "locl"}')
        self.assertIn("authentication.json:1:10: mode: ", self.refused(code=78))

    def test_secrets(self) -> None:
        """A configuration that names secrets which are not there is refused, with their names."""
        self.new.config.parent.mkdir(parents=True)
        self.new.config.write_text(json.dumps({"mode": "local", "master_key_env": "OTHER_KEY"}))
        self.assertIn("The configuration names OTHER_KEY. Set these variables", self.refused(code=78))

    def test_other_value(self) -> None:
        """A secret that has another value in the environment than in its file is refused."""
        self.new.config.parent.mkdir(parents=True)
        self.new.config.write_text(json.dumps({"mode": "local", "master_key_env": "OTHER_KEY"}))
        file = self.new.config.parent / "credentials/OTHER_KEY"
        file.parent.mkdir()
        file.write_text("one\n")
        os.chown(file, self.home.stat().st_uid, -1)
        self.environ["OTHER_KEY"] = "two"
        self.assertIn(f"OTHER_KEY has another value than the file {file}", self.refused(code=78))

    def test_named_places(self) -> None:
        """Options that name no server are refused."""
        self.assertIn("/nowhere has no server", self.refused("--data", "/nowhere"))

    def test_several_servers(self) -> None:
        """The owner names which of two servers elsewhere stays."""
        from gamed.cli.paths import Paths

        for place in (self.home / ".venv/bin", self.home / ".config/gamed"):
            place.mkdir(parents=True)
            if os.geteuid() == 0:
                for each in (place, *place.parents):
                    if each.is_relative_to(self.home):
                        os.chown(each, self.home.stat().st_uid, self.home.stat().st_gid)
            self.begin(Paths(place / "authentication.json", place / "data"))
        err = self.refused()
        self.assertIn("There are several servers: ", err)
        for place in (self.home / ".venv/bin/data", self.home / ".config/gamed/data"):
            self.assertIn(str(place), err)

    def test_running(self) -> None:
        """A server elsewhere that runs must be stopped first."""
        from gamed.cli.paths import Paths

        old = Paths(self.home / "old/authentication.json", self.home / "old/data")
        self.begin(old)
        words = ["--config", str(old.config), "--data", str(old.data)]
        process = self.start_as(
            self.python,
            "-c",
            "from gamed.cli import main; main()",
            *words,
            "serve",
            f"--listen=tcp:{self.port}:interface=127.0.0.1",
        )
        self.await_answer(self.port, process)
        self.assertIn(f"The server in {old.data} runs. Stop it", self.refused(*words))

    def test_layout_of_root(self) -> None:
        """A user without root does not begin a server beside that of the machine."""
        if os.geteuid() != 0:
            return  # only root can let /etc be another folder
        over = self.folder / "etc"
        (over / "gamed").mkdir(parents=True)
        script = f'mount --bind {over} /etc; exec "$@"'
        self.before = [
            "unshare",
            "--mount",
            "/bin/sh",
            "-euc",
            script,
            "sh",
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]
        self.assertIn("This machine has a server in /etc/gamed. Run gamed setup as root.", self.refused(code=78))


@sqlite_files("the databases of a new server are files")
class RootTests(SetupCase):
    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()

    def test_no_caddy(self) -> None:
        """Without Caddy everything else is written, and the command that remains is printed."""
        programs = self.folder / "bin"
        programs.mkdir()
        for folder in ("/usr/bin", "/usr/sbin", "/bin"):
            for each in Path(folder).iterdir():
                if each.name != "caddy" and not (programs / each.name).exists():
                    (programs / each.name).symlink_to(each)
        self.environ["PATH"] = str(programs)
        out = self.set_up(players="internet", address="https://play.example.net")
        self.assertRegex(out, r"Caddy is not installed. Run: apt-get install caddy && \S*gamed setup\.")
        self.assertFalse(
            self.place("/etc/caddy/Caddyfile").exists()
            and "play.example.net" in self.place("/etc/caddy/Caddyfile").read_text()
        )

    def test_key_of_store(self) -> None:
        """No key is made for databases on a PostgreSQL server: they may have one."""
        self.gamed("--help")  # makes the copies
        config = self.place("/etc/gamed/authentication.json")
        config.parent.mkdir()
        members = {"mode": "local", "master_key_env": "GAMED_MASTER_KEY", "store": "postgresql://gamed@localhost/gamed"}
        config.write_text(json.dumps(members))
        self.assertIn("may have players, whom only their own key can read", self.refused(code=78))
        self.assertFalse((config.parent / "credentials").exists())

    def test_foreign_backups(self) -> None:
        """A folder for backups with the files of another user is refused."""
        folder = self.folder / "disk"
        folder.mkdir()
        (folder / "photo").write_text("")
        self.gamed("--help")  # makes the copies
        self.assertIn("belongs to another user and has photo", self.refused(backups=str(folder)))

    def test_closed_backups(self) -> None:
        """So is one in a folder that the user of the service cannot enter."""
        closed = self.folder / "closed"
        closed.mkdir(mode=0o700)
        self.gamed("--help")
        err = self.refused(backups=str(closed / "disk/backups"))
        self.assertIn(f"cannot enter {closed}, so not reach {closed}/disk/backups", err)
        closed.chmod(0o711)
        self.set_up(backups=str(closed / "disk/backups"))
