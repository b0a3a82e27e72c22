import os
import sysconfig
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli import paths
from gamed.cli.errors import SetupError
from gamed.cli.paths import Paths, find
from gamed.config.errors import ConfigError
from tests.cli.process import folder_of
from tests.support.covers import covers

ROOT = Path(__file__).parent.parent.parent


class FindTests(SynchronousTestCase):
    @covers("2.1/2", "2.1/3")
    def test_order(self) -> None:
        """Option, GAMED_CONFIG, systemd's folder, the checkout's `.build`, else beside the executable (SPEC 2.1)."""
        environ = {"GAMED_CONFIG": "/b/authentication.json", "CONFIGURATION_DIRECTORY": "/c"}
        beside = Path(sysconfig.get_path("scripts")) / "authentication.json"
        self.assertEqual(find(environ, "/a/x.json", None).config, Path("/a/x.json"))
        self.assertEqual(find(environ, None, None).config, Path("/b/authentication.json"))
        del environ["GAMED_CONFIG"]
        self.assertEqual(find(environ, None, None, development=True).config, Path("/c/authentication.json"))
        self.assertEqual(
            find({}, None, None, development=True),
            Paths(ROOT / ".build/config/authentication.json", ROOT / ".build/data"),
        )
        self.assertEqual(find({}, None, None), Paths(beside, beside.parent / "data"))

    def test_data(self) -> None:
        """Option, GAMED_DATA, systemd's folder, else `data` beside the configuration file."""
        environ = {"GAMED_DATA": "/e", "STATE_DIRECTORY": "/f:/g"}
        self.assertEqual(find(environ, "/a/x.json", "/d").data, Path("/d"))
        self.assertEqual(find(environ, "/a/x.json", None).data, Path("/e"))
        del environ["GAMED_DATA"]
        self.assertEqual(find(environ, "/a/x.json", None).data, Path("/f"))
        self.assertEqual(find({}, "/a/x.json", None).data, Path("/a/data"))
        self.assertEqual(find({}, "/a/x.json", None, development=True).data, Path("/a/data"))

    def test_empty_is_not_given(self) -> None:
        """Variables set to nothing, as container files leave them, name nothing."""
        empty = dict.fromkeys(("GAMED_CONFIG", "GAMED_DATA", "CONFIGURATION_DIRECTORY", "STATE_DIRECTORY"), "")
        self.assertEqual(find(empty, "", ""), find({}, None, None))

    def test_absolute(self) -> None:
        """Relative names are of the folder the command was given in, and stay so when the daemon goes elsewhere."""
        self.assertEqual(find({}, "x.json", "y"), Paths(Path.cwd() / "x.json", Path.cwd() / "y"))

    def test_several_folders(self) -> None:
        """Choose the one of systemd's configuration folders that has the file, else the first."""
        first, second = folder_of(self), folder_of(self)
        both = {"CONFIGURATION_DIRECTORY": f"{first}:{second}"}
        self.assertEqual(find(both, None, None).config, first / "authentication.json")
        (second / "authentication.json").touch()
        self.assertEqual(find(both, None, None).config, second / "authentication.json")


class FileTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = folder_of(self)
        self.places = Paths(folder / "etc/authentication.json", folder / "data")

    @covers("2.1/5")
    def test_first_run(self) -> None:
        """The file made is the one asked for, 0640, with mode and session and nothing else."""
        self.assertIsNone(paths.read_config(self.places))
        paths.write_first_config(self.places.config)
        self.assertEqual(self.places.config.stat().st_mode & 0o777, 0o640)
        self.assertEqual([path.name for path in self.places.config.parent.iterdir()], ["authentication.json"])
        self.assertEqual(
            paths.read_config(self.places),
            '{\n  "mode": "local",\n  "session": {\n    "access_ttl": "15m",\n    "refresh_ttl": "720h",\n'
            '    "device_transaction_ttl": "10m"\n  }\n}\n',
        )

    def test_cut_first_run(self) -> None:
        """Start beside the files of a start that was killed, also with the same process number."""
        part = self.places.config.with_name(f".authentication.json.{os.getpid()}")
        part.parent.mkdir()
        part.write_text("{")
        paths.write_first_config(self.places.config)
        self.assertEqual([path.name for path in self.places.config.parent.iterdir()], ["authentication.json"])
        self.assertEqual(paths.read_config(self.places), paths.FIRST_RUN)

    @covers("threats/52")
    def test_lost_file(self) -> None:
        """auth.db without its configuration is a lost mount, no first run: nothing is made."""
        self.places.data.mkdir()
        (self.places.data / "auth.db").touch()
        error = self.assertRaises(SetupError, paths.read_config, self.places)
        self.assertIn("is missing", str(error))
        self.assertFalse(self.places.config.exists())

    def test_cannot_be_written(self) -> None:
        """Where the file cannot be made, --config is named as the way out."""
        self.places.config.parent.touch()
        error = self.assertRaises(SetupError, paths.write_first_config, self.places.config)
        self.assertIn("--config FILE", str(error))

    def test_cannot_be_read(self) -> None:
        """A folder in its place, a huge file, a file of another encoding: each is a sentence."""
        self.places.config.mkdir(parents=True)
        self.assertIn("Is a directory", str(self.assertRaises(SetupError, paths.read_config, self.places)))
        self.places.config.rmdir()
        self.places.config.write_bytes(b" " * (256 * 1024 + 1))
        self.assertIn("larger than 256 KiB", str(self.assertRaises(SetupError, paths.read_config, self.places)))
        self.places.config.write_bytes(b'{"mode": "\xff"}')
        error = self.assertRaises(ConfigError, paths.read_config, self.places)
        self.assertEqual(str(error), f"{self.places.config}:1:11: not UTF-8; save the file with the encoding UTF-8")

    def test_data_folder(self) -> None:
        """Made 0700; closed to others when it is plainly gamed's; left alone, with a warning, when it may not be."""
        paths.open_data(self.places.data)
        self.assertEqual(self.places.data.stat().st_mode & 0o777, 0o700)
        self.places.data.chmod(0o755)
        (self.places.data / "auth.db").touch()
        paths.open_data(self.places.data)
        self.assertEqual(self.places.data.stat().st_mode & 0o777, 0o700)
        home = self.places.data.parent / "home"
        home.mkdir(mode=0o755)
        (home / "letter").touch()
        paths.open_data(home)
        self.assertEqual(home.stat().st_mode & 0o777, 0o755)

    def test_no_data_folder(self) -> None:
        """A file in its place names --data as the way out."""
        self.places.data.touch()
        self.assertIn("--data DIR", str(self.assertRaises(SetupError, paths.open_data, self.places.data)))
        inside = self.places.data / "deeper"
        self.assertIn("--data DIR", str(self.assertRaises(SetupError, paths.open_data, inside)))
