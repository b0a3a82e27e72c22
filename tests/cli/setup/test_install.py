"""`gamed setup` installs its own gamed in /opt/gamed, where the service can read it."""

import os
from pathlib import Path
from shutil import copytree, ignore_patterns

from twisted.trial.unittest import SynchronousTestCase

from gamed import __version__
from gamed.cli.paths import PACKAGE, Paths
from gamed.cli.service.listen import describe
from gamed.cli.setup import install
from gamed.cli.setup.model import Layout, Plan, Run
from gamed.cli.setup.samples import Server


class InstallTests(SynchronousTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.opt = Path(self.mktemp())
        self.libraries = self.opt / "lib/python3/site-packages"
        self.package = copytree(PACKAGE, self.libraries / "gamed", ignore=ignore_patterns("__pycache__"))
        for folder in (self.opt.absolute(), *self.opt.absolute().parents):
            mode = folder.stat().st_mode & 0o777
            if folder.stat().st_uid == os.getuid() and not mode & 0o001:
                self.addCleanup(folder.chmod, mode)
                folder.chmod(mode | 0o001)
        self.patch(install, "OPT", self.opt)

    def record(self, distribution: str) -> None:
        folder = self.libraries / f"{distribution}.dist-info"
        folder.mkdir()
        (folder / "RECORD").write_text("")

    def is_installed(self, *, postgresql: bool = False) -> bool:
        return install._is_installed(postgresql=postgresql)

    def test_version(self) -> None:
        """Another version, or one that is not complete, counts as none."""
        self.record("gamed-0.9")
        self.assertFalse(self.is_installed())
        self.record(f"gamed-{__version__}")
        self.assertTrue(self.is_installed())

    def test_schemas(self) -> None:
        """So does one of the same number with older schemas."""
        self.record(f"gamed-{__version__}")
        max(self.libraries.rglob("*.sql")).unlink()
        self.assertFalse(self.is_installed())

    def test_changed(self) -> None:
        """So does one of the same number with other code: a checkout changes without a new version."""
        self.record(f"gamed-{__version__}")
        with (self.package / "service.py").open("a") as file:
            file.write("# older\n")
        self.assertFalse(self.is_installed())

    def test_closed(self) -> None:
        """One that only root may enter is installed again, and then is open."""
        self.record(f"gamed-{__version__}")
        self.opt.chmod(0o700)
        self.assertFalse(self.is_installed())

    def test_driver(self) -> None:
        """A store in PostgreSQL needs its driver there, too."""
        self.record(f"gamed-{__version__}")
        self.assertFalse(self.is_installed(postgresql=True))
        self.record("psycopg-3.2")
        self.assertTrue(self.is_installed(postgresql=True))

    def test_commands(self) -> None:
        """The driver is installed before gamed itself, whose record shows that all is complete."""
        for postgresql in (False, True):
            places = Paths(self.opt / "authentication.json", self.opt / "data")
            server = Server(places, None, [], None, postgresql, describe("tcp:8080:interface=127.0.0.1"))
            layout = Layout(places, self.opt, self.opt, root=True)
            plan = Plan(layout, server, None, None, [], [], checkout=PACKAGE.parent)
            ran: list[str] = []
            self.patch(Run, "require", lambda _, words, cwd=None, ran=ran: ran.append(" ".join(words)))
            install.install(Run(plan, {}))
            driver = [number for number, each in enumerate(ran) if each.endswith("-r etc/postgresql-constraints.txt")]
            self.assertEqual(driver, [len(ran) - 2] if postgresql else [])
            self.assertTrue(ran[-1].endswith(" ."), ran)
            self.assertEqual(self.opt.stat().st_mode & 0o777, 0o755)
