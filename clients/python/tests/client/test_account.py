"""The player's account: sessions, all saves at once, `ensure_signed_in`, and their commands."""

import json
import subprocess
import sys
import zipfile

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import lender
from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import LOST, Player, Reply, of_json, problem
from tests.support.folders import unused_path
from tests.support.python_client import CLIENT_PATH as PATH
from tests.support.python_client import gamed_client as gc


class Shown(Player):
    """A player who records the shown problems."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[gc.GamedError] = []

    def problem(self, error):
        self.problems.append(error)


class Ensure(ClientCase):
    def test_device_refuses(self) -> None:
        """A device that cannot store the sign-in is reported in a text, without the name of an error."""
        self.folder.write_bytes(b"a file where the folder should be")
        person = Shown()
        self.fake.move("x", self.fake.complete())
        self.assertFalse(self.client.ensure_signed_in(person, open_browser=lambda url: True))
        [shown] = person.problems
        self.assertEqual(shown.code, "local_disk")
        self.assertIsInstance(shown, gc.LocalDamaged)
        self.assertNotRegex(shown.detail, r"Error|Errno|\[")

    def test_asks_once(self) -> None:
        """An absent server is asked once only: the player wants to play."""
        self.signed_in()
        self.fake.scripted["GET", "/game/"].extend([LOST] * 9)
        self.assertTrue(self.client.ensure_signed_in(Shown()))
        self.assertEqual((len(self.fake.requests("/game/")), self.pauses), (1, []))

    def test_other_player(self) -> None:
        """A player who signs in on this device meanwhile has a session, too."""
        self.signed_in()
        self.fake.watch = lambda request: request.path == "/game/" and self._another_player()
        self.assertTrue(self.client.ensure_signed_in(Shown()))

    def _another_player(self) -> None:
        self.fake.watch = lambda request: None
        self.fake.session, self.fake.player = "ses_2", "ply_2"
        self.another().keep(self.fake.credentials())

    def test_mistake_of_the_game(self) -> None:
        """A defect of the game's dialogs is raised, not shown to the player."""

        class Broken(Shown):
            def browser_opened(self, url, opened, qr_url):
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, self.client.ensure_signed_in, Broken(), open_browser=None)


class Cancel(ClientCase):
    def test_before_the_start(self) -> None:
        """A sign-in that is cancelled while it asks for the providers starts no login."""
        self.fake.watch = lambda request: request.path == "/auth/providers" and self.client.cancel_sign_in()
        self.raised(gc.LoginCancelled, "login_cancelled", self.client.sign_in, self.player(), open_browser=None)
        self.assertEqual(self.fake.requests("/auth/login"), [])

    def test_during_the_start(self) -> None:
        """A login whose answer comes after the player has cancelled is cancelled at the server."""
        self.fake.watch = lambda request: request.path == "/auth/login" and self.client.cancel_sign_in()
        self.raised(gc.LoginCancelled, "login_cancelled", self.client.sign_in, self.player(), open_browser=None)
        self.assertEqual(len(self.fake.requests("/auth/login/cancel")), 1)

    def test_server_away(self) -> None:
        """The cancelled sign-in ends also while the server does not respond."""
        self.fake.scripted["POST", "/auth/login/collect"].extend([LOST] * 50)
        self.fake.watch = lambda request: request.path.endswith("/collect") and self.client.cancel_sign_in()
        self.raised(gc.LoginCancelled, "login_cancelled", self.client.sign_in, self.player(), open_browser=None)

    def test_nothing_runs(self) -> None:
        """Without a sign-in, `cancel_sign_in` and `returned` have no effect."""
        self.client.cancel_sign_in()
        self.assertFalse(self.client.returned("com.example.game:/signin?login_id=lgn_1&ticket=x"))


class Names(ClientCase):
    def test_device_name(self) -> None:
        """The device's name is the host's unless the game passes one; a long one is cut to the server's limit."""
        for given, expected in [("Anna's sofa", "Anna's sofa"), ("x" * 100, "x" * 64), ("", "")]:
            self.assertEqual(gc.GamedClient(self.server, device_name=given).device["device_name"], expected)
        self.assertTrue(gc.GamedClient(self.server).device["device_name"])

    def test_locale(self) -> None:
        """The game's language is the system's unless the game passes one, or changes it later."""
        self.assertEqual(gc.GamedClient(self.server).locale, gc.system_locale())
        client = gc.GamedClient(self.server, locale="de_AT")
        self.assertEqual(client.locale, "de_AT")

    def test_system_locale(self) -> None:
        """The first of the variables of POSIX that is set and not empty names the system's language."""
        self.assertEqual(gc.system_locale({"LC_ALL": "", "LC_MESSAGES": "fr_FR", "LANG": "de_DE"}), "fr_FR")
        self.assertEqual(gc.system_locale({"LC_ALL": "C.UTF-8", "LANG": "de_DE"}), "C.UTF-8")
        self.assertEqual(gc.system_locale({}), "")

    def test_locale_tag(self) -> None:
        """A system's name of a language becomes a tag of BCP 47; a name of no language is left out."""
        for name, tag in {
            "de_DE.UTF-8@euro": "de-DE",
            "zh-Hant-TW": "zh-Hant-TW",
            "fil": "fil",
            "ar-u-nu-latn": "ar",
        }.items():
            self.assertEqual(gc.locale_tag(name), tag)
        for name in ("", "C", "C.UTF-8", "POSIX", "German_Germany.1252", "x-klingon", "\u0434\u0435"):
            self.assertEqual(gc.locale_tag(name), "", name)


class Sessions(ClientCase):
    def test_odd_client(self) -> None:
        """A session without readable members of its device is listed without them."""
        self.signed_in()
        for reported in (None, 7, "desk", [1], {"name": 7}):
            session = {"session_id": "ses_1", "current": True, "client": reported}
            self.fake.scripted["GET", "/auth/sessions"].append(of_json({"sessions": [session]}))
            [found] = self.client.list_sessions()
            self.assertEqual((found.session_id, found.client), ("ses_1", {}))


class Together(ClientCase):
    """The parts of `commit` and `export` that the conformance suite does not check."""

    def setUp(self) -> None:
        super().setUp()
        self.signed_in()

    def test_head_is_not_needed(self) -> None:
        """Large bytes are uploaded if the server does not respond to the question whether it has them."""
        data = b"x" * (gc.ASK_FIRST_BYTES + 1)
        path = f"/game/blobs/{gc.SlotWrite('a', data, None).to_json()['sha256']}"
        for refused in (LOST, Reply(401), problem(404, "blob_missing"), Reply(502)):
            self.fake.scripted["HEAD", path].append(refused)
            self.fake.scripted["PUT", path].append(of_json({"size": len(data)}, 201))
            self.fake.scripted["POST", "/game/commit"].append(of_json({"cursor": "e.2", "saves": []}))
            self.assertEqual(self.client.commit([gc.SlotWrite("a", data, None)]), [])
        self.assertEqual(len([seen for seen in self.fake.requests(path) if seen.method == "PUT"]), 4)

    def test_foreign_conflict(self) -> None:
        """Malformed sides of a conflict are an error, and do not end the program."""
        for conflicts, slots in ((None, 0), ("x", 0), ([7], 0), ([{"slot": "a", "code": "deleted"}], 1)):
            self.fake.scripted["POST", "/game/commit"].append(problem(412, "deleted", conflicts=conflicts))
            error = self.raised(gc.Conflict, "deleted", self.client.commit, [gc.SlotWrite("a", None, "*")])
            self.assertEqual(len(error.slots), slots)
        self.fake.scripted["POST", "/game/commit"].append(problem(412, "deleted", conflicts=[{}]))
        error = self.raised(gc.Conflict, "deleted", self.client.commit, [gc.SlotWrite("a", None, "*")])
        self.assertRaises(gc.NotGamed, lambda: error.slots)

    def test_no_folder(self) -> None:
        """An export into a folder that does not exist fails before a request."""
        self.assertRaises(gc.LocalDamaged, self.client.export, self.folder / "nowhere" / "mine.zip")
        self.assertEqual(self.fake.requests("/game/export"), [])

    def test_disk_full(self) -> None:
        """An error of the disk is not reported as one of the network, and leaves no part of a file."""
        self.fake.scripted["GET", "/game/export"].append(Reply(200, b"PK" * 9, {"Content-Type": "application/zip"}))

        class Full:
            def __init__(self, file):
                self.file = file

            def __getattr__(self, name):
                return getattr(self.file, name)

            def write(self, data):
                raise OSError(28, "No space left on device")

        with open(self.folder / "x", "w+b") as file:
            error = self.assertRaises(OSError, gc.ExportFile(Full(file), self.client.wire).fetch, self.fake.access)
        self.assertEqual(error.errno, 28)

    def test_another_place(self) -> None:
        """The client rejects a continued export from another position than it asked for."""
        whole = {"Content-Type": "application/zip", "ETag": '"a.1-00"'}
        self.fake.scripted["GET", "/game/export"].append(Reply(200, b"PK" * 9, whole, torn=8))
        part = {**whole, "Content-Range": "bytes 3-17/18"}
        self.fake.scripted["GET", "/game/export"].append(Reply(206, b"K" * 15, part))
        self.raised(gc.NotGamed, "not_gamed", self.client.export, self.folder / "mine.zip")
        self.assertEqual(self.fake.requests("/game/export")[1].headers["Range"], "bytes=10-")
        self.assertEqual(list(self.folder.glob("*zip*")) + list(self.folder.glob(".*new")), [])


class Commands(SynchronousTestCase):
    """`python gamed_client.py account ...` with a real server."""

    def setUp(self) -> None:
        self.world, self.server = lender(), lender().service("local").base
        self.folder = unused_path(self)
        self.folder.mkdir()
        self.anna = self.world.player("local")
        client = gc.GamedClient(self.server, folder=self.folder)
        client.keep(self.world.session(self.anna))
        client.put("auto", b"level 1", base=None)

    def account(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, str(PATH), "--server", self.server, "--folder", str(self.folder)]
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, timeout=120, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout or done.stderr

    def test_sessions(self) -> None:
        """The list marks this device; an ended device is not listed any more."""
        other = self.world.session(self.anna)["session_id"]
        lines = self.account("account", "sessions").splitlines()
        self.assertEqual([line.count("this device") for line in sorted(lines)].count(1), 1)
        self.account("account", "end", other)
        [left] = json.loads(self.account("--json", "account", "sessions"))["sessions"]
        self.assertEqual((left["current"], left["client"]), (True, {"name": "conformance"}))
        self.assertIn("session_not_found", self.account("account", "end", "ses_unknown", code=5))

    def test_name(self) -> None:
        """`account name` changes the name, and deletes it without an argument."""
        self.assertEqual(self.account("account", "name", "Anna"), "Games show Anna.\n")
        self.assertEqual(self.account("account", "name"), "Your name is deleted.\n")

    def test_identities(self) -> None:
        """The account of a server in local mode is the only one, and cannot be unlinked."""
        [only] = json.loads(self.account("--json", "account", "identities"))["identities"]
        self.assertIn("last_identity", self.account("account", "unlink", only["provider"], code=1))

    def test_export(self) -> None:
        """The file is a zip with the save."""
        target = self.folder / "mine.zip"
        made = json.loads(self.account("--json", "account", "export", str(target)))
        self.assertEqual(made["size"], target.stat().st_size)
        with zipfile.ZipFile(target) as archive:
            self.assertIn(b"level 1", [archive.read(name) for name in archive.namelist()])

    def test_erase(self) -> None:
        """Without --yes nothing is erased; with it the saves, then the player."""
        self.account("account", "erase", code=2)
        self.account("account", "delete", code=2)
        self.assertIn("auto", self.account("save", "ls"))
        self.account("account", "erase", "--yes")
        self.assertNotIn("auto", self.account("save", "ls"))
        self.account("account", "delete", "--yes")
        self.assertIn("signed_out", self.account("whoami", code=3))
