"""The member `look` takes a colour that can be seen, and a picture that can do nothing (SPEC 2.1)."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.paths import read_regular
from gamed.config.look import ATTRIBUTES, ELEMENTS, MARK_BYTES, contrast
from gamed.config.model import Look, Mark
from tests.config.fixtures import load_config

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">%b</svg>'
SHAPES = SVG % (
    b'<title>A &amp; B</title><defs><linearGradient id="g"><stop offset="0" stop-color="#fff"/></linearGradient></defs>'
    b'<g transform="translate(1,2) scale(.5)"><path fill="url(#g)" stroke="currentColor" d="M0 0h8v8z"/></g>'
)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\0\x40\0\0\0\x40" + b"\1\0\0\0\0" + b"0000" + b"\0\0\0\0IENDaaaa"


def hostile() -> dict[str, bytes]:
    """Return SVG files that a browser would not only draw, by what is wrong with them."""
    svg = '<svg xmlns="http://www.w3.org/2000/svg"'
    inside = {
        "script": "<script>alert(1)</script>",
        "handler": '<path onload="alert(1)"/>',
        "style element": "<style>path{fill:url(https://evil.example/)}</style>",
        "style attribute": '<path style="fill:url(//evil.example)"/>',
        "image": '<image href="https://evil.example/a.png"/>',
        "use": '<use href="#a"/>',
        "link": '<a href="javascript:alert(1)"><path/></a>',
        "page inside": "<foreignObject><p/></foreignObject>",
        "animation": '<animate attributeName="href" to="javascript:alert(1)"/>',
        "set": '<set attributeName="onload" to="alert(1)"/>',
        "outside reference": '<path fill="url(https://evil.example/a.svg#b)"/>',
        "outside reference in upper case": '<path fill="URL(//evil.example)"/>',
        "escaped reference": '<path fill="&#117;rl(//evil.example)"/>',
        "two references": '<path fill="url(#a) url(#b)"/>',
        "text": "<text>words</text>",
        "words": "words",
        "nested": "<svg/>",
        "processing instruction": "<?xml-stylesheet href='a.css'?>",
        "section of characters": "<path><![CDATA[x]]></path>",
        "other namespace": '<h:script xmlns:h="http://www.w3.org/1999/xhtml"/>',
        "other default namespace": '<script xmlns="http://www.w3.org/1999/xhtml"/>',
        "reference of another namespace": '<path xmlns:x="http://www.w3.org/1999/xlink" x:href="#a"/>',
        "base": '<path xml:base="https://evil.example/"/>',
        "unknown entity": "<title>&evil;</title>",
        "not closed": "<g>",
        "deep": "<g>" * 3000,
    }
    files = {name: f"{svg}>{content}</svg>".encode() for name, content in inside.items()}
    laughs = '<!DOCTYPE svg [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    return files | {
        "document type": f"<!DOCTYPE svg>{svg}/>".encode(),
        "entities": f"{laughs}{svg}><title>&b;</title></svg>".encode(),
        "outside entity": f'<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>{svg}><title>&a;</title></svg>'.encode(),
        "stylesheet": f'<?xml-stylesheet href="https://evil.example/a.css"?>{svg}/>'.encode(),
        "other encoding": f'<?xml version="1.0" encoding="UTF-7"?>{svg}/>'.encode(),
        "UTF-16": f"{svg}/>".encode("utf-16"),
        "Latin-1": f"{svg}><title>\xe4</title></svg>".encode("latin-1"),
        "no namespace": b"<svg/>",
        "another root": b'<g xmlns="http://www.w3.org/2000/svg"/>',
        "a web page": b"<!DOCTYPE html><script>alert(1)</script>",
        "a picture": PNG,
        "nothing": b"",
        "two roots": f"{svg}/>{svg}/>".encode(),
        "handler at the root": f'{svg} onload="alert(1)"/>'.encode(),
    }


class LookCase(SynchronousTestCase):
    def look(self, members: object, **files: bytes) -> Look | None:
        config = {"mode": "local", "look": members}
        return load_config(
            config, files={name.replace("_", "."): content for name, content in files.items()}
        ).config.look

    def refused(self, members: object, **files: bytes) -> str:
        with self.assertRaises(Exception) as caught:
            self.look(members, **files)
        self.assertEqual(type(caught.exception).__name__, "ConfigError")
        return str(caught.exception)


class LookTests(LookCase):
    def test_accent(self) -> None:
        """A colour of three or six digits is read; without the member there is no look."""
        self.assertEqual(self.look({"accent": "#2a7"}), Look("#22aa77"))
        self.assertEqual(self.look({"accent": "#C0392B"}), Look("#c0392b"))
        self.assertIsNone(load_config({"mode": "local"}).config.look)

    def test_contrast(self) -> None:
        """The contrast is that of WCAG."""
        self.assertEqual(contrast("#000000", "#ffffff"), 21)
        self.assertEqual(contrast("#777777", "#777777"), 1)
        self.assertAlmostEqual(contrast("#777777", "#ffffff"), 4.48, places=2)

    def test_a_colour_that_is_not_seen(self) -> None:
        """A colour too near the light or the dark page is refused with its ratio and the direction to go."""
        self.assertIn("look.accent: has a contrast of 1.07:1 with the light page", self.refused({"accent": "#ff0"}))
        self.assertIn("choose a darker colour", self.refused({"accent": "#fff"}))
        dark = self.refused({"accent": "#000"})
        self.assertIn("with the dark page, below 2:1; choose a lighter colour", dark)

    def test_not_a_colour(self) -> None:
        """Any other value is refused with an example."""
        for value in ("red", "#12", "#1234", "#12345g", "2a7", "#2a7;}", 7, None, ["#2a7"], "#\u0662\u0662\u0662"):
            self.assertIn('expected a colour such as "#2a7"', self.refused({"accent": value}))
        self.assertIn("accnt", self.refused({"accnt": "#2a7"}))

    def test_mark(self) -> None:
        """An SVG of shapes and a PNG are read from beside the configuration file."""
        self.assertEqual(self.look({"mark": "a.svg"}, a_svg=SHAPES), Look(mark=Mark("image/svg+xml", SHAPES)))
        self.assertEqual(self.look({"mark": "a.png"}, a_png=PNG), Look(mark=Mark("image/png", PNG)))
        declared = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><!-- made by hand -->' + SHAPES
        self.assertEqual(self.look({"mark": "a.svg"}, a_svg=declared), Look(mark=Mark("image/svg+xml", declared)))

    def test_hostile_svg(self) -> None:
        """An SVG with anything but shapes is refused with a reason."""
        for name, content in hostile().items():
            message = self.refused({"mark": "a.svg"}, a_svg=content)
            self.assertRegex(message, r"look\.mark: the (SVG (has|is not)|file is larger)", name)

    def test_no_element_or_attribute_acts(self) -> None:
        """The lists of what is allowed hold nothing that acts, refers or styles."""
        self.assertEqual(
            [name for name in ATTRIBUTES if name.startswith("on") or "href" in name or name == "style"], []
        )
        acting = {"script", "style", "image", "use", "a", "foreignObject", "animate", "set", "text", "filter", "iframe"}
        self.assertEqual(acting & ELEMENTS, set())

    def test_broken_png(self) -> None:
        """A file that is not a whole PNG of a fitting size is refused."""
        for content in (b"", b"GIF89a", SHAPES, PNG[:30], PNG[:8] + PNG[12:]):
            self.assertIn("not a whole PNG", self.refused({"mark": "a.png"}, a_png=content))
        for sides in (b"\0\0\0\0\0\0\0\1", b"\0\0\x04\x01\0\0\0\1", b"\xff" * 8):
            self.assertIn("1024 pixels", self.refused({"mark": "a.png"}, a_png=PNG[:16] + sides + PNG[24:]))

    def test_size_and_name(self) -> None:
        """A file over 32 KiB, of another kind, or that is missing is refused."""
        full = SHAPES + b" " * (MARK_BYTES - len(SHAPES))
        self.assertIsNotNone(self.look({"mark": "a.svg"}, a_svg=full))
        self.assertIn("larger than 32 KiB", self.refused({"mark": "a.svg"}, a_svg=full + b" "))
        self.assertIn("cannot be read", self.refused({"mark": "missing.svg"}))
        for name in ("a.gif", "a", "", 7, None, "a.svg\n", "a\0.svg"):
            self.assertIn('ends in ".svg" or ".png"', self.refused({"mark": name}))

    def test_only_regular_files(self) -> None:
        """A folder and a device are refused, and reading them does not block."""
        folder = Path(self.mktemp())
        folder.mkdir()
        with self.assertRaises(OSError):
            read_regular(str(folder))
        with self.assertRaisesRegex(OSError, "not a regular file"):
            read_regular("/dev/null")
        (folder / "a.svg").write_bytes(SHAPES)
        self.assertEqual(read_regular(str(folder / "a.svg")), SHAPES)


class WordTests(LookCase):
    def test_read(self) -> None:
        """The words and the address are read."""
        words = {"welcome": " Be kind. ", "contact": "mailto:anna@example.org"}
        self.assertEqual(self.look(words), Look(welcome="Be kind.", contact="mailto:anna@example.org"))
        self.assertEqual(self.look({"contact": "https://example.org/a?b"}), Look(contact="https://example.org/a?b"))

    def test_refused(self) -> None:
        """Other schemes, relative addresses, several lines and long texts are refused."""
        for wrong in (
            "javascript:alert(1)",
            "http://example.org",
            "//example.org",
            "https:",
            "https:///x",
            "mailto:a",
            "mailto:@b",
            "https://a b",
            "https://a\u00e4.example",
            "https://a\n",
            "https://" + "a" * 200,
            "",
            1,
        ):
            self.assertIn("look.contact: expected an address", self.refused({"contact": wrong}))
        for wrong in ("", " ", "a\nb", "\u202eabc", "x" * 281, 1, None):
            self.assertIn("look.welcome: ", self.refused({"welcome": wrong}))
