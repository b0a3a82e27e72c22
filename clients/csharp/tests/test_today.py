"""The face of the C# client for today's .NET: its values and events, and HttpClient below HTTP."""

import shlex
import sys
from xml.etree import ElementTree

from clients.csharp.tests.building import CHECKS, CLIENT, CSHARP, TODAY, TODAY_CHECKS, bounded, built, ran, tool
from clients.python.tests.client.cases import ClientCase
from tests.support.folders import unused_path


class Today(ClientCase):
    def check(self, name: str, *arguments: object) -> str:
        """Run the program; return its output."""
        done = ran(built("TodayChecks", CHECKS, TODAY_CHECKS, today=True), name, *map(str, arguments))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def test_values(self) -> None:
        """Texts of the protocol are enums and instants; one that the client does not know is not an error."""
        self.assertEqual(self.check("Values"), "")

    def test_plays(self) -> None:
        """Two devices with a real server: events, a conflict, the typed player, and a download with progress."""
        program = built("TodayChecks", CHECKS, TODAY_CHECKS, today=True)
        script = shlex.join([tool("mono"), str(program), "Plays", str(unused_path(self))])
        done = bounded([sys.executable, "-m", "gamed", "dev", "--script", script])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_requests_at_once(self) -> None:
        """Requests that wait at the server do not delay others."""
        self.assertEqual(self.check("AtOnce", self.folder), "")

    def test_silence_ends(self) -> None:
        """Requests end if the server sends nothing, or stops in the middle, or the player cancels."""
        self.assertEqual(self.check("Silence", self.folder), "")

    def test_an_answer_in_the_middle_of_an_upload(self) -> None:
        """A refusal in the middle of an upload is read, although the server ends the connection soon after it."""
        self.assertEqual(self.check("EarlyAnswer", self.folder), "")

    def test_the_end_does_not_wait(self) -> None:
        """Dispose returns at once and ends waits at the server."""
        self.assertEqual(self.check("Closes", self.folder), "")

    def test_handlers(self) -> None:
        """Handlers of events that throw or wait do not stop the exchange, and see no problem at the end."""
        self.assertEqual(self.check("Handlers", self.folder), "")
        self.assertEqual(self.check("ClosesQuietly", self.folder), "")

    def test_delete(self) -> None:
        """A delete is sent once by one call, not again by HttpClient."""
        self.assertEqual(self.check("DeletesAlone", self.folder), "")

    def test_redirects_of_another_client(self) -> None:
        """An answer from another server, to which the game's own HttpClient followed a redirect, is not taken."""
        self.assertEqual(self.check("Redirected", self.folder), "")

    def test_settings_of_the_process(self) -> None:
        """The client does not change the TLS versions of the whole process."""
        self.assertEqual(self.check("LeavesSettings", self.folder), "")

    def test_library(self) -> None:
        """The files compile to a library without a warning, and every public member has a comment."""
        made = built("GamedToday", *CLIENT[1:], alone=True, explained=True, today=True)
        self.assertTrue(made.exists())

    def test_project(self) -> None:
        """The project compiles the files of the client, and no others, for .NET Standard 2.0."""
        project = ElementTree.parse(CSHARP / "Gamed.Client.csproj").getroot()
        included = [each.get("Include") for each in project.iter("Compile")]
        self.assertEqual(included, [path.name for path in (*CLIENT, TODAY)])
        self.assertEqual(project.findtext("PropertyGroup/TargetFramework"), "netstandard2.0")
