"""The languages of a server's pages, and the choice of one for each request.

A catalogue of ours is read at its first use, which takes 3 ms, so that a server keeps only the languages in use.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from gettext import c2py
from importlib.resources import files
from re import ASCII, compile
from typing import Final

import msgspec
from twisted.logger import Logger

from gamed.config.look import TAG_CHARACTERS, is_tag
from gamed.event_log import EventLog
from gamed.pages.catalogue import Catalogue, CatalogueError, read_catalogue
from gamed.pages.language import ENGLISH, Forms, Language

LOCALE: Final = files("gamed.pages") / "locale"
ENDING: Final = ".po"
NEUTRAL: Final = Forms(
    name="",
    day="{year}-{month}-{day}",
    day_of_year="{year}-{month}-{day}",
    months=[f"{month:02}" for month in range(1, 13)],
)
"""The forms of a language that an owner has added, and forms.json does not know."""
HEADER_CHARACTERS: Final = 512
"""The part of Accept-Language that is read; browsers send about 40."""
RELATED: Final = {
    "in": "id",
    "iw": "he",
    "nn": "nb",
    "no": "nb",
    "pt": "pt-BR",
    "tl": "fil",
    "zh": "zh-Hans",
    "zh-cn": "zh-Hans",
    "zh-hant": "zh-Hant",
    "zh-hk": "zh-Hant",
    "zh-mo": "zh-Hant",
    "zh-sg": "zh-Hans",
    "zh-tw": "zh-Hant",
}
"""Other tags by which browsers and systems ask for a language."""
_WEIGHT = compile(r"[01](?:\.[0-9]{0,3})?", ASCII)
"""RFC 9110, 12.4.2."""
_log = EventLog(Logger())


class Languages:
    """The languages of a server: ours, and those that the owner has added or corrected."""

    def __init__(self, own: Mapping[str, bytes] | None = None, default: str | None = None) -> None:
        """Take the owner's files by name; one that cannot be used is left out, and named by an event."""
        self._own: dict[str, Catalogue] = {}
        for name, raw in (own or {}).items():
            try:
                self._own[tag_of(name)] = read_catalogue(raw)
            except CatalogueError as e:
                _log.warn("language_left_out", file=name, detail=e)
        self._default = default
        self._loaded: dict[str, Language] = {}
        self._forms: Mapping[str, Forms] | None = None
        built_in = {each.name.removesuffix(ENDING) for each in LOCALE.iterdir() if each.name.endswith(ENDING)}
        self._tags: Mapping[str, str] = {tag.lower(): tag for tag in {ENGLISH.tag, *built_in, *self._own}}

    @cached_property
    def names(self) -> Sequence[tuple[str, str]]:
        """Return each language's tag and its name for itself, in the order of the names."""
        named = [(tag, self._forms_of(tag).name or tag) for tag in self._tags.values()]
        return sorted(named, key=lambda pair: pair[1].casefold())

    def get(self, tag: str) -> Language:
        """Return a language by one of the tags of `names`."""
        if tag not in self._loaded:
            self._loaded[tag] = self._load(tag)
        return self._loaded[tag]

    def find(self, tag: str) -> str | None:
        """Return the tag of the language for this one, from the closest to the most general (RFC 4647, 3.4)."""
        if len(tag) > TAG_CHARACTERS:
            return None
        rest = tag.replace("_", "-").lower()
        while rest:
            found = self._tags.get(rest) or self._tags.get(RELATED.get(rest, "").lower())
            if found is not None:
                return found
            if rest in RELATED:  # zh-TW is not zh: better the next language that the person reads
                return None
            rest = rest.rpartition("-")[0]
        return None

    def choose(self, chosen: str, locale: str | None, accepted: str) -> Language:
        """Return the language of a page: the person's choice, else that of the game that asks, else what the browser
        accepts (Accept-Language, RFC 9110, 12.5.4), else the server's, else English."""
        for tag in (chosen if chosen in self._tags.values() else "", locale or ""):
            if tag and (found := self.find(tag)):
                return self.get(found)
        found = next(filter(None, map(self.find, accepted_tags(accepted))), None)
        return self.get(found or self.find(self._default or "") or ENGLISH.tag)

    def _load(self, tag: str) -> Language:
        catalogues = [self._own[tag]] if tag in self._own else []
        file = LOCALE / f"{tag}{ENDING}"
        if file.is_file():
            catalogues.append(read_catalogue(file.read_bytes()))
        forms = self._forms_of(tag)
        return Language(tag, forms, c2py(forms.plural), catalogues)

    def _forms_of(self, tag: str) -> Forms:
        if tag == ENGLISH.tag:
            return ENGLISH.forms
        if self._forms is None:
            raw = (LOCALE / "forms.json").read_bytes()
            self._forms = msgspec.json.decode(raw, type=dict[str, Forms])
        return self._forms.get(tag, NEUTRAL)


def check_catalogue(name: str, raw: bytes) -> tuple[int, int]:
    """Return how many texts a file has, and how many of them no page has; raise CatalogueError."""
    tag_of(name)
    texts = read_catalogue(raw).texts
    known = read_catalogue((LOCALE / f"de{ENDING}").read_bytes()).texts  # each of ours has all texts
    return len(texts), len(texts.keys() - known.keys())


def tag_of(name: str) -> str:
    """Return the language of a catalogue by the name of its file; raise CatalogueError."""
    tag = name.removesuffix(ENDING)
    if not is_tag(tag):
        raise CatalogueError("name the file by its language, such as de.po or pt-BR.po")
    return tag


def accepted_tags(header: str) -> Sequence[str]:
    """Return the tags of Accept-Language, the preferred one first, without those that are refused by q=0."""
    weighed = []
    for each in header[:HEADER_CHARACTERS].split(","):
        tag, *parameters = (part.strip() for part in each.split(";"))
        weight = next((part[2:] for part in parameters if part[:2].lower() == "q="), "1")
        if is_tag(tag) and _WEIGHT.fullmatch(weight) and float(weight) > 0:
            weighed.append((float(weight), tag))
    return [tag for _, tag in sorted(weighed, key=lambda pair: -pair[0])]
