"""The Unity component signs in, saves and loads on a stand-in of the engine: no engine can be installed here."""

import json
import sys
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests.helpers import lender
from clients.csharp.tests.building import CHECKS, CLIENT, CSHARP, UNITY, built, library, ran
from tests.support.folders import unused_path

UNITY_STUB, SCENE = CHECKS.with_name("UnityEngine.cs"), CHECKS.with_name("Scene.cs")
BROWSER = (sys.executable, "-m", "clients.csharp.tests.browser")
CLOSED_PORT = "http://127.0.0.1:9"


class Unity(SynchronousTestCase):
    def scene(self, name: str, server: str | None = None) -> str:
        """Run a scene against the real server; return what it prints."""
        program = built("Scene", *UNITY, UNITY_STUB, SCENE)
        folder = str(unused_path(self))
        done = ran(program, name, server or lender().service("local").base, folder, *BROWSER)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_two_devices(self) -> None:
        """A device that awaits and one that uses coroutines each load the save of the other."""
        self.scene("Signs")

    def test_conflict(self) -> None:
        """A save of another device is shown as a conflict on the main thread, and the player's choice is stored."""
        self.scene("Disagrees")

    def test_quit(self) -> None:
        """Saves of the last moment are on the disk before the app pauses or ends."""
        self.scene("Quits")

    def test_code(self) -> None:
        """On a phone without a return address the player types the code into the dialog."""
        self.scene("Types")

    def test_return(self) -> None:
        """On a phone the system opens the app with the browser's address; another app's address has no effect."""
        self.scene("Returns")

    def test_cancel(self) -> None:
        """The dialog's Cancel ends the sign-in, and no problem is shown."""
        self.scene("Cancels")

    def test_problem(self) -> None:
        """A server that does not answer and an unsafe address are explained in the dialog."""
        unreachable, untrusted = self.scene("Fails", CLOSED_PORT).splitlines()
        self.assertRegex(unreachable, r"^unreachable: .* does not answer\. Check the address and the network\.$")
        self.assertRegex(untrusted, r"^untrusted_address: .* needs https://")

    def test_metadata(self) -> None:
        """The packages need only modules of the engine, and the component has an assembly of its own."""
        package = json.loads((CSHARP / "unity" / "package.json").read_text("utf-8"))
        self.assertEqual(package["name"], "org.gamed.client")
        self.assertEqual({name.rpartition(".")[0] for name in package["dependencies"]}, {"com.unity.modules"})
        assembly = json.loads((CSHARP / "unity" / "Gamed.asmdef").read_text("utf-8"))
        self.assertEqual((assembly["name"], assembly["references"]), ("Gamed", []))
        nuget = ElementTree.parse(CSHARP / "Gamed.Client.nuspec").getroot()[0]
        members = {element.tag.partition("}")[2]: element for element in nuget}
        self.assertEqual((members["id"].text, members["version"].text), ("Gamed.Client", "$version$"))
        self.assertEqual([list(group) for group in members["dependencies"]], [[], []])

    def test_library(self) -> None:
        """The library compiles without a warning, also with each optional file; every public member has a comment."""
        made = built("Gamed", *CLIENT[1:], *UNITY, alone=True, explained=True, beside=(library(UNITY_STUB),))
        self.assertTrue(made.exists())
