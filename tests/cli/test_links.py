"""The commands that hand out invites and reset links, with a running service."""

import json
import re
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

from tests.cli.process import CommandTestCase
from tests.cli.test_people import send

LINK = re.compile(r"http://127\.0\.0\.1:\d+/auth/(invite|reset)/[A-Za-z0-9_-]{22}")
THIS_MACHINE = "the link is for this machine only"


class LinkCommandTests(CommandTestCase):
    """A service in local mode that is closed to new players, with Anna."""

    def setUp(self) -> None:
        super().setUp()
        self.write_config({"mode": "local", "login": {"registration": "closed"}})
        self.process, self.port = self.serve()
        self.printed("players", "add", "Anna", "--password-stdin", stdin="correct horse")

    def printed(self, *arguments: str, stdin: str = "") -> str:
        code, out, err = self.gamed(*arguments, stdin=stdin)
        self.assertEqual(code, 0, err)
        self.errors = err
        return out

    def refused(self, *arguments: str) -> str:
        """Run a command that fails with a sentence, and return the sentence."""
        return self.complaint(self.gamed(*arguments))

    def complaint(self, answer: tuple[int, str, str]) -> str:
        code, out, err = answer
        self.assertIn(code, (1, 2))
        self.assertEqual(out, "")
        self.assertNotIn("Traceback", err)
        return err

    def link(self, *arguments: str) -> str:
        """Run a command that prints a link, and return the link."""
        link = self.printed(*arguments).splitlines()[0]
        self.assertTrue(LINK.fullmatch(link), link)
        self.assertEqual(urlsplit(link).port, self.port)
        return link

    def request(self, method: str, link: str, cookie: str = "", **fields: str) -> tuple[int, str, str]:
        """Return status, body and cookie of a request of a browser."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, urlsplit(link).path, urlencode(fields) if fields else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), (answer.getheader("Set-Cookie") or "").partition(";")[0]

    def use(self, link: str, **typed: str) -> int:
        """Open a link and post its form; return the status."""
        status, page, cookie = self.request("GET", link)
        self.assertEqual(status, 200)
        field = page.partition('name="form" value="')[2].partition('"')[0]
        return self.request("POST", link, cookie, form=field, **typed)[0]

    def test_invite(self) -> None:
        """The link admits one new player, and is then in no list."""
        link = self.link("players", "invite", "--name", "Cleo")
        self.assertIn(THIS_MACHINE, self.errors)
        [listed] = json.loads(self.printed("players", "invites", "--json"))
        self.assertEqual(listed["name"], "Cleo")
        self.assertNotIn(link.rpartition("/")[2], json.dumps(listed))
        self.assertIn(listed["id"], self.printed("players", "invites"))
        self.assertEqual(self.use(link, name="Cleo", password="correct horse"), 303)
        self.assertEqual(self.request("GET", link)[0], 410)
        self.assertEqual(self.printed("players", "invites"), "no open invites\n")
        self.assertIn("Cleo", self.printed("players", "list"))

    def test_revoke(self) -> None:
        """A revoked link admits no player, and cannot be revoked again."""
        invited = json.loads(self.printed("players", "invite", "--json"))
        self.assertIn("revoked", self.printed("players", "revoke-invite", invited["id"]))
        self.assertEqual(self.request("GET", invited["url"])[0], 410)
        self.assertIn("no open invite", self.refused("players", "revoke-invite", invited["id"]))
        self.assertIn("no open invite", self.refused("players", "revoke-invite", "x"))

    def test_reset_link(self) -> None:
        """The link sets the password once and ends every session, as `players password` does."""
        session = json.loads(self.printed("players", "token", "Anna", "--json"))
        link = self.link("players", "reset-link", "Anna")
        self.assertEqual(self.use(link, password="battery staple"), 200)
        self.assertEqual(self.request("GET", link)[0], 410)
        status, problem = send(self.port, "GET", "/auth/sessions", session["access_token"])
        self.assertEqual((status, problem["code"]), (401, "session_revoked"))

    def test_refusals(self) -> None:
        """A player without an account or who is blocked gets no link, and the options are checked."""
        self.assertIn("There is no player", self.refused("players", "reset-link", "nobody"))
        self.printed("players", "block", "Anna")
        self.assertIn("blocked", self.refused("players", "reset-link", "Anna"))
        for expires in ("0s", "91d", "soon", "1s", "-1d"):
            self.assertIn("--expires", self.complaint(self.gamed_here("players", "invite", "--expires", expires)))
        for name in ("", "x" * 33, "a\u202eb"):
            self.assertIn("--name", self.complaint(self.gamed_here("players", "invite", "--name", name)))
        self.assertEqual(self.printed("players", "invites"), "no open invites\n")

    def test_log(self) -> None:
        """The log has the commands and the template of the path, but neither a token nor the suggested name."""
        links = [self.link("players", "invite", "--name", "Zora"), self.link("players", "reset-link", "Anna")]
        statuses = [self.request("GET", link)[0] for link in links]
        self.assertEqual(statuses, [200, 200])
        self.assertEqual(self.stop(self.process), 0)
        log = self.output()
        self.assertIn("/auth/invite/{link}", log)
        self.assertIn("/auth/reset/{link}", log)
        for secret in (*(link.rpartition("/")[2] for link in links), "Zora"):
            self.assertNotIn(secret, log)


class AddressTests(CommandTestCase):
    def test_address(self) -> None:
        """A link has the address of public_url; if the server's address is not known, there is no link."""
        process, _ = self.serve()
        self.stop(process)
        (self.data / "gamed.listeners").write_text("unix:/run/gamed.sock\n", "utf-8")
        code, out, err = self.gamed("players", "invite")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("Set public_url", err)
        self.write_config({"mode": "local", "public_url": "https://play.example.org"})
        code, out, err = self.gamed("players", "invite", "--json")
        self.assertEqual(code, 0, err)
        self.assertTrue(json.loads(out)["url"].startswith("https://play.example.org/auth/invite/"))
        self.assertIn("registration is open", err)
        self.assertNotIn(THIS_MACHINE, err)
