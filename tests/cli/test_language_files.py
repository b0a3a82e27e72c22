"""The owner's texts of pages lie beside the configuration: they are shown, and an error in them is reported."""

from contextlib import closing
from http.client import HTTPConnection

from tests.cli.process import LOCAL, WAIT_SECONDS, CommandTestCase

HEADER = 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
OWN = f'{HEADER}msgid "Sign in"\nmsgstr "Rein da"\n'
ADDED = f'{HEADER}msgid "Your account"\nmsgstr "Ditt konto"\n\nmsgid "Gone"\nmsgstr "Borta"\n'
WRONG = f'{HEADER}msgid "Hello, {{name}}"\nmsgstr "Hallo, {{nom}}"\n'


class LanguageFileTests(CommandTestCase):
    def write(self, name: str, text: str) -> None:
        self.config.with_name(name).write_text(text, "utf-8")

    def page(self, port: int, path: str, accepted: str, cookie: str = "") -> tuple[str, str]:
        """Return the page, and the cookie that was set with a redirect."""
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)) as connection:
            fields = {"Accept-Language": accepted, "Accept": "text/html", "Cookie": cookie}
            connection.request("GET", path, headers=fields)
            answer = connection.getresponse()
            return answer.read().decode(), answer.headers["Set-Cookie"] or ""

    def test_shown(self) -> None:
        """Pages have the owner's texts, ours where there is none, and the languages that the owner adds."""
        self.write_config({**LOCAL, "look": {"language": "sv"}})
        self.write("de.po", OWN)
        self.write("sv.po", ADDED)
        code, out, _ = self.gamed("check", "config")
        self.assertEqual(code, 0)
        self.assertIn("de.po is valid: 1 text\n", out)
        self.assertIn("sv.po is valid: 2 texts, of which the pages of this version lack 1", out)
        process, port = self.serve()
        self.assertIn("Rein da", self.page(port, "/auth/account", "de-AT,en;q=0.5")[0])
        self.assertIn("Dein Konto", self.page(port, "/auth/account", "de")[0])
        for accepted in ("sv", "", "tlh"):
            self.assertIn("Ditt konto", self.page(port, "/auth/account", accepted)[0])
        _, chosen = self.page(port, "/auth/language/sv/account", "de")
        self.assertRegex(chosen, "^language=sv; Path=/; HttpOnly; SameSite=Lax; Max-Age=")
        self.assertIn("Ditt konto", self.page(port, "/auth/account", "de", chosen.partition(";")[0])[0])
        self.assertEqual(self.stop(process), 0)

    def test_wrong(self) -> None:
        """`check config` reports each file that cannot be used; the server leaves it out, and says so."""
        self.write_config({**LOCAL, "look": {"language": "tlh"}})
        self.write("de.po", WRONG)
        self.write("texts.de.po", OWN)
        code, _, err = self.gamed("check", "config")
        self.assertEqual(code, 78)
        german, named, unknown = err.splitlines()
        self.assertIn("de.po: line 4: the placeholders of the text are {name}; use exactly these", german)
        self.assertIn("texts.de.po: name the file by its language, such as de.po or pt-BR.po", named)
        self.assertIn("look.language: there are no texts in tlh; add tlh.po", unknown)
        process, port = self.serve()
        self.assertIn("Dein Konto", self.page(port, "/auth/account", "de")[0])
        self.assertIn("Your account", self.page(port, "/auth/account", "")[0])
        self.assertEqual(self.stop(process), 0)
        self.assertIn('language_left_out file=de.po detail="line 4: ', self.output())
