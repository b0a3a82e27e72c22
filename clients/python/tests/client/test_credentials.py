"""The credentials on the player's machine, and their deletion (docs/protocol.md: Rules for clients; SPEC 5/12)."""

import os
from pathlib import Path
from stat import S_IMODE

from twisted.trial.unittest import SynchronousTestCase

from clients.python.tests.client.cases import ClientCase
from clients.python.tests.client.fake_server import LOST, Reply, problem
from tests.support.covers import covers
from tests.support.python_client import gamed_client as gc

FORGOTTEN = ["refresh_expired", "refresh_reused", "refresh_invalid", "session_revoked"]
KEPT = [
    (400, "invalid_request"),
    (401, "token_missing"),
    (401, "token_expired"),
    (401, "token_invalid"),
    (403, "player_blocked"),
    (404, "route_not_found"),
    (421, "misdirected_request"),
    (429, "rate_limited"),
    (500, "internal_error"),
    (503, "busy"),
    (503, "shutting_down"),
    (503, "store_unavailable"),
    (401, "a_code_of_a_later_version"),
]


@covers("1/14")
class OnDisk(ClientCase):
    """The file of an origin."""

    @covers("threats/28")
    def test_modes(self) -> None:
        """The folder is 0700 and the file 0600 for any umask; the next write restores the mode."""
        self.addCleanup(os.umask, os.umask(0))
        client = self.signed_in()
        [path] = self.folder.glob("*.json")
        self.assertEqual((S_IMODE(self.folder.stat().st_mode), S_IMODE(path.stat().st_mode)), (0o700, 0o600))
        self.assertEqual({S_IMODE(other.stat().st_mode) for other in self.folder.iterdir()}, {0o600})
        path.chmod(0o644)
        client.keep(self.fake.credentials())
        self.assertEqual(S_IMODE(path.stat().st_mode), 0o600)

    def test_per_origin(self) -> None:
        """Each origin has its own file: no server receives the credential of another."""
        self.signed_in()
        for server in ["https://127.0.0.1", self.server.replace("127.0.0.1", "localhost"), "https://play.example.org"]:
            self.assertFalse(gc.GamedClient(server, folder=self.folder).signed_in)

    def test_file_of_another_origin(self) -> None:
        """A file that was copied to another origin's name is not read."""
        self.signed_in()
        [path] = self.folder.glob("*.json")
        other = gc.CredentialFile(self.folder, gc.Origin.entered("https://evil.example"))
        other.path.write_bytes(path.read_bytes())
        self.assertFalse(gc.GamedClient("https://evil.example", folder=self.folder).signed_in)

    def test_damaged(self) -> None:
        """With a damaged file no player is signed in, and the next sign-in works."""
        self.signed_in()
        [path] = self.folder.glob("*.json")
        for content in [b"", b"\x00\xff", b"[]", b"7", b"{}", path.read_bytes()[:-5]]:
            path.write_bytes(content)
            self.assertIsNone(self.on_disk())
        self.signed_in()
        self.assertIsNotNone(self.on_disk())

    def test_no_secret_in_repr(self) -> None:
        """The repr of credentials and responses has no secret."""
        shown = repr(self.signed_in().credential) + repr(self.fake.pair() and gc.Answer(200, {}, b"gat_x"))
        self.assertNotIn("gat_", shown)
        self.assertNotIn("grc_", shown)

    def test_nothing_left_over(self) -> None:
        """A write leaves the credential and its lock, no temporary file; a failed one leaves the old credential."""
        self.signed_in()
        names = sorted(path.suffix for path in self.folder.iterdir())
        self.assertEqual(names, [".json", ".lock"])
        kept = self.on_disk()
        broken = gc.Credential(**{**vars(kept), "session_id": object()})
        file = gc.CredentialFile(self.folder, self.client.origin)
        self.assertRaises(TypeError, file.write, broken)
        self.assertEqual(sorted(path.suffix for path in self.folder.iterdir()), names)
        self.assertEqual(self.on_disk(), kept)


class Place(SynchronousTestCase):
    """The platform's folder."""

    def test_platforms(self) -> None:
        """XDG_STATE_HOME on Linux, Application Support on macOS, LOCALAPPDATA on Windows."""
        environ = {"LOCALAPPDATA": "/local", "XDG_STATE_HOME": "/state"}
        places = [gc.state_folder("mygame", platform, environ) for platform in ["linux", "darwin", "win32"]]
        mac = Path.home() / "Library/Application Support/mygame"
        self.assertEqual(places, [Path("/state/mygame"), mac, Path("/local/mygame")])

    def test_default(self) -> None:
        """The default is ~/.local/state."""
        self.assertEqual(gc.state_folder("mygame", "linux", {}), Path.home() / ".local/state/mygame")

    def test_no_escape(self) -> None:
        """The name of a game cannot lead out of that folder."""
        for app in ["..", "a/b", "/etc", "", "a\\b", "a\n"]:
            self.assertRaises(ValueError, gc.state_folder, app)


class Forget(ClientCase):
    """The responses after which the refresh credential is deleted."""

    def expired(self):
        """Return a client that must refresh before its first request."""
        client = self.signed_in()
        self.clock += self.fake.access_seconds + 1
        return client

    def test_refresh_refused(self) -> None:
        """Each of the four codes deletes the credential after a refresh and requires a sign-in."""
        for code in FORGOTTEN:
            client = self.expired()
            self.fake.scripted["POST", "/auth/session/refresh"].append(problem(401, code))
            self.raised(gc.SignInRequired, code, client.whoami)
            self.assertIsNone(self.on_disk(), code)
            self.raised(gc.SignInRequired, "signed_out", client.whoami)
            self.assertFalse(client.signed_in)

    def test_refresh_not_decided(self) -> None:
        """After any other response the player is still signed in once the server works again."""
        html = Reply(401, b"<html>sign in to the hotel's network</html>", {"Content-Type": "text/html"})
        broken = Reply(200, b"{}", {"Content-Type": "application/json"})
        for reply in [problem(status, code) for status, code in KEPT] + [html, broken, LOST, Reply(302)]:
            client = self.expired()
            kept = self.on_disk()
            self.fake.scripted["POST", "/auth/session/refresh"].extend([reply] * gc.TRIES)
            self.assertRaises(gc.GamedError, client.whoami)
            self.assertEqual(self.on_disk(), kept, reply)
            self.fake.scripted["POST", "/auth/session/refresh"].clear()
            self.assertEqual(client.whoami()["player"]["id"], "ply_1")

    def test_revoked_in_play(self) -> None:
        """`session_revoked` of a game route deletes the credential, too; the other refusals there do not."""
        for status, code in [*KEPT, (410, "erased"), (401, "session_revoked")]:
            client = self.signed_in()
            self.fake.scripted["GET", "/game/"].extend([problem(status, code)] * gc.TRIES)
            self.assertRaises(gc.GamedError, client.whoami)
            self.assertEqual(self.on_disk() is None, code == "session_revoked", code)
            self.fake.scripted["GET", "/game/"].clear()

    def test_another_sign_in_meanwhile(self) -> None:
        """The end of a session does not delete another process's newer sign-in; the client continues with that."""
        client = self.signed_in()
        client.whoami()
        self.fake.session = "ses_2"
        self.another().keep(self.fake.credentials())
        self.fake.scripted["GET", "/game/"].append(problem(401, "session_revoked"))
        self.assertEqual(client.whoami()["player"]["id"], "ply_1")
        self.assertEqual(self.on_disk().session_id, "ses_2")

    def test_another_player_meanwhile(self) -> None:
        """A running game never continues as another player who has signed in on the same device."""
        client = self.signed_in()
        client.whoami()
        self.fake.session, self.fake.player = "ses_2", "ply_2"
        self.another().keep(self.fake.credentials())
        self.raised(gc.PlayerChanged, "player_changed", client.put, "auto", b"mine", base=None)
        self.assertEqual(self.fake.saves, {})
        self.assertEqual(self.on_disk().player_id, "ply_2")


@covers("5/12")
class SignOut(ClientCase):
    """Sign-out."""

    def test_for_one_player(self) -> None:
        """A client for one player sends nothing once the first one has signed out."""
        client = self.signed_in()
        bound = client.only(client.credential.player_id)
        bound.whoami()
        client.sign_out()
        self.raised(gc.SignInRequired, "signed_out", bound.whoami)
        self.assertEqual(len(self.fake.requests("/game/")), 1)

    def test_server_notified(self) -> None:
        """Sign-out sends the refresh credential, so that it works with an expired access token."""
        client = self.signed_in()
        self.clock += 10_000
        self.assertTrue(client.sign_out())
        [logout] = self.fake.requests("/auth/session/logout")
        self.assertEqual(logout.json, {"refresh_credential": "grc_ses_1_1", "scope": "this"})
        self.assertIsNone(self.on_disk())
        self.assertFalse(client.signed_in)

    def test_forgotten_whatever_happens(self) -> None:
        """The credential is deleted also if the server refuses, fails or cannot be reached."""
        for reply in [LOST, problem(503, "busy"), problem(500, "internal_error"), Reply(502, b"<html>")]:
            client = self.signed_in()
            self.fake.scripted["POST", "/auth/session/logout"].extend([reply] * 2)
            self.assertFalse(client.sign_out())
            self.assertIsNone(self.on_disk())
            self.fake.scripted["POST", "/auth/session/logout"].clear()

    def test_forgotten_first(self) -> None:
        """The credential is deleted before the request: a machine that is switched off meanwhile keeps nothing."""
        client, found = self.signed_in(), []
        self.fake.watch = lambda request: found.append(list(self.folder.glob("*.json")))
        client.sign_out()
        self.assertEqual(found, [[]])

    def test_others(self) -> None:
        """Signing the other devices out keeps this one."""
        client = self.signed_in()
        self.assertTrue(client.sign_out("others"))
        self.assertEqual(self.fake.requests("/auth/session/logout")[0].json["scope"], "others")
        self.assertTrue(client.signed_in)
        self.assertIsNotNone(self.on_disk())

    def test_nobody(self) -> None:
        """A second sign-out has no effect."""
        self.assertTrue(self.client.sign_out())
        self.assertEqual(self.fake.seen, [])
