"""Every compiled pattern of the package does work in proportion to its text, whatever the text is.

A pattern that backtracks without bound stops the reactor's thread, and with it the server, at one request.
"""

import ast
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from re import Pattern, _constants, _parser, compile  # type: ignore[attr-defined]
from subprocess import PIPE, Popen
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.route_compiler import _pattern
from gamed.http.site import _wildcard
from tests.support.pattern_growth import LENGTH, LINEAR

ROOT = Path(__file__).parent.parent
EXPONENTIAL = compile(r"(?:a|a?b?)+c")
QUADRATIC = compile(r"[ab]*a*c")

Text = tuple[str, str, str]
"""Head, repeated unit, tail."""

TEXTS: Mapping[str, Collection[Text]] = {
    "gamed.assets.paths:_SIMPLE": [
        ("", "a", "\0"), ("", " ", "\0"), ("", "a/", "\0"), ("", "a./", "/"), ("con", " ", "a"), ("", "con ", "."),
        ("", "aux /", "\0"), ("", ". ", " "),
    ],
    "gamed.assets.manifest:_CHANNEL": [("a", "-", "A")],
    "gamed.assets.manifest:_MEDIA_TYPE": [
        ("a/b", ";", ""), ("a/b", "; a=b", ";"), ("", "a", ""), ("a/", "a", "@"), ("a/b", "; ", "@"),
    ],
    "gamed.assets.manifest:_RELEASE": [("r", "0", "")],
    "gamed.assets.manifest:_SHA256": [("", "0", "g")],
    "gamed.database.backup_format:_INSTANT": [("2026-11-22T", "0", "Z")],
    "gamed.database.backup_format:_NAME": [("gamed-", "0", "Z")],
    "gamed.database.backup_format:_PART": [(".gamed-", "0", ".part")],
    "gamed.database.backup_format:_SHA256": [("", "0", "g")],
    "gamed.database.backup_format:_WORD": [("", "a", " ")],
    "gamed.database.postgresql.dump:_VERSION": [
        ("(PostgreSQL) 1", "0", "x"), ("", "(PostgreSQL) ", ""), ("", "(PostgreSQL", "")
    ],
    "gamed.cli.checks.doctor_local:_STAMP": [("", "1", "T"), ("20261001T", "1", "Z")],
    "gamed.cli.service.listen:_ESCAPE": [("", "\\", ""), ("", "a", "\\")],
    "gamed.cli.service.listen:_PIECE": [("", "a", "\\"), ("", "\\a", "\\"), ("", ":", "\\")],
    "gamed.cli.service.listen:_ADDRESS": [("", "1", "a"), ("[", ":", "]"), ("", "1.", "a"), ("[::1]:", "1", "a")],
    "gamed.cli.service.listen:_BARE_IPV6": [("", "a", ""), ("tcp:", "1", "a"), ("tcp:1:interface=", ":", "!")],
    "gamed.cli.data.save_archive:_NAME": [("saves/", "a", ""), ("saves/a/1", "0", "a")],
    "gamed.cli.data.save_archive:_FOLDER": [("saves/", "a", ""), ("saves/", "/", "")],
    "gamed.cli.setup.samples:_PLAIN_PATH": [("", "a", " "), ("/", "./", "$")],
    "gamed.cli.context:_ID": [("ply_", "a", "!")],
    "gamed.ops.listeners:_NAMED": [("", "a", ""), ("", "_", ":"), ("a", "0", "")],
    "gamed.ops.listeners:_PIECE": [("", "a", ""), ("", "\\", ""), ("a", "\\:", ":"), ("", ":", "")],
    "gamed.owner.routes:_POSITION": [("", "1", "-"), ("1-ply_", "a", "!")],
    "gamed.owner.responder:_PATH": [("/auth/owner/", "a", "!"), ("/auth/owner", "/a", "!")],
    "gamed.owner.responder:_PERSON": [("ply_", "a", "!")],
    "gamed.owner.site_routes:_ID": [("ply_", "a", "!")],
    "gamed.owner.site_routes:_EVENT_PLACE": [("", "1", "-"), ("1-", "1", "!")],
    "gamed.owner.site_routes:_INVITE_PLACE": [("", "1", "-"), ("1-inv_", "a", "!")],
    "gamed.config.json_reader:_COMMENT": [("/*", "*", ""), ("/*", "a\n", "*"), ("//", "/", "\n"), ("", "/", "*")],
    "gamed.config.json_reader:_ESCAPE": [("\\u", "0", "")],
    "gamed.config.json_reader:_NUMBER": [("1", "0", "e"), ("1.", "0", "e+"), ("1e", "1", "e")],
    "gamed.config.json_reader:_NUMBER_LIKE": [("", "-.0", " ")],
    "gamed.config.json_reader:_PLAIN": [("", "a", "\n")],
    "gamed.config.json_reader:_SPACE": [("", " \n", "a")],
    "gamed.config.json_reader:_WORD": [("", "a", " ")],
    "gamed.config.json_reader:read": [("", "\n", ""), ("", "a", "")],
    "gamed.config.providers:_NAME": [("a", "-", "A")],
    "gamed.config.providers:_URL": [("", "a", " ")],
    "gamed.config.providers:_SHORT_ID": [("", "A", " ")],
    "gamed.config.validators:_HOST_PORT": [
        ("[", "a", ""), ("[", "]", "\n"), ("", ":", "\n"), ("", "a", "\n"), ("", "[", ":\n"),
    ],
    "gamed.config.notify:_URL": [("", "a", " ")],
    "gamed.notify.format_rules:_SIGNS": [("", "a", "")],
    "gamed.config.store_address:_LABEL": [("a", "-", ""), ("", "a", "-"), ("", "_", ".")],
    "gamed.config.store_address:_LONE_PERCENT": [("", "%41", ""), ("", "%4", ""), ("", "a", "")],
    "gamed.config.store_address:_NUMBER": [("1", "0", "")],
    "gamed.config.validators:_LABEL": [("a", "-", ""), ("", "a", "-")],
    "gamed.config.validators:_NUMERIC": [("", "0", "x"), ("0x", "f", "g")],
    "gamed.config.validators:_PORT": [("1", "0", "")],
    "gamed.config.validators:_SCHEME": [("", "a", ""), ("a:", "/", "\n"), ("a", ":", "\n")],
    "gamed.config.secrets:_BASE64": [("", "a", "==="), ("", "=", "a")],
    "gamed.config.secrets:_CLIENT_SECRET": [("", "a", " ")],
    "gamed.config.look:_ACCENT": [("#", "a", "g"), ("#", "aaa", "g")],
    "gamed.config.look:_LOCAL": [("url(#a", "a", "")],
    "gamed.config.look:_PLAIN": [("", "a", ":")],
    "gamed.account.return_rules:_PAGE": [
        ("/auth/account/saves/", "a", "/"), ("/auth/account/saves/a/versions/", "1", "x"), ("", "/auth/account", ""),
    ],
    "gamed.account.return_rules:_PASSKEY": [("pky_", "a", "."), ("", "pky_", "")],
    "gamed.account.return_rules:_SESSION": [("ses_", "a", "."), ("", "ses_", "")],
    "gamed.login.places:_PLACE": [
        ("/account/saves/", "a", "/"), ("/login/", "a", ""), ("/invite/", "-", "."), ("", "/account/saves/", ""),
        ("/account/after/", "a.", "!"), ("/account/saves/a/before/", "1", "x"), ("/login/done/login_id/lgn_", "a", ""),
        ("/account/saves/a/versions/", "1", "/delete"), ("/account/devices/ses_", "a", "."),
    ],
    "gamed.login.places:_FORM": [("/login/", "a", "/local"), ("", "/login/", "")],
    "gamed.config.look:_TAG": [("de", "-aa", "-"), ("", "a", ""), ("de-", "a", "-")],
    "gamed.pages.catalogue:_LINE": [
        ('msgid "', "a", ""), ('msgid "', "\\\\", "\\"), ("msgid", " ", "x"), ('"', '\\"', "\\x"), 
        ("msgstr[", "0", "]"), ("", '"', "a"),
    ],
    "gamed.pages.catalogue:_ESCAPE": [("", "\\", ""), ("a", "\\n", "\\")],
    "gamed.pages.catalogue:_RULE": [
        ("Plural-Forms:", " ", "x"), ("Plural-Forms: nplurals=2;", " ", "x"), ("", "Plural-Forms:", ""),
        ("Plural-Forms: nplurals=2; plural=", "n", ""), ("", "\n", "P"),
        ("", "\nPlural-Forms: nplurals=2; plural=n", ""),
    ],
    "gamed.pages.languages:_WEIGHT": [("0.", "0", "x"), ("", "0", "")],
    "gamed.pages.catalogue:_PLACEHOLDER": [("", "{", "}"), ("{", "a", ""), ("", "{a", "}"), ("{", "_", "{")],
    "gamed.config.secrets:_HEX": [("", "a", "g")],
    "gamed.config.secrets:_NAME": [("", "a", "-")],
    "gamed.config.secrets:_PLAIN_NAME": [("A", "A", "_"), ("A", "_A", "_"), ("A", "_", "a"), ("A", "0", "-")],
    "gamed.config.validators:_APP_SCHEME": [
        ("a", "a", "!"), ("a", ".a", "!"), ("a.", "a", "!"), ("", "a.", ":"), ("a", "a", ".:"),
    ],
    "gamed.login.return_rules:_CHARACTERS": [("", "a", "\n"), ("", "%41", "%"), ("", "%", "")],
    "gamed.login.return_rules:_HOST": [("", "a", "!")],
    "gamed.login.return_rules:_URI": [
        ("a", "a", ""), ("a:", "/", "#\n"), ("a://", "a", "\n"), ("a:/", "?", "#\n"), ("a:?", "#", "\n"),
        ("a:", "a", ""), ("a:#", "a", "\n"),
    ],
    "gamed.config.validators:_FIELD": [("a", ".", " ")],
    "gamed.config.validators:_SCOPE": [("", "a", " ")],
    "gamed.config.validators:_SIZE": [("", "0", "MiB"), ("0", " ", "MiB")],
    "gamed.config.validators:_VISIBLE": [("", "a", " ")],
    "gamed.dev.grants:_CHALLENGE": [("", "a", "!")],
    "gamed.dev.grants:_VISIBLE": [("", "a", "\n")],
    "gamed.dev.grants:_VERIFIER": [("", "a", "!")],
    "gamed.dev.clients:DISCORD": [
        ("DiscordBot (https://", "a", ""), ("DiscordBot (http://a, ", "a", " "),
        ("DiscordBot (http://a, b)", ")", "\n"),
    ],
    "gamed.timestamps:_FORM": [("", "0", "x")],
    "gamed.http.parser:_ABSOLUTE": [
        ("http://", "a", "\n"), ("http://", "/", "\n"), ("http:", "/", ""), ("https://", "?", "\n"),
    ],
    "gamed.http.parser:_CHUNK_SIZE": [("", "0", "g"), ("0;", "a", "\\"), ("0", ";", "\0"), ("", "0;", "\0")],
    "gamed.http.parser:_ESCAPE": [("", "%", ""), ("", "%4", ""), ("", "%41", ""), ("", "a", "")],
    "gamed.http.parser:_HEAD": [
        ("GET /", "a", "\r\n\r\n"), ("", "A", " "), ("GET /?", "a", " "), ("GET / HTTP/1.1\r\n", "a", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "a:\r\n", "\r\n "), ("GET / HTTP/1.1\r\na:", "\r", "\n"),
        ("GET / HTTP/1.1\r\na:", " ", "\n"),
        ("GET / HTTP/1.1\r\n", "a: b\r\n", "a\r\n\r\n"), ("GET / HTTP/1.1\r\n", "::\r\n", "\0\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "a: b\r\n", "a: \0\r\n\r\n"), ("GET / HTTP/1.1\r\na:", "\t ", "\0\r\n\r\n"),
        ("GET / HTTP/1.1\r\na:", ":", "\0\r\n\r\n"),
    ],
    "gamed.http.parser:_HOST_LITERAL": [("[", ":", ""), ("[", "a", "]:x"), ("[a]:", "1", "")],
    "gamed.http.parser:_HOST_NAME": [
        ("", "a", "!"), ("", "a.", "!"), ("a", ".", ""), ("", "a", ".:x"), ("a:", "1", ""), ("", "a.a", ".."),
        ("", "-_", "@"),
    ],
    "gamed.http.parser:_REQUEST_LINE": [
        ("", "A", ""), ("GET ", "a", " "), ("GET ", "a", " HTTP/1.2"), ("GET ", " ", "HTTP/1.1"),
    ],
    "gamed.http.parser:_TRAILER": [
        ("", "a", ""), ("a:", "a", "\0"), ("a:", " ", "\n"), ("", ":", "\0"), ("a", ":", "\n"), ("a:", "\r", "\n"),
    ],
    "gamed.http.route_compiler:_ARGUMENT": [
        ("<", "a", ""), ("", "<", ""), ("<string:", "a", ":"), ("", "<string:", ""), ("", "<a:", ""), ("<", ":a", ""),
        ("<a(", "1", ""), ("<a(", "(", ""), ("", "<a(", ")"), ("<a", "()", ":a>"),
    ],
    "gamed.http.route_compiler:_TOKEN": [("", "a", ""), ("", "-", "!")],
    "gamed.http.route_compiler:_pattern": [
        ("/game/", "a", "/"), ("/game/", "a/", ""), ("/game/", "a/", "/"), ("/game/a", "/", ""),
        ("/game/\0/", "a/", "\0"), ("/game/", "\0", "/a"), ("/game/a/b/", "a", "\0"), ("/game/a/b", "//", "c"),
    ],
    "gamed.http.site:_wildcard": [
        ("/auth/", "a", "\n"), ("/auth/", "a/", ""), ("", "/auth/a", ""), ("/auth", "/", "a"),
        ("/auth/", "a", "/callbac"), ("/auth/a/callback", "/", "\n"), ("/auth/a/callback", "\n", ""),
    ],
    "gamed.http.tracebacks:_SECRET": [("", "a", ""), ("", "aaaaaaaaaaaaaaa ", ""), ("", "a ", ""), ("", " ", "")],
    "gamed.http.conditional:_NAMED": [("", " ", "x"), ("wait", " ", "x"), ("wait", ";", "\n"), ("wait=", "=", "\n")],
    "gamed.http.conditional:_WAIT": [
        ("", " ", "x"), ("wait", " ", "x"), ("wait=", " ", "x"), ("wait=", "1", ""), ("wait=1", " ", "x"),
        ("wait=1", ";", "\n"),
        ('wait="', "1", ""),
    ],
    "gamed.http.conditional:_ONE": [
        ("bytes=", " ", "x"), ("bytes=", "1", "x"), ("bytes=1-", "1", ""), ("bytes=1-1", " ", "x"),
    ],
    "gamed.http.conditional:_GAP": [("", " ", "x"), ("", ", ", "x"), ("", ",", "x"), ("", " ,", '"')],
    "gamed.http.conditional:_TAG": [('W/"', "a", ""), ('"', "a", "\0"), ("", '"', ""), ("", "W/", '"')],
    "gamed.config.tickets:_AUDIENCE": [("", "a", ""), ("", "a", " ")],
    "gamed.config.tickets:_SECRET": [("", "a", ""), ("", "a", " ")],
    "gamed.providers.messages:_TOKEN": [("", "a", " ")],
    "gamed.providers.id_token:_ALPHABET": [("", "a", "=")],
    "gamed.providers.discovery:_URL": [("", "a", " ")],
    "gamed.dev.steam:_STATE": [("", "a", " ")],
    "gamed.providers.openid2:_ACCOUNT": [("", "7", "x")],
    "gamed.providers.openid2:_KEY": [("", "a", " ")],
    "gamed.providers.openid2:_NONCE": [("2027-01-15T08:00:00Z", "x", " "), ("", "2", " ")],
    "gamed.providers.openid2:_VISIBLE": [("", "a", " ")],
    "gamed.providers.discovery:_GUID": [("", "a", "-"), ("9188040d-6c67-4c5b-b112-", "a", " ")],
    "gamed.providers.client:_SECONDS": [("", "0", "")],
    "gamed.providers.id_token:_OPENID": [("a", " ", "\n"), ("", "a", " "), ("", " a", " ")],
    "gamed.database.postgresql.statements:_PLACE": [
        ("'", "a", ""), ("", "'", "a"), ("", ":", "'"), (":", "a", ""), ("", "?", ""), ("", "''", "'"),
    ],
    "gamed.providers.oauth2:_DIGITS": [("", "0", "a")],
    "gamed.timestamps:_RFC3339": [("2026-11-22T09:00:00.", "0", "Z")],
    "gamed.event_log:_BARE": [("", "a", ""), ("", "a", " "), ("", "a", "\n")],
    "gamed.saves.model:_CURSOR": [("", "a", ""), ("a.", "1", "x"), ("", "a.", "")],
    "gamed.saves.model:_AFTER_EPOCH": [("a1b2c3-", "1", "x"), ("", "a", ""), ("", "-", ""), ("", "1", "")],
    "gamed.saves.validation:_DIGEST_MEMBER": [
        ("", " ", ":"), ("a=:", "a", ""), ("a=:", "=", ""), ("a=::", " ", "a"), ("", "a", ":"), ("", "*", "="),
    ],
    "gamed.saves.validation:_TYPE": [("", "a", "@"), ("a/", "a", ""), ("", "a/", "@")],
    "gamed.saves.validation:_PARAMETER": [
        ("", "; ", "@"), ("", ";", "@"), ("", " ", "@"), ("", "\t ", ";"), (";", " ", "a"), ("; ", "a", "@"),
        (";a=", "a", ""), (';a="', "a", ""), (';a="', "\\a", "\\"), (';a="', '\\"', ""), ("", ';a=""', "@"),
    ],
    "gamed.saves.validation:_SHA256_HEX": [("", "0", "g")],
    "gamed.saves.validation:_SLOT_NAME": [("a", ".", "/"), ("", "a", "A")],
    "gamed.strict_json:_BRACKETS": [("", "[", ""), ("", "a", "")],
    "gamed.strict_json:_STRINGS": [
        ('"', "a", ""), ('"', "\\", ""), ('"', '\\"', "\\"), ("", '"', ""), ("", '""', '"'), ('"', '\\\\', ""),
        ("", '"a', "\\"),
    ],
    "gamed.crypto:_REST": [("", "a", "!")],
    "gamed.login.csrf:_VALUE": [("", "a", "!")],
    "gamed.http.json_body:_STEP": [
        ("", ".", ""), ("", "[", ""), ("", "[1", ""), (".", "a", "["), ("", "[...", "]"), ("[", "1", ""),
    ],
    "gamed.http.json_body:_WHERE": [
        (" - at `$", "a", ""), ("", " - at `$", ""), ("", " - at `$`", "x"), ("", " - at ", "`$`"),
    ],
}  # fmt: skip
"""Texts that come close to matching, for each pattern."""

NEWLINE = compile("\n")
MOUNTED = _wildcard("/auth/*/callback")
ROUTE = _pattern(("", "game", "<text>", "<string>", "<path>"))
INSTANCES = {
    "gamed.config.json_reader:read": "tests.test_patterns:NEWLINE",
    "gamed.dev.clients:DISCORD": "gamed.dev.clients:DISCORD.agent",
    "gamed.http.route_compiler:_pattern": "tests.test_patterns:ROUTE",
    "gamed.http.site:_wildcard": "tests.test_patterns:MOUNTED",
}
"""Where the process finds a pattern that no name of its module stands for; one of each kind for those of functions."""
LONGER = {
    "gamed.http.parser:_TRAILER": 65_536,
    "gamed.strict_json:_BRACKETS": 262_144,
    "gamed.strict_json:_STRINGS": 262_144,
}
"""Characters of the longest text of patterns that meet more than a request head: trailers, POST /game/commit."""
_REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}
_MOVING = _REPEATS | {
    _constants.ASSERT, _constants.ASSERT_NOT, _constants.ATOMIC_GROUP, _constants.BRANCH, _constants.SUBPATTERN,
}  # fmt: skip
"""The parts of a pattern that note the place they begin at."""
HARMLESS = {"gamed.http.parser:_HEAD"}
"""A place after the `name:` of a malformed line: only `\\r\\n` could follow it there, which would complete the line."""
METHODS = {"match", "fullmatch", "search", "sub", "subn", "finditer", "findall", "split"}
LIMIT_SECONDS = 120
"""Processor time for all patterns; they take about 10 s together."""
PLANTED_SECONDS = 10
"""Processor time for planted patterns that end, so that the result does not depend on the load of the machine."""
ENDLESS_SECONDS = 2
"""The same for one that does not end in years."""


def compiled() -> dict[str, list[str]]:
    """Return the path of each pattern that the package compiles, with the methods that are called on its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "gamed").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text("utf-8"))
        for name in _names(tree):
            found[f"{module}:{name}"] = sorted(_methods(tree, name)) or ["fullmatch", "match"]
    return found


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the name that each pattern is assigned to, or the function that compiles it."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "re"
        for alias in node.names
        if alias.name in {"compile", *METHODS}
    }
    for statement in tree.body:
        for node in ast.walk(statement):
            for call in _calls(node, imported):
                yield _owner(statement, call)


def _calls(node: ast.AST, imported: Collection[str]) -> Iterator[ast.Call]:
    """Yield the node if it is a call of `re`, under the name it was imported as or as `re.compile`."""
    if isinstance(node, ast.Call):
        function = node.func
        direct = isinstance(function, ast.Name) and function.id in imported
        module = isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re"
        if direct or module:
            yield node


def _owner(statement: ast.stmt, call: ast.Call) -> str:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        return ast.unparse(target)
    around = [node for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return next(node.name for node in reversed(around) if call in ast.walk(node))


def _methods(tree: ast.Module, name: str) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == name and node.func.attr in METHODS
    }


def measure(texts: Mapping[str, Collection[Text]], methods: Mapping[str, list[str]], seconds: int) -> list[str]:
    """Return the measurements that were more than linear, or that did not end within this processor time."""
    cases = [
        {
            "pattern": INSTANCES.get(key, key),
            "methods": methods.get(key, ["fullmatch"]),
            "length": LONGER.get(key, LENGTH),
            "texts": list(rows),
        }
        for key, rows in texts.items()
    ]
    command = [sys.executable, "-m", "tests.support.pattern_growth", str(seconds)]
    with Popen(command, stdin=PIPE, stdout=PIPE, cwd=ROOT, text=True) as process:
        printed, _ = process.communicate("".join(json.dumps(case) + "\n" for case in cases))
    begun: list[str] = []
    ended: dict[str, float] = {}
    for line in printed.splitlines():
        event, _, rest = line.partition(" ")
        if event == "begin":
            begun.append(rest)
        else:
            factor, _, name = rest.partition(" ")
            ended[name] = float(factor)
    expected = sum(len(case["methods"]) * len(case["texts"]) for case in cases)
    missing = [] if len(ended) == expected else [f"{len(ended)} of {expected} measurements ended"]
    return missing + [name for name in begun if ended.get(name, LINEAR) >= LINEAR]


def found(key: str) -> "Pattern[Any]":
    """Return a compiled pattern of the package."""
    module, _, name = INSTANCES.get(key, key).partition(":")
    return cast("Pattern[Any]", attrgetter(name)(import_module(module)))


def misplaces(pattern: "Pattern[Any]") -> bool:
    """Return whether a possessive or atomic group could go on at a wrong place before Python 3.11.5.

    When a repetition of its group fails, such a Python goes on at the place noted last, even if that is inside of the
    repetition that failed (python/cpython#106052). So only the first part of the group may note its place.
    """
    return any(_misplaces(body) for body in _possessive(_parser.parse(pattern.pattern, pattern.flags)))


def _possessive(parts: Any) -> Iterator[Any]:
    for operation, argument in parts:
        if operation in {_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP}:
            body = argument[-1] if operation is _constants.POSSESSIVE_REPEAT else argument
            if len(body) > 1 or body[0][0] in _MOVING:
                yield body
        for inner in _bodies(operation, argument):
            yield from _possessive(inner)


def _misplaces(body: Any) -> bool:
    first, *others = [(operation, argument) for operation, argument in body]
    if _moves_far(*first) and (others or first[0] is _constants.ASSERT_NOT):
        return True
    if others and others[-1][0] in _REPEATS and others[-1][1][0] == 0:
        others.pop()  # it cannot fail, and nothing comes after it
    moved = any(operation in _MOVING for operation, _ in others)
    return moved or any(_misplaces(inner) for inner in _bodies(*first) if inner)


def _moves_far(operation: Any, argument: Any) -> bool:
    """Return whether a part leaves a place noted that is behind its beginning."""
    if operation is _constants.POSSESSIVE_REPEAT:
        [first, *others] = argument[-1]
        return bool(others) or first[0] in _MOVING
    return operation in {_constants.ASSERT_NOT, _constants.ATOMIC_GROUP}


def _bodies(operation: Any, argument: Any) -> Sequence[Any]:
    if operation is _constants.BRANCH:
        return cast("Sequence[Any]", argument[1])
    if operation in _MOVING:
        return [argument if operation is _constants.ATOMIC_GROUP else argument[-1]]
    return []


class PatternTest(SynchronousTestCase):
    def test_all_have_texts(self) -> None:
        """Each pattern that the package compiles has texts that come close to matching it; no text is left over."""
        self.assertEqual(compiled().keys() ^ TEXTS.keys(), set())
        self.assertGreater(len(TEXTS), 60)

    def test_linear(self) -> None:
        """No pattern takes more than proportional time for any of its texts."""
        self.assertEqual(measure(TEXTS, compiled(), LIMIT_SECONDS), [])

    def test_possessive_groups(self) -> None:
        """No pattern needs more of possessive groups than Debian 12's Python 3.11.2 does right."""
        wrong = {key for key in TEXTS if misplaces(found(key))}
        self.assertEqual(wrong, HARMLESS)
        for right in (r"(?:a|\\.)*+", r"(?:a++b)*+", "a*+b", r"(?:(?:a|bc)++)*+"):
            self.assertFalse(misplaces(compile(right)), right)
        late = (r"(?:\.a++)*+", r"(?:a=(?:bb|c))?+", "(?>ab*c)*", r"(?:x|%a{2})++", r"(?:(?:ab+c)+)*+")
        at_once = ("(?:(?!C).)*+", "(?:(?>ab)c)*+", "(?:(?:ab)*+c)*+", "(?:(?:a|bc)++d)*+")
        for planted in late + at_once:
            self.assertTrue(misplaces(compile(planted)), planted)

    def test_notices(self) -> None:
        """The measurement reports an exponential and a quadratic pattern, and not a linear one."""
        names = ("tests.test_patterns:NEWLINE", "tests.test_patterns:QUADRATIC")
        [quadratic] = measure({name: [("", "a", "")] for name in names}, {}, PLANTED_SECONDS)
        self.assertIn("QUADRATIC", quadratic)
        count, exponential = measure({"tests.test_patterns:EXPONENTIAL": [("", "a", "")]}, {}, ENDLESS_SECONDS)
        self.assertEqual(count, "0 of 1 measurements ended")
        self.assertIn("EXPONENTIAL", exponential)
