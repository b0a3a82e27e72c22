"""The Jinja2 environment: it escapes every value, and a value that is missing is an error.

Imported in the first idle moment after the start or by the first page (gamed.ops.late_modules), never by a command.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gamed.pages.catalogue import split_placeholders
from gamed.pages.language import Language, fill_plain
from gamed.pages.model import MARK_PATH, Counted, Text
from gamed.timestamps import rfc3339

ICONS: Final = files("gamed.pages") / "icons"
WHOLE_CHARACTERS: Final = 16
T = TypeVar("T")
Labelled = Iterator[tuple[T, str]]
FACES: Final = 8
"""The colours of the circles with a player's initial, .face-0 and on in style.css."""


@cache
def shared_environment() -> Environment:
    """Return the environment of this process: nothing in it differs between two servers, and compiling takes 0.2 s."""
    return new_environment()


def new_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gamed", "pages/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        cache_size=-1,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shapes = {icon.name.removesuffix(".svg"): _shape(icon.read_text("utf-8")) for icon in ICONS.iterdir()}
    environment.filters["unbroken"] = _unbroken
    environment.globals.update(icon=lambda name: shapes[name], face=_face, mark_path=MARK_PATH, rfc3339=rfc3339)
    return environment


def _shape(svg: str) -> Markup:
    """Return the inline element of an icon's file, which no screen reader reads."""
    inner = svg[svg.index(">") + 1 : svg.rindex("</svg>")].strip()
    return Markup(f'<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">{inner}</svg>')


def _unbroken(heading: Markup) -> Markup:
    """Return a heading whose short words with a hyphen, such as sign-in, stay on one line."""
    whole = Markup('<span class="whole">{}</span>')
    words = [
        whole.format(Markup(word))
        if "-" in word and len(word) <= WHOLE_CHARACTERS and "<" not in word
        else Markup(word)
        for word in str(heading).split(" ")
    ]
    return Markup(" ").join(words)


def _face(player_id: str) -> str:
    """Return the class of a player's colour."""
    return f"face-{sha256(player_id.encode()).digest()[0] % FACES}"


def words(language: Language, now_ms: int) -> dict[str, Any]:
    """Return the functions by which a template writes texts, ages and sizes."""

    def fill(filled: str, **values: object) -> Markup:
        """Return the text with values as markup: a value that is none is escaped, in an element of its own (bdi)."""
        pieces = [
            Markup("").join((piece, "" if name is None else _in_text(values[name], language)))
            for piece, name in split_placeholders(filled)
        ]
        return Markup("").join(pieces)

    def plain(filled: str, **values: object) -> str:
        """Return the text with values for an attribute; of markup it takes the text, which is escaped once then."""
        texts = {name: each.striptags() if isinstance(each, Markup) else each for name, each in values.items()}
        return fill_plain(filled, language, texts)

    def say(shown: Text | Counted) -> Markup:
        """Return a text that a feature handed over; a value may be such a text again."""
        if isinstance(shown, Counted):
            return fill(language.ngettext(shown.one, shown.many, shown.count), count=shown.count)
        values = {name: say(each) if isinstance(each, Text | Counted) else each for name, each in shown.values.items()}
        return fill(language.gettext(shown.source), **values)

    def labelled(items: Iterable[T], names: Iterable[Text | str | None], otherwise: str = "") -> Labelled[T]:
        """Yield each item with its name as plain text, numbered after an equal one.

        No two buttons may have one name.
        """
        counts: Counter[str] = Counter()
        for item, name in zip(items, names, strict=True):
            given = plain(language.gettext(name.source), **name.values) if isinstance(name, Text) else name
            label = given or otherwise
            counts[label] += 1
            yield item, label if counts[label] == 1 else f"{label} ({counts[label]})"

    return {
        "language": language,
        "_": language.gettext,
        "n_": language.ngettext,
        "say": say,
        "fill": fill,
        "plain": plain,
        "labelled": labelled,
        "age": lambda instant_ms: language.age(instant_ms, now_ms),
        "day": lambda instant_ms: language.day(instant_ms, now_ms),
        "number": language.number,
        "size": language.size,
        "duration": language.duration,
    }


def _in_text(value: object, language: Language) -> Markup:
    if isinstance(value, Markup):
        return value
    if isinstance(value, int):
        return Markup.escape(language.number(value))
    return Markup("<bdi>{}</bdi>").format(value)
