"""`gamed setup` begins a server: what its unit starts serves, with the answers as its settings."""

import json
import os
import socket
import subprocess
from base64 import b64encode
from contextlib import closing

from tests.cli.process import WAIT_SECONDS, get
from tests.cli.setup.fixtures import HERE, MACHINE, SetupCase
from tests.proxies.programs import program
from tests.support.stores import sqlite_files

ADDRESS = "https://play.example.net"


@sqlite_files("the databases of a new server are files")
class HomeTests(SetupCase):
    """A user without root."""

    def units(self) -> list[str]:
        return sorted(path.name for path in (self.home / ".config/systemd/user").iterdir())

    def test_this_machine(self) -> None:
        """The settings are those of the answers, what the unit starts serves the invite, and the folders are closed."""
        out = self.set_up()
        config = json.loads(self.new.config.read_text())
        self.assertEqual((config["server_name"], config["login"]), ("Rose Street 7", {"registration": "closed"}))
        self.assertNotIn("public_url", config)
        self.assertEqual(self.units(), ["gamed-backup.service", "gamed-backup.timer", "gamed.service"])
        [link] = [line for line in out.splitlines() if line.startswith(f"http://127.0.0.1:{self.port}/auth/invite/")]
        self.assertIn("\n0 problems, ", out)
        self.assertIn("▀", out)
        self.assertIn("owner claim NAME", out)
        self.assertIn("systemd does not run here", out)
        self.assertEqual(self.new.data.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.backups.stat().st_mode & 0o777, 0o700)
        self.serve_unit()
        status, page = get(self.port, link.removeprefix(f"http://127.0.0.1:{self.port}"))
        self.assertEqual((status, b"Rose Street 7" in page), (200, True))

    def test_printed_command(self) -> None:
        """Without systemd the command that is printed serves."""
        out = self.set_up()
        [line] = [line for line in out.splitlines() if "Without it: " in line]
        process = self.start_as("/bin/sh", "-c", f"exec {line.partition('Without it: ')[2]}")
        self.await_answer(self.port, process)

    def test_package_in_folder(self) -> None:
        """A package in the current folder, which may be somebody else's, is not run in place of gamed."""
        package = self.home / "gamed"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "__main__.py").write_text("open('ran', 'w')")
        code, out, err = self.gamed("setup", *self.answered(), program=f"import sys; sys.path.remove(''); {HERE}")
        self.assertEqual(code, 0, out + err)
        self.assertFalse((self.home / "ran").exists())
        self.assertIn("-P -m gamed serve", (self.home / ".config/systemd/user/gamed.service").read_text())

    def test_user_units(self) -> None:
        """systemd accepts the units for a user, which have no setting that needs root."""
        self.set_up(players="home", address="gamed.home.arpa")
        folder = self.home / ".config/systemd/user"
        done = subprocess.run(
            ["systemd-analyze", "--user", "verify", *(str(folder / name) for name in self.units())],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.folder)},
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        text = (folder / "gamed.service").read_text()
        self.assertNotIn("User=", text)
        self.assertNotIn("Private", text)
        self.assertIn("\nWantedBy=default.target\n", text)
        self.assertIn("\nNoNewPrivileges=yes\n", text)

    def test_owner_page(self) -> None:
        """The owner's page is on or off after that answer; without it, the page stays as it is."""
        self.set_up(owner_page=True)
        self.assertEqual(self.page(), (True, str(self.backups)))
        self.set_up()
        self.assertEqual(self.page(), (True, str(self.backups)))
        self.set_up(owner_page=False)
        self.assertEqual(self.page(), (False, None))

    def test_again(self) -> None:
        """A second run with the same answers changes nothing, and another one changes what they say."""
        self.set_up()
        before = {path: path.stat().st_mtime_ns for path in self.new.config.parent.rglob("*")}
        self.assertIn("6 files already as wanted", self.set_up())
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in self.new.config.parent.rglob("*")})
        kept = json.loads(self.new.config.read_text())
        self.new.config.write_text(json.dumps(kept | {"cors_origins": ["https://game.example.org"]}))
        self.set_up(players="internet", address=ADDRESS, join="everyone")
        found = json.loads(self.new.config.read_text())
        self.assertEqual((found["public_url"], found["login"]["registration"]), (ADDRESS, "open"))
        self.assertEqual(found["cors_origins"], ["https://game.example.org"])
        self.assertIn("gamed.socket", self.units())
        self.set_up()
        self.assertNotIn("gamed.socket", self.units())
        self.assertNotIn("public_url", json.loads(self.new.config.read_text()))

    def test_edited(self) -> None:
        """A file that the owner has changed since is kept beside the new one, and the plan says so."""
        self.set_up()
        unit = self.home / ".config/systemd/user/gamed.service"
        edited = unit.read_text() + "# mine\n"
        unit.write_text(edited)
        out = self.set_up()
        self.assertIn(f"replace  {unit}, kept as {unit}.before\n", out)
        self.assertEqual(unit.with_name("gamed.service.before").read_text(), edited)
        self.assertNotIn("# mine", unit.read_text())

    def test_beside_its_server(self) -> None:
        """A second run beside the running server accepts its port, and makes no invite once there is a player."""
        self.set_up()
        self.serve_unit()
        places = ["--config", str(self.new.config), "--data", str(self.new.data)]
        self.assertEqual(self.gamed(*places, "players", "add", "Anna", "--password-stdin", stdin="correct horse")[0], 0)
        out = self.set_up(join="approval")
        self.assertNotIn("/auth/invite/", out)
        self.assertIn("ok       server: answers", out)

    def test_dry_run(self) -> None:
        """Every file is printed with its mode and content, the change of no file is made."""
        before = self.files()
        code, out, err = self.gamed("setup", "--dry-run", *self.answered(players="home", address="gamed.home.arpa"))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual({path for path in self.files() - before if path.name != "answers.json"}, set())
        self.assertIn(f"\n# {self.new.config} (0640, yours)\n{{\n", out)
        for text in ('"public_url": "https://gamed.home.arpa"', "\tls internal".strip(), "OnCalendar="):
            self.assertIn(text, out)


@sqlite_files("the databases of a new server are files")
class RootTests(SetupCase):
    """Root, among copies of the folders of this machine."""

    as_root = True

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can let /etc and /var/lib be other folders for one process")
        super().setUp()

    def test_one_layout(self) -> None:
        """The key is a credential of root alone, the data are the user's, and the unit serves them."""
        out = self.set_up(players="internet", address=ADDRESS)
        self.assertIn(f"\n{ADDRESS}/auth/invite/", out)
        config, key = self.place(self.new.config), self.place("/etc/gamed/credentials/MASTER_KEY")
        self.assertEqual((key.stat().st_uid, key.stat().st_mode & 0o777), (0, 0o600))
        self.assertEqual(key.parent.stat().st_mode & 0o777, 0o700)
        self.assertEqual((config.stat().st_uid, config.stat().st_mode & 0o777), (0, 0o640))
        [user] = [line for line in self.place("/etc/passwd").read_text().splitlines() if line.startswith("gamed:")]
        uid, gid = map(int, user.split(":")[2:4])
        self.assertEqual(config.stat().st_gid, gid)
        data = self.place(self.new.data)
        self.assertEqual({path.stat().st_uid for path in (data, *data.iterdir())}, {uid})
        self.assertFalse((data / "auth.key").exists())
        self.assertEqual(self.place(self.backups).stat().st_uid, uid)
        self.assertNotIn(key.read_text().strip(), out)
        self.serve_unit()
        self.assertEqual(self.players(self.new), [])

    def test_printed_command(self) -> None:
        """Without systemd the command that is printed serves, with the key and as the user of the service."""
        out = self.set_up()
        [line] = [line for line in out.splitlines() if "Without it: " in line]
        process = self.start_as("/bin/sh", "-c", f"exec env {line.partition('Without it: ')[2]}")
        self.await_answer(self.port, process)

    def test_dry_run(self) -> None:
        """A secret is not printed, and no user, folder or file is made."""
        code, out, err = self.gamed("setup", "--dry-run", *self.answered(players="internet", address=ADDRESS))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\n# /etc/gamed/credentials/MASTER_KEY (0600, root)\n(a secret, not shown)\n", out)
        self.assertIn("\n# /etc/gamed/authentication.json (0640, root:gamed)\n{\n", out)
        self.assertIn("\n# /usr/local/sbin/gamedctl (0755, root)\n#!/bin/sh\n", out)
        self.assertFalse(self.place("/etc/gamed").exists())
        self.assertNotIn("gamed:", self.place("/etc/passwd").read_text())

    def test_units(self) -> None:
        """systemd accepts what was written, as closed as the samples; the backup may write to its folder.

        So may the service if the owner's page makes backups, too.
        """
        backups = str(self.home / "backups of gamed")
        self.set_up(players="internet", address=ADDRESS, backups=backups, owner_page=True)
        folder = self.place("/etc/systemd/system")
        self.assertIn(f'\nReadWritePaths=-"{backups}"\n', (folder / "gamed.service").read_text())
        names = ("gamed.service", "gamed.socket", "gamed-backup.service", "gamed-backup.timer")
        for command in (
            ["verify", *(str(folder / name) for name in names)],
            ["security", "--offline=true", "--threshold=15", str(folder / "gamed.service")],
            ["security", "--offline=true", "--threshold=13", str(folder / "gamed-backup.service")],
        ):
            done = subprocess.run(
                ["systemd-analyze", *command], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = (folder / "gamed-backup.service").read_text()
        for line in (
            f'ReadWritePaths="{self.home}/backups of gamed"',
            f'backup --keep 14 "{self.home}/backups of gamed"',
        ):
            self.assertIn(line, text)
        self.assertNotIn("%S", text)

    def test_caddy(self) -> None:
        """Caddy accepts the file for a home network, which lets Caddy sign; Debian's own file is replaced."""
        caddyfile = self.place("/etc/caddy/Caddyfile")
        self.set_up(players="home", address="gamed.home.arpa")
        text = caddyfile.read_text()
        self.assertIn("\ngamed.home.arpa {\n\ttls internal\n", text)
        self.assertIn(f"reverse_proxy 127.0.0.1:{self.port} {{", text)
        (self.folder / "Caddyfile").write_text(text.replace("/var/log/caddy", str(self.folder)))
        done = subprocess.run(
            [program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(self.folder / "Caddyfile")],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.set_up(players="internet", address=ADDRESS)
        self.assertNotIn("tls internal", caddyfile.read_text())

    def test_site_added(self) -> None:
        """So does one that gamed printed, once the owner has added a site."""
        caddyfile = self.place("/etc/caddy/Caddyfile")
        self.set_up(players="internet", address=ADDRESS)
        edited = caddyfile.read_text() + "blog.example.net { # mine\n\tfile_server\n}\n"
        caddyfile.write_text(edited)
        self.set_up(players="internet", address="https://games.example.net")
        self.assertEqual(caddyfile.read_text(), edited)
        self.assertIn("\ngames.example.net {\n", self.place("/etc/caddy/gamed.caddy").read_text())

    def test_no_socket(self) -> None:
        """A socket that is not wanted any more is stopped before its file is deleted; systemd gets no secret."""
        programs, log = self.folder / "bin", self.folder / "systemctl.log"
        programs.mkdir()
        (programs / "systemctl").write_text(
            f'#!/bin/sh\nexec >> {log}\ntest ! -e /etc/systemd/system/gamed.socket || printf "there "\necho "$@"\nenv\n'
        )
        (programs / "systemctl").chmod(0o755)
        booted = "mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system\n"
        self.before = [booted + word if word == MACHINE else word for word in self.before]
        key = b64encode(bytes(range(32))).decode()
        self.environ |= {"PATH": f"{programs}:{self.environ['PATH']}", "GAMED_MASTER_KEY": key}
        self.set_up(players="internet", address=ADDRESS)
        self.set_up()
        text = log.read_text()
        self.assertIn("\nthere disable --now gamed.socket\n", text)
        self.assertNotIn(key, text)
        self.assertFalse(self.place("/etc/systemd/system/gamed.socket").exists())

    def test_own_socket(self) -> None:
        """The port at which systemd listens for a service that is stopped is not another program's."""
        programs = self.folder / "bin"
        programs.mkdir()
        active = self.folder / "active"
        (programs / "systemctl").write_text(f'#!/bin/sh\n[ "$1" != is-active ] || exec test -e {active}\n')
        (programs / "systemctl").chmod(0o755)
        booted = "mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system\n"
        self.before = [booted + word if word == MACHINE else word for word in self.before]
        self.environ["PATH"] = f"{programs}:{self.environ['PATH']}"
        self.set_up(players="internet", address=ADDRESS)
        with closing(socket.create_server(("127.0.0.1", self.port))):
            self.assertIn("is used by another program", self.refused(players="internet", address=ADDRESS))
            active.write_text("")
            words = self.answered(players="internet", address=ADDRESS)
            code, _, err = self.gamed("setup", "--dry-run", *words)
        self.assertEqual((code, err), (0, ""))

    def test_other_sites(self) -> None:
        """A Caddyfile with other sites stays as it is, and what to add to it is printed."""
        self.gamed("--help")  # makes the copies
        caddyfile = self.place("/etc/caddy/Caddyfile")
        caddyfile.parent.mkdir(exist_ok=True)
        caddyfile.write_text("blog.example.net {\n\tfile_server\n}\n")
        out = self.set_up(players="internet", address=ADDRESS)
        self.assertEqual(caddyfile.read_text(), "blog.example.net {\n\tfile_server\n}\n")
        self.assertIn("Add the two blocks of /etc/caddy/gamed.caddy to it", out)
        self.assertIn("\nplay.example.net {\n", self.place("/etc/caddy/gamed.caddy").read_text())
