"""The forms of messages, and names that players chose to do more than name them."""

import json
from email.header import decode_header, make_header
from unicodedata import category

from hypothesis import given
from hypothesis.strategies import text
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import NotifyFormat
from gamed.notify.format_rules import NAME_CHARACTERS, encode, header_text, plain_name
from gamed.notify.model import BACKUP, MOST_NOTICES, WAITING, Notice, NoticeState

HOSTILE = (
    "@everyone",
    "@here",
    "<!channel>",
    "<!everyone>",
    "<@80351110224678912>",
    "<@&7>",
    "<https://evil.example|click>",
    "[click](https://evil.example)",
    "https://evil.example",
    "**bold** `code` ~~x~~ ||y||",
    "a\r\nTitle: forged\r\n\r\nbody",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "a\u2028b\x00c\x1b[31m",
    "&lt;&amp;",
    "\\",
    "x" * 65536,
    "\ud800",
)


def notice(*names: str) -> Notice:
    return Notice(WAITING, NoticeState.BAD, "1 player waits for your approval. (See: gamed)", names)


def discord(*notices: Notice, server: str = "Garden") -> dict[str, object]:
    message = encode(NotifyFormat.DISCORD, server, notices)
    found: dict[str, object] = json.loads(message.body)
    return found


def shown_by_discord(content: str) -> str:
    """Return what Discord shows of a content in which every sign has a backslash before it."""
    shown, signs = "", iter(content)
    for sign in signs:
        shown += next(signs) if sign == "\\" else sign
    return shown


class DiscordTests(SynchronousTestCase):
    def test_form(self) -> None:
        """A message mentions nobody, has no previews, and shows the sentence as it is."""
        found = discord(notice("Anna", "Bo"))
        self.assertEqual((found["allowed_mentions"], found["flags"]), ({"parse": []}, 4))
        shown = "Garden: 1 player waits for your approval. (See: gamed) New: Anna, Bo"
        self.assertEqual(shown_by_discord(str(found["content"])), shown)

    def test_hostile_names(self) -> None:
        """Each sign of a name has a backslash before it, so that none is markup, a mention or a link."""
        for name in HOSTILE:
            content = str(discord(notice(name))["content"]).removeprefix("Garden: ")
            plain = content.replace("\\\\", "").replace("\n", "")
            for sign in "@<>*_~`|[]():#/":
                self.assertEqual(plain.count(sign), plain.count(f"\\{sign}"), (name, sign))

    def test_longest(self) -> None:
        """The longest message has fewer than 2,000 characters."""
        names = ["@" * NAME_CHARACTERS] * 50
        longest = Notice(WAITING, NoticeState.BAD, "x" * 130, names)
        others = [Notice(BACKUP, NoticeState.BAD, "y" * 130)] * (MOST_NOTICES - 1)
        content = discord(longest, *others, server="~" * 64)["content"]
        self.assertLess(len(str(content)), 2000)


class SlackTests(SynchronousTestCase):
    def test_hostile_names(self) -> None:
        """No name has one of the three signs that Slack reads, nor the @ that Mattermost reads."""
        for name in HOSTILE:
            found = json.loads(encode(NotifyFormat.SLACK, "A & B", [notice(name)]).body)
            self.assertFalse(found["unfurl_links"] or found["mrkdwn"])
            self.assertTrue(found["text"].startswith("A &amp; B: 1 player"))
            self.assertTrue(set("<>@").isdisjoint(found["text"]), name)
            rest = found["text"].replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
            self.assertNotIn("&", rest)


class NtfyTests(SynchronousTestCase):
    def test_form(self) -> None:
        """The sentences are the content as plain text, and the server's name is the title."""
        message = encode(NotifyFormat.NTFY, "Garden", [notice("Zoë"), notice()])
        self.assertEqual(message.headers, {"Content-Type": "text/plain; charset=utf-8", "Title": "Garden"})
        sentence = "1 player waits for your approval. (See: gamed)"
        self.assertEqual(message.body.decode(), f"{sentence} New: Zoë\n{sentence}")

    def test_hostile_names(self) -> None:
        """No name reaches a header, and none makes a further line of the content."""
        for name in HOSTILE:
            message = encode(NotifyFormat.NTFY, "Garden", [notice(name)])
            self.assertEqual(message.headers["Title"], "Garden")
            self.assertEqual(message.body.decode().count("\n"), 0, name)

    def test_title(self) -> None:
        """A title with other letters is encoded words of at most 75 characters, which mean the same again."""
        for title in ("Größer als Gärten", "庭" * 64, "=?UTF-8?B?eA==?=", "🌱 Garten", "a\r\nX-Y: z"):
            encoded = header_text(title)
            self.assertTrue(encoded.isascii() and encoded.isprintable(), encoded)
            self.assertLessEqual(max(map(len, encoded.split(" "))), 75)
            self.assertEqual(str(make_header(decode_header(encoded))), title)

    @given(text())
    def test_any_title(self, title: str) -> None:
        """No text makes a second header field, or one that is not ASCII."""
        encoded = header_text(title)
        self.assertTrue(encoded.isascii() and (encoded.isprintable() or not encoded))


class JsonTests(SynchronousTestCase):
    def test_form(self) -> None:
        """A program gets each notice with what it is about, and names as they are shown."""
        found = json.loads(encode(NotifyFormat.JSON, "", [notice("<b>Anna</b>"), notice()]).body)
        sentence = "1 player waits for your approval. (See: gamed)"
        members = {"about": "waiting", "state": "bad", "text": sentence}
        self.assertEqual(
            found,
            {
                "server": "gamed",
                "text": f"{sentence} New: <b>Anna</b>\n{sentence}",
                "notices": [members | {"names": ["<b>Anna</b>"]}, members | {"names": []}],
            },
        )

    def test_size(self) -> None:
        """Fifty names of 64 KB make a small message."""
        for form in NotifyFormat:
            self.assertLess(len(encode(form, "Garden", [notice(*["@" * 65536] * 50)]).body), 4096, form)


class NameTests(SynchronousTestCase):
    def test_kept(self) -> None:
        """Names of people stay as they are."""
        for name in ("Anna", "Zoë 2", "李小龍", "محمد", "O'Neil-Smith", "🦊"):
            self.assertEqual(plain_name(name), name)

    @given(text())
    def test_any_name(self, name: str) -> None:
        """No name has a line end, a control, or a character that changes the direction of other text."""
        shown = plain_name(name)
        self.assertLessEqual(len(shown), NAME_CHARACTERS)
        self.assertFalse({category(each) for each in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"})

    def test_nothing_left(self) -> None:
        """A name of which nothing is shown is left out."""
        text = json.loads(encode(NotifyFormat.JSON, "", [notice("\u202e", "Bo")]).body)["text"]
        self.assertTrue(text.endswith("New: Bo"), text)
