#!/usr/bin/env python3
"""The client for Godot 3, made of the scripts of the client for Godot 4: see --help.

The scripts may use what both languages have, and what this file translates: types and names of classes (Godot 3 gets
none: its games preload the scripts), `await`, connecting and emitting signals, and the names below. What else differs
is in the class Platform of gamed.gd, which platform.gd replaces. A construct that Godot 3 lacks is an error with its
file and line.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER.parent / "godot4"
COPIED_BY_GAMES = ("gamed.gd", "gamed_dialog.gd", "gamed_sync.gd", "gamed_assets.gd", "gamed_texts.gd")
SCRIPTS = [SOURCE / name for name in (*COPIED_BY_GAMES, "gamed_autoload.gd", "driver.gd", "example.gd")]
AS_THEY_ARE = (SOURCE / "plugin.cfg", FOLDER / "plugin.gd", FOLDER / "project.godot")
HEADER = "# For Godot 3.2 and later. Made of {} by clients/godot3/generate.py.\n"

NAMES = """FileAccess File, JavaScriptBridge JavaScript, PRESET_FULL_RECT PRESET_WIDE, PackedByteArray PoolByteArray,
    PackedStringArray PoolStringArray, RefCounted Reference, STATUS_TLS_HANDSHAKE_ERROR STATUS_SSL_HANDSHAKE_ERROR,
    TCPServer TCP_Server, TYPE_FLOAT TYPE_REAL, custom_minimum_size rect_min_size, get_length get_len, is_empty empty,
    is_started is_active, max_fps target_fps, process_frame idle_frame, reverse invert, text_submitted text_entered,
    to_ascii_buffer to_ascii, to_utf8_buffer to_utf8, unicode_at ord_at, uri_encode percent_encode,
    Time.get_ticks OS.get_ticks"""
RENAMED = dict(pair.split() for pair in NAMES.split(","))
PAUSE = 'yield(Platform.frame(), "completed")\n'
"""Godot 3 can only wait for a function that has paused, so one that would end without a wait waits for a frame."""
SIGNALS = {
    r"^(\t*(?:.+\.)?)(\w+)\.emit\((.+)\)": r'\1emit_signal("\2", \3)',
    r"^(\t*(?:.+\.)?)(\w+)\.connect\((\w+)\)": r'\1connect("\2", self, "\3")',
    r"^(\t*(?:.+\.)?)(\w+)\.connect\((\w+)\.bind\((.+)\)\)": r'\1connect("\2", self, "\3", [\4])',
}
REFUSED = {
    r"[\s\S](?<!^static )\bfunc\b": "lambdas. Write a function with a name",
    r"\b(?:Array|Dictionary)\[": "typed arrays or dictionaries. Leave out the type of the elements",
    r"\bsuper\b": "super. Give the function of the other class its own name",
    r"@\w|\bstatic var\b|^var\b.*:\s*(?:$|[sg]et\b)": "annotations, static variables or properties. Use functions",
    r"\*\*|[&^r]§": "`**`, StringNames, NodePaths or raw strings. Spell them out",
    r"^(?:if|elif|else|for|while|match|class|func|static func)\b[\s\S]*[^:]$": "a block on one line. Break the line",
    r"\bnot in\b|\bis not\b": "`not in` or `is not`. Write `not a in b`",
    r"§\.join\(|(?<!Platform)\.slice\(|\bOS\.(?:get_name|execute|has_feature)\b": "a call that differs. Use Platform",
    r"\.(?:connect|emit)\((?!\")": "a signal in this form. Connect a function of this object, on a line of its own",
    r"\b(?:Callable|DirAccess|JSON|Packed\w+|Signal|TLSOptions|TextServer|Time)\b|\bFile\.[a-z]": "this. Use Platform",
}
"""Forms that are left after the translation of names and signals, and that Godot 3 does not have."""

LITERAL = re.compile(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*', re.DOTALL)
EXAMPLE = re.compile(r"(\t*# {5,})(.*(?:await |\.connect\().*\n)")
FUNCTION = re.compile(r"(?:static )?func (\w+)")
TYPE = r"[A-Za-z_][\w.]*"
INSIDE = r"[^()\[\]]*"
for _depth in range(5):
    INSIDE = rf"(?:[^()\[\]]|[(\[]{INSIDE}[)\]])*"
AWAIT = re.compile(rf"\bawait\s+(?=((?:\({INSIDE}\)|\w+)(?:\.\w+|[(\[]{INSIDE}[)\]])*))")
OPERAND = re.compile(rf"(?:(?P<owner>.*)\.)?(?P<name>\w+)(?P<call>\({INSIDE}\))?", re.DOTALL)
UNSURE = re.compile(r"\s(?:if|else|and|or)\s|^elif\b")
OF_GAMES = re.compile(r"choose_provider|finish_code|problem|call|do_\w+")
"""Functions of a game that may be coroutines: those of the person of a sign-in, and the commands of the driver."""


class Line(NamedTuple):
    """A statement, with its brackets closed. In `code` a § stands for each text, and a ¶ for each comment."""

    place: str
    code: str
    literals: list[str]

    @property
    def depth(self) -> int:
        return len(self.code) - len(self.code.lstrip("\t"))

    @property
    def words(self) -> str:
        return self.code.replace("¶", "").strip()

    def text(self, code: str) -> str:
        """Return code with its texts and comments."""
        literals = iter(self.literals)
        return re.sub("[§¶]", lambda _: next(literals), code)


class GenerateError(Exception):
    """A script that cannot be translated."""

    def __init__(self, line: Line, text: str) -> None:
        super().__init__(f"{line.place}: {text}.")


def lines_of(path: str, text: str) -> list[Line]:
    lines, number, begun, literals = [], 1, "", iter(LITERAL.findall(text))
    for part in LITERAL.sub(lambda literal: "¶" if literal[0][0] == "#" else "§", text).splitlines(keepends=True):
        begun += part
        if sum(map(begun.count, "([{")) == sum(map(begun.count, ")]}")):
            own = [next(literals) for _ in range(begun.count("§") + begun.count("¶"))]
            lines.append(Line(f"{path}:{number}", begun, own))
            number += lines[-1].text(begun).count("\n")
            begun = ""
    return lines


def awaits(line: Line, code: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return each `await`, with its operand as the group 1, and the operand's owner, name and call."""
    found = [(match, operand) for match in AWAIT.finditer(code) if (operand := OPERAND.fullmatch(match[1]))]
    if len(found) < len(re.findall(r"\bawait\b", code)):
        raise GenerateError(line, "Only a function or a signal can be awaited")
    return found


def coroutines(lines: Sequence[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Yield the name of each function that has an `await`, and its lines but those that are blank or a comment."""
    written = [line for line in lines if line.words]
    for at, line in enumerate(written):
        if found := FUNCTION.match(line.words):
            after = (end for end in range(at + 1, len(written)) if written[end].depth <= line.depth)
            function = written[at : next(after, len(written))]
            if any(awaits(each, each.words) for each in function):
                yield found[1], function


def early_ends(lines: Sequence[Line]) -> tuple[list[Line], bool]:
    """Return the lines on which a function returns before it has waited, and whether its end can be reached so."""
    early = []

    def depth_of(at: int) -> int:
        return lines[at].depth if at < len(lines) else -1

    def block(at: int, waited: bool, breaks: list[bool]) -> tuple[int, bool]:
        """Follow the block that begins at `at`; return where it ends, and whether all ways to that end have waited."""
        depth = depth_of(at)
        while depth_of(at) == depth:
            line, words = lines[at], lines[at].words
            keyword = re.split(r"\W", words)[0]
            waited = waited or surely_waits(line)
            at += 1
            if keyword in ("return", "break", "continue"):
                if keyword == "return" and not waited:
                    early.append(line)
                if keyword == "break":
                    breaks.append(waited)
                waited = True  # no way leads on from here
            elif depth_of(at) > depth:
                ends: list[bool] = []
                at, end = block(at, waited, ends if keyword in ("for", "while") else breaks)
                while keyword == "if" and depth_of(at) == depth and lines[at].words.startswith(("elif", "else")):
                    ends.append(end)
                    words = lines[at].words
                    at, end = block(at + 1, waited, breaks)
                if words == "while true:" or (words == "else:" and end):
                    waited = all(ends)
        return at, waited

    return early, not block(1, False, [])[1]


def surely_waits(line: Line) -> bool:
    """An `await` beside `and`, `or` or in an `if` expression may be left out; a function of a game may not wait."""
    words = line.words
    return any(
        not (OF_GAMES.fullmatch(operand["name"]) or UNSURE.search(words[: match.start()] + words[match.end(1) :]))
        for match, operand in awaits(line, words)
    )


class Client:
    """The scripts of the client for Godot 4 by their paths, and the class Platform for Godot 3."""

    def __init__(self, scripts: dict[str, str], platform: str) -> None:
        self.scripts = {path: lines_of(path, text) for path, text in scripts.items()}
        self.platform = re.sub(r"(?m)^(?=.)", "\t", platform.replace("\n\n\n", "\n\n")) + "\n\n"
        lines = [line for lines in self.scripts.values() for line in lines]
        self.awaited = {each["name"] for line in lines for _, each in awaits(line, line.words) if each["call"]}
        self.waiting = {name for name, _ in coroutines(lines)}

    def translated(self, path: str) -> str:
        """Return a script for Godot 3; raise GenerateError."""
        parts, in_platform = [HEADER.format(path)], False
        returns, ends = self.early_ends(path)
        for line in self.scripts[path]:
            in_platform = in_platform and (line.depth > 0 or line.code == "\n")
            if line.words == "class Platform:":
                in_platform = True
                parts.append(line.code + self.platform)
            elif not in_platform and not line.words.startswith("class_name "):
                parts.append(self.paused_return(line) if line.place in returns else self.statement(line))
                parts.append(ends.get(line.place, ""))
        return "".join(parts)

    def early_ends(self, path: str) -> tuple[set[str], dict[str, str]]:
        """Return the places of each `return` before a wait, and of the last lines of functions with the pause after."""
        early, pauses = set(), {}
        for name, function in coroutines(self.scripts[path]):
            if (name in self.awaited or name[0] != "_") and not OF_GAMES.fullmatch(name):
                returns, end = early_ends(function)
                early |= {line.place for line in returns}
                if end:
                    pauses[function[-1].place] = "\t" * (function[0].depth + 1) + PAUSE
        return early, pauses

    def paused_return(self, line: Line) -> str:
        """Translate a `return` with a pause after its value, which may change something that others read meanwhile."""
        tabs, code = "\t" * line.depth, line.code.replace("return", "var early =", 1)
        if line.words == "return":
            return tabs + PAUSE + self.statement(line)
        return f"{self.statement(line._replace(code=code))}{tabs}{PAUSE}{tabs}return early\n"

    def statement(self, line: Line) -> str:
        if example := EXAMPLE.fullmatch(line.text(line.code)):
            [shown] = lines_of(line.place, example[2])
            return example[1] + self.statement(shown._replace(place=line.place))
        if line.code.startswith("@warning_ignore(§) "):  # Godot 3 warns of less
            return self.statement(line._replace(code=line.code.partition(" ")[2], literals=line.literals[1:]))
        code = re.sub(r"\w+(?:\.get_ticks)?", lambda word: RENAMED.get(word[0], word[0]), line.code)
        for pattern, form in SIGNALS.items():
            code = re.sub(pattern, form, code)
        words = code.replace("¶", "").strip()
        for pattern, text in REFUSED.items():
            if re.search(pattern, words):
                raise GenerateError(line, f"A script for both engines cannot have {text}")
        code = re.sub(rf"^(\t*(?:(?:var|const) \w+|for \w+(?=: {TYPE} in\b))): {TYPE}", r"\1", code.replace(":=", "="))
        if FUNCTION.match(words) or words.startswith("signal "):
            code = re.sub(rf"(\w): {TYPE}", r"\1", re.sub(rf" -> {TYPE}:", ":", code))
            code = re.sub(r"\(\n\t+(.*)\n\t*\)", r"(\1)", code)
        return line.text(self.yielded(line, code))

    def yielded(self, line: Line, code: str) -> str:
        """Translate `await`, the last one first, as one can be in the brackets of another."""
        more = ""
        while found := awaits(line, code):
            match, operand = found[-1]
            before, name, after = code[: match.start()], operand["name"], code[match.end(1) :]
            if not operand["call"]:
                code = f'{before}yield({operand["owner"] or "self"}, "{name}"){after}'
            elif OF_GAMES.fullmatch(name):
                if not (declared := re.fullmatch(r"\t*var (\w+) = ", before)) or after.strip(" ¶\n"):
                    raise GenerateError(line, f"{name} may wait or not. Declare a variable with what it returns")
                tabs, value = "\t" * line.depth, declared[1]
                more = f'{tabs}if {value} is GDScriptFunctionState:\n{tabs}\t{value} = yield({value}, "completed")\n'
                code = before + match[1] + after
            elif name in self.waiting:
                code = f'{before}yield({match[1]}, "completed"){after}'
            else:
                raise GenerateError(line, f"{name} does not wait. Leave out the await")
        return code + more


def scripts(*others: Path) -> dict[str, str]:
    """Return the scripts for Godot 3 by their names: those of the client, and others that use it."""
    paths = {path.relative_to(FOLDER.parents[1]).as_posix(): path for path in (*SCRIPTS, *others)}
    platform = (FOLDER / "platform.gd").read_text("utf-8")
    client = Client({name: path.read_text("utf-8") for name, path in paths.items()}, platform)
    return {path.name: client.translated(name) for name, path in paths.items()}


def files() -> dict[str, bytes]:
    """Return all files of the client for Godot 3 by their names."""
    made = {name: text.encode() for name, text in scripts().items()}
    return made | {path.name: path.read_bytes() for path in AS_THEY_ARE}


def main(arguments: Sequence[str] | None = None) -> None:
    top = argparse.ArgumentParser(prog="generate.py", description="Write the client for Godot 3 into a folder.")
    top.add_argument("folder", type=Path, metavar="FOLDER", help="where the files go: into a game, for example")
    top.add_argument("--all", action="store_true", help="also those of the add-on, the example and the driver")
    options = top.parse_args(arguments)
    try:
        made = files()
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(made) if options.all else COPIED_BY_GAMES:
            (options.folder / name).write_bytes(made[name])
    except (GenerateError, OSError) as error:
        sys.exit(f"generate.py: {error}")


if __name__ == "__main__":
    main()
