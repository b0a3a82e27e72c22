"""Brings the catalogues of gamed/pages/locale up to date with the texts of the templates, the code and the clients.

    python -m tests.pages.make_catalogues [LANG...]

A text that is new stands there with an empty msgstr; one that is not used any more is removed. With languages a
catalogue is begun for each that has none. Afterwards `python -m clients.texts` writes the clients' texts into them.
"""

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

import gamed
from gamed.pages.languages import ENDING, LOCALE

PACKAGE = Path(gamed.__file__).parent
TEMPLATES = PACKAGE / "pages" / "templates"
CLIENTS = PACKAGE.parent / "clients" / "texts.py"
FOLDER = Path(str(LOCALE))
IN_TEMPLATES = {"_": None, "n_": (1, 2)}
IN_CODE = {"text": None, "counted": (1, 2), "gettext": None}
HEADER = """\
# Texts of the pages. The first line of each pair is English; {{names}} in braces stay as they are.
# {checked}
msgid ""
msgstr ""
"Language: {tag}\\n"
"Plural-Forms: {plural}\\n"

"""
PLURALS = {"ar": "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5;"}
"""CLDR's rule: Babel has another one for gettext."""
UNCHECKED = "Not checked by a native speaker."
"""Take this line out of a file once that was done."""


def sources() -> Iterator[tuple[str, int, str | tuple[str, str]]]:
    """Yield each text with the file and line that has it; one with a count has two forms."""
    templates = [(path, "jinja2.ext:babel_extract", IN_TEMPLATES) for path in sorted(TEMPLATES.iterdir())]
    code = [
        (path, "python", IN_CODE)
        for path in (*sorted(PACKAGE.rglob("*.py")), CLIENTS)
        if "gamed.pages." in path.read_text("utf-8") or path.is_relative_to(PACKAGE / "pages")
    ]
    for path, method, keywords in (*templates, *code):
        with path.open("rb") as file:
            options = {
                "trimmed": "false",
                "encoding": "utf-8",
                "silent": "false",
                "trim_blocks": "true",
                "lstrip_blocks": "true",
            }
            for line, message, _, _ in extract(method, file, keywords, options=options):
                if message and message != ("",):
                    yield str(path.relative_to(PACKAGE.parent)), line, message


def template() -> Catalog:
    found = Catalog()
    for name, line, message in sources():
        found.add(message, locations=[(name, line)])
    return found


def updated(tag: str, known: bytes) -> bytes:
    """Return a catalogue with the texts of today, and those translations of `known` that they have."""
    language = tag.replace("-", "_")
    before, after = read_po(BytesIO(known), locale=language), Catalog(locale=language)
    for message in template():
        if message.id:
            one = message.id[0] if isinstance(message.id, tuple) else message.id
            old = before.get(one)
            kept = old.string if old is not None and (old.id == message.id) else None
            after.add(message.id, kept, locations=message.locations)
    written = BytesIO()
    write_po(written, after, width=110, omit_header=True, sort_by_file=True, include_lineno=False)
    checked = UNCHECKED if not known or UNCHECKED.encode() in known else "Checked by a native speaker."
    header = HEADER.format(checked=checked, tag=tag, plural=PLURALS.get(tag, f"{after.plural_forms.rstrip(';')};"))
    return header.encode() + written.getvalue().lstrip(b"\n")


def main(tags: list[str]) -> None:
    there = {path.name.removesuffix(ENDING) for path in FOLDER.glob(f"*{ENDING}")}
    for tag in sorted(there.union(tags)):
        path = FOLDER / f"{tag}{ENDING}"
        path.write_bytes(updated(tag, path.read_bytes() if path.exists() else b""))


if __name__ == "__main__":
    main(sys.argv[1:])
