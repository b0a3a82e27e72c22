"""The member `look` gives the pages a colour and a picture; both are validated before any browser gets them (SPEC 2.1).

A picture is inert: an SVG of shapes alone, without script, style, text, reference and document type, or a PNG.
"""

from collections.abc import Callable
from posixpath import dirname, join
from re import ASCII, compile
from typing import Final
from xml.parsers import expat

from gamed.config.errors import InvalidValue
from gamed.config.json_reader import ObjectReader
from gamed.config.model import Look, Mark
from gamed.config.secrets import ReadFile

MEMBERS = ("accent", "mark", "welcome", "contact", "language")
WELCOME_CHARACTERS: Final = 280
CONTACT_CHARACTERS: Final = 200
TAG_CHARACTERS: Final = 35
"""The length of a language tag that software must accept (RFC 5646, 4.4.1)."""
MARK_BYTES: Final = 32 * 1024
MARK_PIXELS: Final = 1024
PAGES: Final = {"light": "#ffffff", "dark": "#1b2229"}
"""The two colours on which a button stands, as the style sheet of the pages has them."""
LEAST_CONTRAST: Final = 2.0
"""A button also has a border with 3:1 (WCAG 2.2, 1.4.11), and a label with 4.5:1 (1.4.3), which is black or white."""
PNG: Final = b"\x89PNG\r\n\x1a\n"
SVG: Final = "http://www.w3.org/2000/svg"
_ELEMENTS = """
svg g path rect circle ellipse line polyline polygon title desc defs linearGradient radialGradient stop clipPath
"""
_ATTRIBUTES = """
id version viewBox preserveAspectRatio x y width height rx ry cx cy r fx fy x1 y1 x2 y2 d points transform role
fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-miterlimit
stroke-dasharray stroke-dashoffset opacity color clip-path clip-rule clipPathUnits
offset stop-color stop-opacity gradientUnits gradientTransform spreadMethod
"""
ELEMENTS: Final = frozenset(_ELEMENTS.split())
ATTRIBUTES: Final = frozenset(_ATTRIBUTES.split())
_ACCENT = compile(r"#(?:[0-9A-Fa-f]{3}){1,2}", ASCII)
_PLAIN = compile(r"[-+.,#%() A-Za-z0-9\t\r\n]*", ASCII)
_TAG = compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}", ASCII)
_LOCAL = compile(r"url\(#[A-Za-z][A-Za-z0-9_-]{0,63}\)", ASCII)


def parse_look(section: ObjectReader, read_file: ReadFile, file: str) -> Look | None:
    """Return the look; None without the member. The path of the mark is relative to the configuration `file`."""
    if not section.members:
        return None
    section.reject_unknown(MEMBERS)
    mark = section.value("mark", _mark_reader(read_file, dirname(file)), None)
    return Look(
        section.value("accent", accent, None),
        mark,
        section.value("welcome", welcome, None),
        section.value("contact", contact, None),
        section.value("language", language, None),
    )


def welcome(value: object) -> str:
    """Return the owner's words for the page of the server's address; raise InvalidValue."""
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= WELCOME_CHARACTERS or not value.isprintable():
        raise InvalidValue(f"expected one line of 1 to {WELCOME_CHARACTERS} characters")
    return value.strip()


def contact(value: object) -> str:
    """Return an address for questions; raise InvalidValue if it is not an https or mailto URL (RFC 6068)."""
    text = value if isinstance(value, str) and len(value) <= CONTACT_CHARACTERS else ""
    scheme, _, rest = text.partition(":")
    whole = {"https": rest.startswith("//") and len(rest.split("/")[2]) > 0, "mailto": "@" in rest[1:-1]}
    if not whole.get(scheme) or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidValue('expected an address such as "mailto:anna@example.org" or "https://example.org/contact"')
    return text


def is_tag(text: str) -> bool:
    """Return whether a text has the form of a language tag for pages, such as `de`, `pt-BR` or `zh-Hans` (BCP 47)."""
    return len(text) <= TAG_CHARACTERS and _TAG.fullmatch(text) is not None


def language(value: object) -> str:
    """Return the tag of a language; raise InvalidValue."""
    if not isinstance(value, str) or not is_tag(value):
        raise InvalidValue('expected a language such as "de" or "pt-BR"')
    return value


def accent(value: object) -> str:
    """Return a colour as `#22aa77`; raise InvalidValue if a button of that colour does not stand out on a page."""
    if not isinstance(value, str) or not _ACCENT.fullmatch(value):
        raise InvalidValue('expected a colour such as "#2a7" or "#22aa77"')
    digits = value[1:].lower() if len(value) == 7 else "".join(2 * digit for digit in value[1:].lower())
    colour = f"#{digits}"
    for name, page in PAGES.items():
        ratio = contrast(colour, page)
        if ratio < LEAST_CONTRAST:
            change = "darker" if name == "light" else "lighter"
            raise InvalidValue(
                f"has a contrast of {ratio:.2f}:1 with the {name} page, below {LEAST_CONTRAST:.0f}:1; "
                f"choose a {change} colour"
            )
    return colour


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours `#rrggbb`, from 1 to 21 (WCAG 2.2)."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mark_reader(read_file: ReadFile, folder: str) -> Callable[[object], Mark]:
    def read(value: object) -> Mark:
        if not isinstance(value, str) or not value.isprintable() or not value.lower().endswith((".svg", ".png")):
            raise InvalidValue('expected the name of a file that ends in ".svg" or ".png"')
        try:
            content = read_file(join(folder, value))
        except OSError as e:
            raise InvalidValue(f"the file cannot be read: {e.strerror}") from None
        if len(content) > MARK_BYTES:
            raise InvalidValue(f"the file is larger than {MARK_BYTES // 1024} KiB; use a smaller picture")
        if value.lower().endswith(".png"):
            check_png(content)
            return Mark("image/png", content)
        check_svg(content)
        return Mark("image/svg+xml", content)

    return read


def check_png(content: bytes) -> None:
    """Check that the content is a PNG of at most 1024 x 1024 pixels; raise InvalidValue."""
    if not content.startswith(PNG) or content[8:16] != b"\x00\x00\x00\x0dIHDR" or b"IEND" not in content[-12:]:
        raise InvalidValue("the file is not a whole PNG; export the picture as PNG again")
    sides = (int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big"))
    if not all(1 <= side <= MARK_PIXELS for side in sides):
        raise InvalidValue(f"the picture is not between 1 and {MARK_PIXELS} pixels wide and high")


def check_svg(content: bytes) -> None:
    """Check that the content is an SVG of shapes alone; raise InvalidValue, which names what has to go."""
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    checker = _SvgChecker()
    parser.StartElementHandler = checker.start
    parser.EndElementHandler = checker.end
    parser.CharacterDataHandler = checker.text
    parser.XmlDeclHandler = checker.declaration
    parser.StartNamespaceDeclHandler = checker.namespace
    parser.StartDoctypeDeclHandler = lambda *_: _refuse("a document type")
    parser.EntityDeclHandler = lambda *_: _refuse("an entity")
    parser.ProcessingInstructionHandler = lambda *_: _refuse("a processing instruction")
    try:
        content.decode("utf-8")
        parser.Parse(content, True)
    except UnicodeDecodeError:
        raise InvalidValue("the SVG is not UTF-8; save it with that encoding") from None
    except expat.ExpatError as e:
        raise InvalidValue(f"the SVG is not well-formed XML: line {e.lineno}; export it again") from None


class _SvgChecker:
    """The handlers of one parse; each raises InvalidValue for what an inert SVG does not need."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if namespace != SVG or local not in ELEMENTS or (local == "svg") is bool(self._open):
            _refuse(f"the element <{_shown(local)}>")
        self._open.append(local)
        for attribute, value in attributes.items():
            if attribute not in ATTRIBUTES:
                _refuse(f"the attribute {_shown(attribute.rpartition(' ')[2])}")
            local_reference = attribute in {"fill", "stroke", "clip-path"} and _LOCAL.fullmatch(value)
            plain = _PLAIN.fullmatch(value) and "url" not in value.lower()
            if not local_reference and not plain and not (attribute == "id" and _LOCAL.fullmatch(f"url(#{value})")):
                _refuse(f"this value of the attribute {attribute}")

    def end(self, name: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        if data.strip() and self._open[-1] not in {"title", "desc"}:
            _refuse("text outside <title> and <desc>")

    def declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if (encoding or "utf-8").lower() != "utf-8":
            _refuse("another encoding than UTF-8")

    def namespace(self, prefix: str | None, uri: str | None) -> None:
        if uri != SVG:
            _refuse("another namespace than that of SVG")


def _refuse(what: str) -> None:
    raise InvalidValue(f"the SVG has {what}, which a plain picture does not need; remove it, or use a PNG")


def _shown(name: str) -> str:
    return name if len(name) <= 32 and name.isprintable() else "?"
