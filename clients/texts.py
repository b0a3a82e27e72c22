"""The texts of the clients for players; `python -m clients.texts` writes their translations into the clients.

    python -m tests.pages.make_catalogues
    python -m clients.texts

The first command brings the catalogues up to date, where people translate; the second writes what they have into the
file of each client that has texts, between its two marks. A text without a translation stays English.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gamed.account.sentences import ENDED, NOT_SIGNED_IN
from gamed.login.sentences import COMPLETE, PROBLEMS
from gamed.login.sentences import ENDED as ENDED_IN_GAME
from gamed.outcomes import LoginFailure
from gamed.pages.language import ENGLISH, Language
from gamed.pages.languages import RELATED, Languages
from gamed.pages.model import Text, text

CLIENTS: Final = Path(__file__).parent
BEGIN: Final = "Made by clients/texts.py; to change a translation, change gamed/pages/locale"
END: Final = "End of what clients/texts.py made"

DIALOGS: Final = (
    text("Sign in to play"),
    text("How do you want to sign in?"),
    text("Sign in with {provider}"),
    text("Sign in"),
    text("The sign-in continues in your browser."),
    text("The sign-in continues in another tab."),
    text("Open this address in your browser to sign in:"),
    text("Open the page"),
    text("Copy the link"),
    text("Use a phone instead"),
    text("To sign in with a phone, scan this:"),
    text("The link to sign in, as a QR code"),
    text("A browser has used the link already. Continue there, or cancel and sign in again."),
    text("Type the six letters that the sign-in page shows."),
    text("The code has six letters, like BKT-RVW."),
    text("That is not the code. Attempts left: {count}"),
    text("Press Enter to see a code in the browser."),
    text("Show me a code"),
    text("Tell the owner this number:"),
    text("Something went wrong in this game."),
    text("Try again"),
    text("Continue"),
    text("Cancel"),
    text("Close"),
)
"""The texts of the ready dialogs; a client gets those that its scripts have."""

AWAY: Final = text("The server does not answer. Check the connection, or try again later.")
BUSY: Final = text("The server is very busy at the moment. Try again in a minute.")
NO_SERVER: Final = text("There is no server for this game at this address. Check the address.")
NO_ROOM: Final = text("This game cannot store anything on this device. Free some space, then try again.")
SIGNED_OUT: Final = ENDED[LoginFailure.SESSION_REVOKED]
PLAYERS_PROBLEMS: Final[Mapping[str, Sequence[Text]]] = {
    **{outcome.value: lines for outcome, lines in ENDED.items()},
    LoginFailure.REGISTRATION_CLOSED.value: (NOT_SIGNED_IN, ENDED_IN_GAME[LoginFailure.REGISTRATION_CLOSED][1]),
    LoginFailure.LOGIN_CANCELLED.value: (text("The sign-in was cancelled."),),
    **dict.fromkeys(("signed_out", "token_missing", "token_expired", "token_invalid"), SIGNED_OUT),
    **dict.fromkeys(("refresh_expired", "refresh_reused", "refresh_invalid"), SIGNED_OUT),
    **dict.fromkeys(("busy", "shutting_down", "unhealthy", "rate_limited"), (BUSY,)),
    **dict.fromkeys(("not_gamed", "untrusted_address"), (NO_SERVER,)),
    **dict.fromkeys(("local_disk", "disk_full"), (NO_ROOM,)),
    "unreachable": (AWAY,),
    "untrusted_certificate": (
        text("The connection to this server is not safe: its certificate is not valid. Tell the owner of this server."),
    ),
    "in_use": (text("This game is running already, with the same saves."),),
    "store_unavailable": (COMPLETE["store_unavailable"],),
    "storage_full": (COMPLETE["storage_full"],),
    "internal_error": (PROBLEMS["internal_error"],),
}
"""The text of an error with this code for players; of all other errors they read the English detail."""


class Form(Struct, frozen=True):
    """A client's file of texts, the scripts that use them, and how its language writes the five tables."""

    path: str
    scripts: Sequence[str]
    tables: Sequence[str]
    """The lines before each table: `TAGS`, `NAMES`, `RIGHT_TO_LEFT`, `TEXTS`, `PROBLEMS`; "" leaves it out."""
    ends: Sequence[str]
    """The lines after a list, and after a map."""
    lists: tuple[str, str] = ("[", "]")
    pairs: tuple[str, str, str] = ("", ": ", ",")
    indent: str = ""
    step: str = "  "


JAVASCRIPT: Final = Form(
    "js/gamed_texts.mjs",
    ("js/gamed_dialog.mjs", "js/gamed_texts.mjs"),
    (
        "/** @type {Record<string, number>} */\nconst TAGS = {",
        "const NAMES = [",
        "const RIGHT_TO_LEFT = [",
        "/** @type {Record<string, string[]>} */\nconst TEXTS = {",
        "/** @type {Record<string, string[]>} */\nconst PROBLEMS = {",
    ),
    ("]", "}"),
)
PYTHON: Final = Form(
    "python/gamed_client/texts.py",
    ("python/gamed_client/__init__.py", "python/gamed_client/texts.py"),
    (
        "TAGS: dict[str, int] = {",
        "NAMES: list[str] = [",
        "RIGHT_TO_LEFT: list[int] = [",
        "TEXTS: dict[str, list[str]] = {",
        "PROBLEMS: dict[str, list[str]] = {",
    ),
    ("]", "}"),
    step="    ",
)
GODOT: Final = Form(
    "godot4/gamed_texts.gd",
    ("godot4/gamed_dialog.gd", "godot4/gamed_texts.gd"),
    ("const TAGS = {", "", "const RIGHT_TO_LEFT = [", "const TEXTS = {", "const PROBLEMS = {"),
    ("]", "}"),
    step="\t",
)
CSHARP: Final = Form(
    "csharp/GamedTexts.cs",
    ("csharp/GamedClient.cs", "csharp/unity/GamedDialog.cs"),
    (
        "static readonly Dictionary<string, int> Tags = new Dictionary<string, int>\n        {",
        "",
        "static readonly int[] RightToLeft =\n        {",
        "static readonly Dictionary<string, string[]> Texts = new Dictionary<string, string[]>\n        {",
        "static readonly Dictionary<string, string[]> Problems = new Dictionary<string, string[]>\n        {",
    ),
    ("};", "};"),
    lists=("new[] { ", " }"),
    pairs=("{ ", ", ", " },"),
    indent=" " * 8,
    step="    ",
)
FORMS: Final = (JAVASCRIPT, PYTHON, GODOT, CSHARP)


def made(form: Form) -> str:
    """Return the client's file as it should be."""
    path = CLIENTS / form.path
    lines = path.read_text("utf-8").split("\n")
    begin = next(number for number, line in enumerate(lines) if BEGIN in line)
    end = next(number for number, line in enumerate(lines) if END in line)
    return "\n".join([*lines[: begin + 1], *_tables(form), *lines[end:]])


def main() -> None:
    for form in FORMS:
        (CLIENTS / form.path).write_text(made(form), "utf-8")


def _tables(form: Form) -> Iterator[str]:
    known = Languages()
    languages = [known.get(tag) for tag in sorted(tag for tag, _ in known.names if tag != ENGLISH.tag)]
    names = [language.tag for language in languages]
    problems = {code: [line.source for line in lines] for code, lines in PLAYERS_PROBLEMS.items()}
    turned = [number for number, language in enumerate(languages) if language.direction == "rtl"]
    texts = {source: _translations(source, languages) for source in sources(form)}
    tables: Sequence[Mapping[str, object] | Sequence[object]] = (_tags(names), names, turned, texts, problems)
    for begin, table in zip(form.tables, tables, strict=True):
        if not begin:
            continue
        yield from (form.indent + begin).split("\n")
        if isinstance(table, Mapping):
            before, between, after = form.pairs
            for name, value in table.items():
                yield f"{form.indent}{form.step}{before}{_quoted(name)}{between}{_written(form, value)}{after}"
        else:
            yield f"{form.indent}{form.step}{', '.join(map(_quoted, table))},"
        yield form.indent + form.ends[isinstance(table, Mapping)]


def sources(form: Form) -> list[str]:
    """Return the texts that a client can show: those of its scripts, and those of problems."""
    scripts = "".join((CLIENTS / name).read_text("utf-8") for name in form.scripts)
    head, _, rest = scripts.partition(BEGIN)
    scripts = head + rest.partition(END)[2]
    shown = [each.source for each in DIALOGS if _quoted(each.source) in scripts]
    return list(dict.fromkeys([*shown, *(line.source for lines in PLAYERS_PROBLEMS.values() for line in lines)]))


def _translations(source: str, languages: Sequence[Language]) -> list[str]:
    """Return the text in each language; "" where it has no translation."""
    found = [language.gettext(source) for language in languages]
    return ["" if translated == source else translated for translated in found]


def _tags(names: Sequence[str]) -> dict[str, int]:
    """Return the number of the language for each tag, in small letters; -1 is English."""
    numbers = {name.lower(): number for number, name in enumerate(names)}
    ours = {name.split("-")[0] for name in numbers}
    related = {tag: numbers.get(other.lower(), -1) for tag, other in RELATED.items() if tag.split("-")[0] in ours}
    return dict(sorted((numbers | related).items()))


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _written(form: Form, value: object) -> str:
    if not isinstance(value, list):
        return _quoted(value)
    begin, end = form.lists
    return begin + ", ".join(map(_quoted, value)) + end


if __name__ == "__main__":
    sys.exit(main())
