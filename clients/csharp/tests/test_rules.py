"""Rules of the C# client without the suite: JSON, names, addresses, secrets, the disk, a failing network."""

import fcntl
import subprocess
from pathlib import Path
from stat import S_IMODE

from clients import texts
from clients.csharp.tests.building import CHECKS, CSHARP, SECONDS, built, ran, tool
from clients.python.tests.client.cases import ClientCase
from gamed.pages.languages import Languages
from tests.support.python_client import gamed_sync as gs


class Rules(ClientCase):
    def check(self, name: str, *arguments: object) -> str:
        """Run the program; return its output."""
        done = ran(built("Checks", CHECKS), name, *map(str, arguments))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def test_errors(self) -> None:
        """The code of a problem chooses the class, which a game can catch by either of its names."""
        self.assertEqual(self.check("ErrorNames") + self.check("ErrorCodes"), "")

    def test_json(self) -> None:
        """Text that is not JSON, or has a name twice, is rejected; JSON is encoded as it was parsed."""
        self.assertEqual(self.check("JsonIsRefused") + self.check("JsonComesBack"), "")

    def test_names_and_addresses(self) -> None:
        """Slots, paths of assets, servers and links that could lead elsewhere are rejected, not repaired."""
        for name in ("Names", "Paths", "Origins", "Words"):
            self.assertEqual(self.check(name), "")

    def test_no_secret_is_shown(self) -> None:
        """No secret is printed, and a credential that would break a header, or is another server's, is not adopted."""
        self.assertEqual(self.check("Secrets", self.folder), "")

    def test_credential_disk(self) -> None:
        """A disk that fails at the credential neither signs out nor is an answer to a pending write."""
        self.assertEqual(self.check("CredentialDisk", self.folder), "")

    def test_unreadable(self) -> None:
        """A file of a player that cannot be read stops neither play nor the list of the others."""
        self.assertEqual(self.check("Unreadable", self.folder), "")

    def test_only_this_user_can_read_what_is_kept(self) -> None:
        """Files are 0600 and folders 0700 from the start, nothing else is left, and the lock has one holder."""
        self.assertEqual(self.check("Kept", self.folder), "")
        place = self.folder / "a" / "b"
        self.assertEqual({S_IMODE(path.stat().st_mode) for path in (place, place.parent)}, {0o700})
        modes = {path.name: S_IMODE(path.stat().st_mode) for path in place.iterdir()}
        self.assertEqual(modes, {"place.json": 0o600, "place.lock": 0o600})

    def test_what_is_kept_without_libc(self) -> None:
        """Without the system's own calls, files are still complete and locked."""
        self.assertEqual(self.check("KeptWithoutLibc", self.folder), "")

    def test_cancelled_before_it_began(self) -> None:
        """A cancelled sign-in shows nothing and starts no login, and does not wait for a server without a response."""
        self.assertEqual(self.check("Cancelled", self.server, self.folder), "")
        self.assertEqual(self.fake.requests("/auth/login"), [])

    def test_texts(self) -> None:
        """A text and a problem are in the player's language; English, and a code without a text, show the detail."""
        blocked = texts.PLAYERS_PROBLEMS["player_blocked"]
        for locale, tag in (("de_AT.UTF-8", "de"), ("ar", "ar"), ("zh-TW", "en"), ("C", "en")):
            language = Languages().get(tag)
            problem = ["In English."] if tag == "en" else [language.gettext(line.source) for line in blocked]
            expected = [language.gettext("Show me a code"), *problem, "In English.", str(language.direction == "rtl")]
            self.assertEqual(self.check("Texts", locale, "Show me a code").split("\n"), expected, locale)

    def test_console(self) -> None:
        """The ready person for consoles asks again after a typing error, and stops at the end of its input."""
        program = [tool("mono"), str(built("Checks", CHECKS))]
        typed = "x\n7\n2\n\nbkt\nbkt-rvw\nBKTRVX\n"
        done = subprocess.run(
            [*program, "Asks"], input=typed, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        self.assertEqual(done.stdout.split(), ["google", "shown", "BKTRVW", "BKTRVX", "none"])
        self.assertIn("  1  Sign in with Discord\n  2  Sign in with Google\n", done.stderr)
        self.assertIn("That is not the code. Attempts left: 4\n", done.stderr)
        with subprocess.Popen(
            [*program, "AsksNoMore"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdin and process.stdout
            self.assertEqual(process.stdout.readline(), b"cancelled\n")
            process.stdin.write(b"add 3\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"add 3\n")

    def test_console_game(self) -> None:
        """A game that ends with an error prints a text for the player, without class, number or path."""
        for how, said in (("disk", "This device cannot store anything."), ("gamed", "No player is signed in here.")):
            done = ran(built("Checks", CHECKS), "Ends", how)
            self.assertEqual(done.stdout, "1\n")
            self.assertRegex(done.stderr, rf"^{said}[^\n]*\n$")
            self.assertNotRegex(done.stderr, "28|/home|Exception")
        self.assertEqual(ran(built("Checks", CHECKS), "Ends", "well").stdout, "0\n")

    def test_the_lock_is_that_of_the_python_client(self) -> None:
        """Two games with one folder, in two languages, refresh one at a time."""
        self.folder.mkdir()
        path = self.folder / "lock"
        with path.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertEqual(self.check("Locked", path), "held")
        self.assertEqual(self.check("Locked", path), "free")

    def test_the_sign_in_is_that_of_the_python_client(self) -> None:
        """The C# client stores the sign-in at the same path with the same members."""
        self.assertEqual(self.check("WhoIsSignedIn", self.server, self.folder), "nobody")
        self.signed_in()
        self.assertEqual(self.check("WhoIsSignedIn", self.server, self.folder), self.fake.player)
        self.assertIsNotNone(self.on_disk())

    def test_for_one_player(self) -> None:
        """A client for one player sends nothing once the first one has signed out."""
        self.signed_in()
        self.assertEqual(self.check("NothingAfterTheSignOut", self.server, self.folder), "")
        self.assertEqual(len(self.fake.requests("/game/")), 1)

    def test_what_is_pending_is_that_of_the_python_client(self) -> None:
        """One client reads and continues a save that the other wrote offline."""
        self.signed_in()
        self.check("SavesOffline", self.server, self.folder, "auto")
        with gs.Sync(self.client) as sync:
            self.assertEqual(sync.status("auto").state, "waiting")
            self.assertEqual(sync.status("auto").meta, {"title": "K\u00fcche", "n": [1, 2]})
            self.assertEqual(sync.read("auto").data, b"\1\2")
            sync.write("auto", b"\3", meta={"b": 1.5, "a": None})
        self.assertEqual(self.check("Shown", self.server, self.folder), 'auto waiting {"b":1.5,"a":null} 03')

    def test_never_needs_the_thread_that_called(self) -> None:
        """The client works while an engine's main thread waits for it or is busy; writes keep the order of calls."""
        self.signed_in()
        self.assertEqual(self.check("NeverNeedsTheCallersThread", self.server, self.folder), "")
        self.assertIsNone(self.on_disk())

    def test_the_end_does_not_wait(self) -> None:
        """Dispose returns at once and ends waits at the server; the process ends once its writes are on the disk."""
        self.assertEqual(self.check("Closes", self.folder), "")
        self.signed_in()
        self.check("Leaves", self.server, self.folder)
        with gs.Sync(self.client) as sync:
            self.assertEqual(sync.status("auto").size, 32 << 20)

    def test_another_player_meanwhile(self) -> None:
        """A player who signs in while the saves of the one before are closed has their own."""
        self.assertEqual(self.check("OpensLate", self.folder), "")

    def test_functions_of_the_game_that_fail(self) -> None:
        """An exception of the game's own functions leaves the folder free for the next start."""
        self.assertEqual(self.check("ClosesAnyway", self.folder), "")
        self.assertEqual(self.check("GivesUp", self.folder / "other"), "")

    def test_a_cancel_without_a_network(self) -> None:
        """A cancelled sign-in ends, also if the server does not receive the cancel."""
        self.assertEqual(self.check("CancelsAlone", self.folder), "")

    def test_a_cancel_that_is_too_late(self) -> None:
        """A sign-in that has succeeded at the server meanwhile also succeeds here."""
        self.assertEqual(self.check("CancelsLate", self.folder), "")

    def test_settings_of_the_process(self) -> None:
        """The client does not change the TLS versions of the whole process."""
        self.assertEqual(self.check("LeavesSettings", self.folder), "")

    def test_requests_at_once(self) -> None:
        """Requests that wait at the server do not delay others."""
        self.assertEqual(self.check("AtOnce", self.folder), "")

    def test_silence_ends(self) -> None:
        """Requests end if the server sends nothing, or stops in the middle, or the player cancels."""
        self.assertEqual(self.check("Silence", self.folder), "")
        self.assertEqual(self.check("ClosesBroken"), "")

    def test_an_answer_in_the_middle_of_an_upload(self) -> None:
        """A refusal in the middle of an upload is read, although the server ends the connection soon after it."""
        self.assertEqual(self.check("EarlyAnswer", self.folder), "")


class Samples(ClientCase):
    def test_the_sample_runs(self) -> None:
        """The sample compiles without a warning, and explains a wrong address."""
        done = ran(built("Example", CSHARP / "Example.cs"), "http://play.example.org")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("needs https://", done.stderr)

    def test_no_file_needs_more_than_the_client(self) -> None:
        """Each of the other files is optional, and every public member has a comment."""
        for name in ("GamedSync.cs", "GamedAssets.cs"):
            self.assertTrue(built(Path(name).stem, CSHARP / name, alone=True, explained=True).exists())
