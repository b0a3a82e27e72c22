"""`etc/Containerfile` keeps what it promises to owners; the gate runs `.ci/container`, which builds and runs it."""

import re
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.cli.process import ROOT
from tests.support.covers import covers


@covers("2.1/4")
class ContainerTests(SynchronousTestCase):
    def test_what_owners_rely_on(self) -> None:
        """The paths of SPEC 2.1, a user that is not root, a port that is not encrypted and says so."""
        text = (ROOT / "etc/Containerfile").read_text("utf-8")
        steps = [line for line in text.splitlines() if line and not line.startswith("#")]
        for step in (
            "ENV GAMED_CONFIG=/app/data/config/authentication.json",
            "ENV GAMED_DATA=/app/data",
            "ENV GAMED_PRIVATE_LISTEN=1",
            "VOLUME /app/data",
            "EXPOSE 8080",
            "STOPSIGNAL SIGTERM",
        ):
            self.assertIn(step, steps)
        [user] = [step for step in steps if step.startswith("USER ")]
        self.assertGreaterEqual(min(map(int, re.findall(r"\d+", user))), 10_000)
        self.assertTrue(any(re.fullmatch(r'HEALTHCHECK .*CMD \["gamed", "health"\]', step) for step in steps))


class ContainerChangedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.origin = Path(self.mktemp()).resolve()
        self.commit(self.origin, "etc/Containerfile", "gamed/crypto.py")

    def git(self, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    def commit(self, folder: Path, *changed: str) -> None:
        self.git(folder, "init")
        for name in changed:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("a", encoding="utf-8") as file:
                file.write("another line\n")
        self.git(folder, "add", ".")
        self.git(folder, "commit", "-m", "Change")

    def clone(self, *options: str) -> Path:
        folder = Path(self.mktemp()).resolve()
        self.git(folder, "clone", *options, self.origin.as_uri(), ".")
        return folder

    def changed(self, folder: Path) -> bool:
        [function] = re.findall(r"(?ms)^container_changed\(\) \{.*?^\}$", (ROOT / ".ci/run").read_text("utf-8"))
        command = ["bash", "-uc", f"{function}\ncontainer_changed"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn((done.returncode, done.stdout), [(0, ""), (1, "")])
        return not done.returncode

    def test_branch(self) -> None:
        """A branch that changed one of the container's files has it built, one that changed others has not."""
        clone = self.clone()
        self.commit(clone, "gamed/crypto.py")
        self.assertFalse(self.changed(clone))
        self.commit(clone, "etc/Containerfile")
        self.commit(clone, "gamed/crypto.py")
        self.assertTrue(self.changed(clone))

    def test_main_went_on(self) -> None:
        """Commits of origin's main branch that the branch does not have do not count."""
        clone = self.clone()
        self.commit(clone, "gamed/crypto.py")
        self.commit(self.origin, "etc/Containerfile")
        self.git(clone, "fetch")
        self.assertFalse(self.changed(clone))

    def test_unknown(self) -> None:
        """The container is built where git does not know: on the main branch, in a shallow clone, without an origin."""
        self.commit(self.origin, "gamed/crypto.py")
        self.assertTrue(self.changed(self.clone()))
        self.assertTrue(self.changed(self.clone("--depth=1")))
        self.assertTrue(self.changed(self.origin))
