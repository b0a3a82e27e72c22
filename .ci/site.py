"""mkdocs calls these functions: they add the pages outside of docs/ to the site, and adapt links and lists.

The pages are written for GitHub and for readers of the checkout. mkdocs knows only docs/, and its Markdown needs a
blank line before a list and four spaces before what belongs to an item. A link to a file that is not a page becomes
plain text, because the site has no sources. The home page begins with the README's top. A picture with `-light` in its
name becomes two, where there is one with `-dark`.
"""

import re
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
OUTSIDE = ("*.md", "bench/*.md", "clients/*.md", "clients/*/*.md", "examples/*/*.md")
PLACE = "project"
"""The folder of the site for the pages outside of docs/."""
LOOK = {"mark.svg": "gamed/pages/mark.svg", "site.css": ".ci/site.css"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^]]*\](?:\([^)]*\))?)*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r'(<(?:img|source) [^>]*?\b(?:src|srcset)=")(?!\w+:)([^"]+)(")')
LIGHT = re.compile(r'(?<!-dark\.png">)<img [^>]*?\bsrc="([^"]+)-light\.png"[^>]*>')
ITEM = re.compile(r"( *)(?:[-*]|\d+\.) ")
FENCE = re.compile(r" *```")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and the look that the site shares with the server's pages."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, f"{PLACE}/{name}", content=path.read_text("utf-8")))
    for name, source in LOOK.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the text of a page."""
    uri = page.file.src_uri
    text = with_links(markdown, uri, place_in_checkout(uri), files)
    if uri == "README.md":
        top = (ROOT / "README.md").read_text("utf-8").partition("\n## Read on\n")[0]
        text = with_links(top, uri, "README.md", files) + "\n#" + text
    return with_lists(text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the dark one of two pictures where the system is dark, as the site itself is then."""

    def both(match: re.Match[str]) -> str:
        dark = f"{match[1]}-dark.png"
        if files.get_file_from_path(normpath(PurePosixPath(page.file.src_uri).parent / dark)) is None:
            return match[0]
        return f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">{match[0]}</picture>'

    return LIGHT.sub(both, html)


def place_in_checkout(uri: str) -> str:
    """Return the path in the checkout of a page of the site."""
    path = PurePosixPath(uri)
    return path.relative_to(PLACE).as_posix() if path.parts[0] == PLACE else f"docs/{uri}"


def with_links(markdown: str, uri: str, place: str, files: Files) -> str:
    """Point each link at the site's page, or replace it by its text if the site does not have that file.

    `uri` is the page of the site that shows the text, `place` the file in the checkout that has it.
    """
    folder = PurePosixPath(place).parent

    def target(match: re.Match[str]) -> str:
        mark, text, path, anchor = match[1], LINK.sub(target, match[2]), match[3], match[4] or ""
        if not path:
            return f"{mark}[{text}]({anchor})"
        name = normpath(folder / path)
        name = f"{name}/README.md" if (ROOT / name / "README.md").is_file() else name
        found = name.removeprefix("docs/") if name.startswith("docs/") else f"{PLACE}/{name}"
        if files.get_file_from_path(found) is None:
            return text
        return f"{mark}[{text}]({relpath(found, PurePosixPath(uri).parent)}{anchor})"

    def picture(match: re.Match[str]) -> str:
        found = normpath(folder / match[2]).removeprefix("docs/")
        return f"{match[1]}{relpath(found, PurePosixPath(uri).parent)}{match[3]}"

    markdown = PICTURE.sub(picture, markdown)
    parts = re.split(r"(?ms)(^ *```.*?^ *```$)", markdown)
    return "".join(part if index % 2 else LINK.sub(target, part) for index, part in enumerate(parts))


def with_lists(markdown: str) -> str:
    """Put a blank line before each list, and indent what belongs to an item by four spaces."""
    lines: list[str] = []
    before, width, fenced, loose = "", 0, False, False
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip())
        item = None if fenced else ITEM.match(line)
        if item and not item[1]:
            if before.strip() and (not width or loose or FENCE.match(before)):
                lines.append("")
            width, loose = item.end(), False
        elif line and not indent and not fenced:
            width = 0
        loose |= width > 0 and not line.strip()  # such an item has paragraphs, and the next one needs a blank line, too
        shift = 4 - width if width and indent >= width else 0
        lines.append(" " * max(shift, 0) + line)
        fenced ^= FENCE.match(line) is not None
        before = line
    return "\n".join(lines) + "\n"
