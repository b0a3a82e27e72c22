"""Every shell block of a page is run by a test, or its page says why not; the commands of gamed that pages name exist.

A comment on the line before a block says which: `<!-- run by tests.readme.test_saves_page -->` or
`<!-- not run: needs a domain -->`. With the word `all`, as in `<!-- all run by ... -->`, it holds for all blocks of the
page that have no comment of their own.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from gamed.cli.commands import gamed
from tests.support.commands import members
from tests.test_spec import ROOT

FOLDERS = ("docs", "clients", "examples", "bench")
SHELLS = {"sh", "bash", "console", "shell", "zsh", "powershell", "bat", "cmd"}
FENCE = re.compile(r"( *)```(\w*)")
COMMENT = re.compile(r" *<!-- (all )?(run by|not run:) (.+) -->")
PROGRAM = re.compile(r"(?m)^\s*(?:\$ |sudo |gamed |gamedctl |curl |apt-get |pip |git clone |docker |systemctl )")
"""How a line begins that people paste into a shell."""
BLOCK_OF_FRESH = re.compile(r"""block (\S+) ("[^"]+"|'[^']+')""")
CALL = re.compile(r"(?m)(?:^|[;|&(`]|\bsudo |/bin/) *(?:gamed|gamedctl) ([^\n|;&()`#<>]+)")
ON_PATH = re.compile(r"PATH=|apt-get install -y \./gamed_|pipx install ")
HOW_TO_CALL = "#how-to-call-gamed"
SPAN = re.compile(r"`((?:sudo )?gamed(?:ctl)? [^`\n]+)`")


class Block(Struct, frozen=True):
    """A fenced block of a page, with the comment that holds for it."""

    page: str
    line: int
    language: str
    text: str
    how: str
    """`run by`, `not run:` or nothing."""
    word: str
    """The program that runs it, or the reason why it is not run."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the pages of the project, without those of installed packages."""
    found = [page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md") if "node_modules" not in page.parts]
    return sorted([*ROOT.glob("*.md"), *found])


def blocks(page: str, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    before = every = fence = None
    begin, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if fence is None:
            if (fence := FENCE.fullmatch(line)) is not None:
                begin, lines = number, []
            elif (comment := COMMENT.fullmatch(line)) is not None:
                before, every = (before, comment) if comment[1] else (comment, every)
            elif line.strip():
                before = None
        elif line == f"{fence[1]}```":
            comment = before or every
            how, word = (comment[2], comment[3]) if comment else ("", "")
            yield Block(page, begin, fence[2], "\n".join(lines), how, word)
            before = fence = None
        else:
            lines.append(line.removeprefix(fence[1]))


def complaint(block: Block) -> str | None:
    """Return what is wrong with a block, or None."""
    if block.language not in SHELLS:
        return f"{block}: give this block a language" if not block.language and PROGRAM.match(block.text) else None
    if block.how == "not run:":
        return None
    if not block.how:
        return f"{block}: write `<!-- run by ... -->` or `<!-- not run: ... -->` above this block"
    path = block.word if block.word.startswith(".") else f"{block.word.replace('.', '/')}.py"
    if not (ROOT / path).is_file():
        return f"{block}: {block.word} is not a file"
    source = (ROOT / path).read_text("utf-8")
    if block.page not in source:
        return f"{block}: {block.word} does not name this page"
    words = [quoted[1:-1] for page, quoted in BLOCK_OF_FRESH.findall(source) if page == block.page]
    if path == ".ci/fresh" and not any(word in block.text for word in words):
        return f"{block}: {path} does not run this block"
    return None


def calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of gamed in a block or in a sentence."""
    for arguments in CALL.findall(text.replace("\\\n", " ")):
        try:
            yield shlex.split(arguments)
        except ValueError:
            yield arguments.split()


def unknown(arguments: list[str]) -> str | None:
    """Return the command or the option that gamed does not have, or None."""
    command: click.Command = gamed
    options = {option for parameter in gamed.params for option in parameter.opts} | {"--help", "--version"}
    for argument in arguments:
        if argument == "--":
            return None
        if argument.startswith("--"):
            if argument.partition("=")[0].rstrip(".,") not in options:
                return argument
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]+", argument):
            if (inner := dict(members(command)).get(argument)) is None:
                return argument
            command = inner
            options |= {option for parameter in inner.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return None


def is_lost(text: str) -> bool:
    """Return whether a page calls `gamed` alone, and neither puts it on the path nor links to what else to write."""
    shell = "\n".join(block.text for block in blocks("", text) if block.language in SHELLS)
    before, alone, _ = f"\n{shell}".partition("\ngamed ")
    return bool(alone) and not ON_PATH.search(before) and HOW_TO_CALL not in text


class PageCommandTests(SynchronousTestCase):
    def setUp(self) -> None:
        texts = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in pages()}
        self.blocks = [block for page, text in texts.items() for block in blocks(page, text)]

    def test_every_block_is_run_or_marked(self) -> None:
        """Each shell block names the test that runs it, or the reason why none does."""
        self.assertEqual([found for block in self.blocks if (found := complaint(block))], [])
        self.assertGreater(sum(block.how == "run by" for block in self.blocks), 20)

    def test_commands_exist(self) -> None:
        """Each command and each option of gamed in a shell block exists, whether a test runs the block or not."""
        shell = [block for block in self.blocks if block.language in SHELLS]
        wrong = [f"{block}: {name}" for block in shell for call in calls(block.text) if (name := unknown(call))]
        self.assertEqual(wrong, [])

    def test_gamed_is_on_the_path(self) -> None:
        """A page for owners that calls `gamed` alone has put it on the path, or links to what else to write."""
        owners = sorted((ROOT / "docs" / "owners").glob("*.md"))
        lost = [page.name for page in owners if is_lost(page.read_text("utf-8")) and page.name != "commands.md"]
        self.assertEqual(lost, [])
        for text, found in (
            ("```sh\ngamed serve\n```", True),
            ("```sh\ngamed serve\nexport PATH=/opt/gamed/bin:$PATH\n```", True),
            ("```sh\nexport PATH=/opt/gamed/bin:$PATH\ngamed serve\n```", False),
            ("[how](commands.md#how-to-call-gamed)\n```sh\ngamed serve\n```", False),
            ("```sh\n.venv/bin/gamed serve\n```", False),
            ("```\ngamed serve\n```", False),
        ):
            self.assertEqual(is_lost(text), found, text)

    def test_commands_in_sentences(self) -> None:
        """Each command and each option of gamed in code font exists; the changes name also what was removed."""
        named = [page for page in pages() if page.name != "CHANGELOG.md"]
        texts = [(page.relative_to(ROOT).as_posix(), page.read_text("utf-8")) for page in named]
        spans = [(page, span) for page, text in texts for span in SPAN.findall(text)]
        wrong = [f"{page}: {span}" for page, span in spans for call in calls(span) if unknown(call)]
        self.assertEqual(wrong, [])
        self.assertGreater(len(spans), 50)

    def test_planted_blocks(self) -> None:
        """A block without a comment, with a comment too far above, or with a test that does not name the page fails."""
        for text, found in (
            ("```sh\nls\n```", True),
            ("<!-- not run: needs a domain -->\n```sh\nls\n```", False),
            ("<!-- not run: needs a domain -->\n\n```sh\nls\n```", False),
            ("<!-- not run: needs a domain -->\nText.\n```sh\nls\n```", True),
            ("<!-- all not run: needs a domain -->\n# A\n```sh\nls\n```", False),
            ("<!-- not run: one -->\n```sh\nls\n```\n```sh\nls\n```", True),
            ("1. A\n   <!-- not run: one -->\n   ```sh\n   ls\n   ```", False),
            ("<!-- run by tests.nowhere -->\n```sh\nls\n```", True),
            ("<!-- run by tests.test_layout -->\n```sh\nls\n```", True),
            ("<!-- run by .ci/fresh -->\n```sh\nls\n```", True),
            ("<!-- run by tests.readme.test_transcript -->\n```sh\nls\n```", False),
            ("```\ngamed serve\n```", True),
            ("```\nok\n```", False),
            ("```json\n{}\n```", False),
        ):
            self.assertEqual([bool(complaint(block)) for block in blocks("README.md", text)][-1], found, text)

    def test_planted_calls(self) -> None:
        """A command or an option that does not exist is found, in any place of a line."""
        for text, name in (
            ("gamed serve --data DIR", None),
            ("/opt/gamed/bin/gamed --data DIR players list --pending", None),
            ("sudo gamedctl player list", "player"),
            ("echo x | gamed players add anna --pasword-stdin", "--pasword-stdin"),
            ("$(gamed key old)", "old"),
            ("gamed backup \\\n    --kept 3 DIR", "--kept"),
        ):
            [call] = calls(text)
            self.assertEqual(unknown(call), name, text)
