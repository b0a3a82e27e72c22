"""`.ci/release` makes what two builds make alike, of one tag; the Debian package is of files that the checkout has."""

import re
import subprocess
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import gamed
from tests.packaging.environments import ROOT

VERSIONS = ["1.0.0.dev1", "1.0.0a2", "1.0.0b1", "1.0.0rc1", "1.0.0", "1.0.1"]
"""Versions of Python's form, from old to new."""
PAGES = ("docs/owners/debian-package.md", "docs/owners/pipx.md")
"""The pages whose commands `.ci/deb` runs."""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


class ReleaseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clone = Path(self.mktemp()).resolve()
        self.out = Path(self.mktemp()).resolve()
        self.assertEqual(run(ROOT, "git", "clone", "-q", str(ROOT), str(self.clone)).returncode, 0)

    def release(self, tag: str) -> subprocess.CompletedProcess[str]:
        # The script of this checkout, which may have changes: it makes a release of the clone that it is in.
        (self.clone / ".ci/release").write_text((ROOT / ".ci/release").read_text("utf-8"), "utf-8")
        run(self.clone, "git", "tag", tag)
        return run(self.clone, ".ci/release", tag, str(self.out), "clients")

    def test_clients(self) -> None:
        """The packages of the clients are there with their sums, and with nothing else."""
        done = self.release(f"v{gamed.__version__}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {path.name: path for path in self.out.iterdir()}
        sums = dict(line.split("  ")[::-1] for line in found.pop("SHA256SUMS").read_text("utf-8").splitlines())
        self.assertEqual(sums, {name: sha256(path.read_bytes()).hexdigest() for name, path in found.items()})
        self.assertEqual(len(found), 7)

    def test_wrong_tag(self) -> None:
        """A tag of another version makes nothing."""
        done = self.release("v0.0.1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"its tag would be v{gamed.__version__}", done.stdout)
        self.assertEqual(list(self.out.iterdir()), [])


class DebianTests(SynchronousTestCase):
    def test_versions(self) -> None:
        """Debian's form of each version is newer than that of the one before, and 1.0.0rc1 is 1.0.0~rc1."""
        [line] = re.findall(r"(?m)^debian=\$\(sed .+$", (ROOT / ".ci/deb").read_text("utf-8"))
        printed = [run(ROOT, "bash", "-c", f"version={each}; {line}; echo $debian").stdout.strip() for each in VERSIONS]
        self.assertEqual(printed[3], "1.0.0~rc1")
        for older, newer in pairwise(printed):
            compared = run(ROOT, "dpkg", "--compare-versions", f"{older}+deb12", "lt", f"{newer}+deb12")
            self.assertEqual(compared.returncode, 0, (older, newer))
        compared = run(ROOT, "dpkg", "--compare-versions", "1.0.0~rc1+deb12", "lt", "1.0.0~rc1+deb13")
        self.assertEqual(compared.returncode, 0)

    def test_files(self) -> None:
        """Each file of etc/ that the rules name exists, and the shell reads the scripts."""
        rules = (ROOT / "debian/rules").read_text("utf-8")
        units = re.search(r"for unit in (.+?); do", rules)
        assert units is not None
        named = [f"etc/systemd/{unit}" for unit in units[1].split()] + re.findall(r"(?<!/)\betc/[\w./-]*\w", rules)
        missing = [path for path in named if not (ROOT / path).exists()]
        self.assertEqual([path for path in missing if path != "etc/systemd"], [])
        for script in ("postinst", "prerm", "postrm"):
            self.assertEqual(run(ROOT, "sh", "-n", f"debian/gamed.{script}").stderr, "")

    def test_instances(self) -> None:
        """An upgrade restarts gamed@1 as well as gamed.service, and removal ends both; no failed start stops dpkg."""
        folder = Path(self.mktemp()).resolve()
        folder.mkdir()
        (folder / "systemctl").write_text('#!/bin/sh\necho "$@" >>"${0%/*}/calls"\nexit 1\n', "utf-8")
        (folder / "systemctl").chmod(0o755)
        outputs = []
        for script, *arguments in (("postinst", "configure", "1.0.0"), ("prerm", "remove")):
            text = (ROOT / f"debian/gamed.{script}").read_text("utf-8")
            self.assertIn("/run/systemd/system", text)
            text = f"PATH={folder}:$PATH\n" + text.replace("/run/systemd/system", str(folder))
            done = run(folder, "sh", "-c", text, script, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append(done.stderr)
        self.assertEqual(
            (folder / "calls").read_text("utf-8").splitlines(),
            [
                "daemon-reload",
                "try-restart gamed.service gamed@*.service",
                "disable gamed.socket gamed.service gamed@.service gamed-backup.timer",
                "stop gamed.socket gamed.service gamed@*.service gamed-backup.timer",
            ],
        )
        self.assertIn("systemctl status gamed.service 'gamed@*.service'", outputs[0])

    def test_commands_are_in_the_pages(self) -> None:
        """Each command that a walk of `.ci/deb` takes from its page is in a block or a sentence of that page."""
        walks = re.findall(r"(?ms)^walk_\w+\(\) \{\n(.+?)^\}", (ROOT / ".ci/deb").read_text("utf-8"))
        wanted = {
            (page, how, text)
            for walk in walks
            for page in re.findall(r"\bpage=(\S+)", walk)
            for how, text in re.findall(r"\$\((printed|spoken) \$page '([^']+)'\)", walk)
        }
        self.assertEqual({page for page, _, _ in wanted}, {*PAGES})
        self.assertGreater(len(wanted), 10)
        for page, how, text in wanted:
            shown = (ROOT / page).read_text("utf-8").split("```sh\n")
            parts = [part.partition("```")[0] for part in shown[1:]] if how == "printed" else shown
            self.assertTrue(any((text if how == "printed" else f"`{text}") in part for part in parts), (page, text))

    def test_starts_nothing(self) -> None:
        """No unit starts before `gamed setup` has written the configuration, and the package enables none."""
        rules = (ROOT / "debian/rules").read_text("utf-8")
        [(units, change)] = re.findall(r"(?s)\tfor unit in (.+?); do \\\n(.+?) \\\n\t+etc/systemd/\$\$unit", rules)
        self.assertEqual({*units.split()}, {file.name for file in (ROOT / "etc/systemd").iterdir() if file.is_file()})
        for unit in units.split():
            done = run(ROOT, "sh", "-c", f"{change.strip()} etc/systemd/{unit}")
            self.assertEqual(done.stderr, "")
            section = re.split(r"\n\n\[(?:Service|Socket|Timer)\]\n", done.stdout)[0]
            self.assertTrue(section.startswith("[Unit]\n"), unit)
            self.assertEqual(section.splitlines()[-1], "ConditionPathExists=/etc/gamed/authentication.json", unit)
        self.assertRegex(rules, r"override_dh_installsystemd:\n\n")
