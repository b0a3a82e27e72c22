"""The licences of the libraries that gamed needs, as a page; `python -m tests.packaging.licences` writes it."""

from collections.abc import Iterator
from importlib.metadata import metadata

from tests.packaging.environments import ROOT
from tests.packaging.test_constraints import pins

PAGE = ROOT / "docs/internals/licences.md"
BEGIN = "| Library | Version | Licence (SPDX) |\n| --- | --- | --- |\n"
CLASSIFIERS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
}
READ = {"fido2": "BSD-2-Clause AND Apache-2.0 AND MPL-2.0", "jinja2": "BSD-3-Clause", "segno": "BSD-3-Clause"}
"""Libraries whose metadata name a family of licences only; the text of the licence was read."""
FIELDS = {"BSD-3-Clause", "MIT"}
"""Values of the older free text that are SPDX identifiers."""


def expression(name: str) -> str:
    """Return the SPDX expression of an installed library; raise LookupError if its metadata have none."""
    if name in READ:
        return READ[name]
    found = metadata(name)
    if stated := found.get("License-Expression"):
        return stated
    if (text := found.get("License")) in FIELDS:
        return str(text)
    known = [CLASSIFIERS[each] for each in found.get_all("Classifier") or [] if each in CLASSIFIERS]
    if len(known) != 1:
        raise LookupError(f"{name}: look up its licence, and extend CLASSIFIERS or FIELDS")
    return known[0]


def rows() -> Iterator[str]:
    """Yield a row for each library that constraints.txt pins."""
    for name, (version, _) in sorted(pins().items()):
        yield f"| {name} | {version} | {expression(name)} |\n"


def table() -> str:
    return BEGIN + "".join(rows())


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text("utf-8").partition(BEGIN)[0] + table(), "utf-8")
