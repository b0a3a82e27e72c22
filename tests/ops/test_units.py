"""The unit files pass systemd's own checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import ROOT, WAIT_SECONDS, folder_of
from tests.support.covers import covers

ETC = ROOT / "etc"
UNITS = ("gamed.service", "gamed@.service", "gamed.socket", "gamed-backup.service", "gamed-backup.timer")
DROP_IN = "gamed-backup.service.d/postgresql.conf"
EXPOSURE = 1.3


def run(*command: str) -> str:
    """Return the output of both streams; raise AssertionError unless the command exits with 0."""
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, env=environ, check=False)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def settings(unit: str) -> dict[str, list[str]]:
    """Every value of each setting, in the order of the file."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"(?m)^(\w+)=(.*)$", (ETC / "systemd" / unit).read_text("utf-8")):
        found.setdefault(name, []).append(value)
    return found


class UnitTests(SynchronousTestCase):
    def test_verified(self) -> None:
        """systemd understands every line, and finds nothing to say."""
        folder = folder_of(self)
        for name in UNITS:
            text = (ETC / "systemd" / name).read_text("utf-8")
            (folder / name).write_text(text.replace("/opt/gamed/bin/gamed", sys.executable))
        drop_in = folder / DROP_IN
        drop_in.parent.mkdir()
        drop_in.write_text((ETC / "systemd" / DROP_IN).read_text("utf-8"))
        self.assertEqual(run("systemd-analyze", "verify", *(str(folder / name) for name in UNITS)), "")
        drop_in.write_text("[Service]\nRestrictAddressFamily=AF_UNIX\n")
        self.assertIn(str(drop_in), run("systemd-analyze", "verify", str(folder / UNITS[3])))

    @covers("threats/53")
    def test_exposure(self) -> None:
        """The sandbox leaves what a server with a database needs, and little else."""
        for unit in ("gamed.service", "gamed@.service", "gamed-backup.service"):
            said = run("systemd-analyze", "security", "--offline=true", str(ETC / "systemd" / unit))
            [level] = re.findall(r"Overall exposure level for \S+: (\d+\.\d+)", said)
            self.assertLessEqual(float(level), EXPOSURE, said)

    def test_instances(self) -> None:
        """The template has the settings of the service but for what several servers need: --share and the socket."""
        service, template = settings("gamed.service"), settings("gamed@.service")
        other = {name for name in service.keys() | template.keys() if service.get(name) != template.get(name)}
        self.assertEqual(other, {"Description", "After", "Conflicts", "Sockets", "ExecStart"})
        self.assertEqual(template["Sockets"], ["gamed.socket"])
        [command] = service["ExecStart"]
        self.assertEqual(template["ExecStart"], [command.replace(" serve ", " serve --share ")])

    def test_backup(self) -> None:
        """A backup runs on the service's files, as its user, behind the same walls; it has no key and no network."""
        service, backup = settings("gamed.service"), settings("gamed-backup.service")
        data, copies = backup["StateDirectory"][0].split()
        self.assertEqual([data], service["StateDirectory"])
        self.assertTrue(backup["ExecStart"][0].endswith(f"%S/{copies}"))
        self.assertEqual((backup["PrivateNetwork"], "LoadCredential" in backup), (["yes"], False))
        walls = r"User|Group|UMask|LimitCORE|\w+Directory(Mode)?|(Private|Protect|Restrict[NRS]|SystemCall)\w+"
        same = {name for name in service if re.fullmatch(walls, name)} - {"StateDirectory"}
        self.assertEqual({name: service[name] for name in same}, {name: backup.get(name) for name in same})

    def test_what_breaks_it(self) -> None:
        """TLS needs memory that is written and then run; 78 must not be tried again; 20,000 games need descriptors."""
        service = settings("gamed.service")
        self.assertNotIn("MemoryDenyWriteExecute", service)
        for name, value in (
            ("Type", "notify"),
            ("RestartPreventExitStatus", "78"),
            ("Restart", "on-failure"),
            ("LimitNOFILE", "65536"),
            ("StateDirectory", "gamed"),
            ("ConfigurationDirectory", "gamed"),
        ):
            self.assertEqual(service[name], [value])
        self.assertGreater(int(service["WatchdogSec"][0]), 0)

    @covers("threats/53")
    def test_modes(self) -> None:
        """Folders are as closed as tmpfiles.d makes them: a command that runs with the unit's settings opens none."""
        service = settings("gamed.service")
        lines = (ETC / "tmpfiles.d/gamed.conf").read_text("utf-8").splitlines()
        made = {path: (mode, user, group) for _, path, mode, user, group, _ in map(str.split, lines[1:])}
        self.assertEqual(made["/etc/gamed"], (*service["ConfigurationDirectoryMode"], "root", *service["Group"]))
        [secrets] = service["LoadCredential"]
        self.assertEqual(made[secrets.partition(":")[2]], ("0700", "root", "root"))
        self.assertEqual(service["StateDirectoryMode"], ["0700"])
        ctl = (ETC / "gamedctl").read_text("utf-8")
        wanted = {name for name in service if name.endswith(("DirectoryMode", "Directory", "Credential"))}
        self.assertEqual({name for name in wanted if not re.search(rf"[|'\"]{name}[|'\"]", ctl)}, set())


class FolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = folder_of(self)
        (self.root / "etc").mkdir()

    def test_user(self) -> None:
        """systemd-sysusers makes a user without a password, a shell or a login."""
        run("systemd-sysusers", f"--root={self.root}", str(ETC / "sysusers.d/gamed.conf"))
        [line] = (self.root / "etc/passwd").read_text("utf-8").splitlines()
        name, _, _, _, _, home, shell = line.split(":")
        self.assertEqual(
            (name, home, Path(shell).name), (settings("gamed.service")["User"][0], "/var/lib/gamed", "nologin")
        )
        self.assertIn("gamed:!", (self.root / "etc/shadow").read_text("utf-8"))

    def test_folders(self) -> None:
        """systemd-tmpfiles makes the folders of the configuration and of the secrets."""
        run("systemd-sysusers", f"--root={self.root}", str(ETC / "sysusers.d/gamed.conf"))
        run("systemd-tmpfiles", f"--root={self.root}", "--create", str(ETC / "tmpfiles.d/gamed.conf"))
        modes = {path: (self.root / path).stat() for path in ("etc/gamed", "etc/gamed/credentials")}
        self.assertEqual([state.st_mode & 0o777 for state in modes.values()], [0o750, 0o700])
        group = (self.root / "etc/group").read_text("utf-8").split(":")[2]
        self.assertEqual(modes["etc/gamed"].st_gid, int(group))
