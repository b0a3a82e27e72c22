"""The generator translates the scripts of Godot 4, and refuses what has no translation."""

import re
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from clients.godot3 import generate
from clients.godot3.generate import Client, GenerateError

WAIT = "static func frame():\n\tawait tree.process_frame\n"
"""A coroutine, for the functions of a test to wait for."""


def translated(text: str, platform: str = "") -> str:
    """Return a script for Godot 3, without its first line."""
    made = Client({"x.gd": text, "platform.gd": WAIT}, platform).translated("x.gd")
    return made.partition("\n")[2]


class Translation(SynchronousTestCase):
    def check(self, text: str, expected: str) -> None:
        self.assertEqual(translated(text), expected)

    def test_types(self) -> None:
        """Variables, parameters, results and signals lose their types, and keep their values and comments."""
        self.check("var a: int = 1  # of b: int\n", "var a = 1  # of b: int\n")
        self.check("var a := Label.new()\nconst B: Array = [1]\n", "var a = Label.new()\nconst B = [1]\n")
        self.check("signal s(code: String, x)\n", "signal s(code, x)\n")
        self.check(
            'static func f(a: A.B, b, c: String = "x: y", d := {}) -> Variant:\n\tpass\n',
            'static func f(a, b, c = "x: y", d = {}):\n\tpass\n',
        )
        self.check("func f(\n\ta: int, b: int\n) -> void:\n\tpass\n", "func f(a, b):\n\tpass\n")
        self.check("\tfor a: B.C in d:\n\t\tpass\n", "\tfor a in d:\n\t\tpass\n")

    def test_global_name(self) -> None:
        """A script has no global name, which a game's own constant for the script could have, too."""
        self.check("class_name A\nextends RefCounted\n", "extends Reference\n")

    def test_annotation(self) -> None:
        """A constant that ignores a warning of Godot 4 loses the annotation; another annotation is refused."""
        self.check('@warning_ignore("a b") const A = "c"\n', 'const A = "c"\n')

    def test_dictionaries(self) -> None:
        """A colon elsewhere has no type behind it."""
        text = 'var a = {"b": c, 1: d}\nif a:\n\tmatch b:\n\t\t"x":\n\t\t\tpass\n'
        self.check(text, text)

    def test_names(self) -> None:
        """Names of the engine become those of Godot 3, but not in texts."""
        self.check(
            'extends RefCounted\nvar a = "RefCounted".to_utf8_buffer()\nvar b = Time.get_ticks_msec()\n',
            'extends Reference\nvar a = "RefCounted".to_utf8()\nvar b = OS.get_ticks_msec()\n',
        )

    def test_function(self) -> None:
        """A function that waits is awaited by its signal, also in the arguments of another, and over several lines."""
        self.check(
            "func _f():\n\treturn g(await frame(), [\n\t\t1])\n",
            'func _f():\n\treturn g(yield(frame(), "completed"), [\n\t\t1])\n',
        )
        self.check(
            "func f():\n\tif await a.b[c(1)].frame(await frame([\n\t\t2])):\n\t\tpass\n",
            'func f():\n\tif yield(a.b[c(1)].frame(yield(frame([\n\t\t2]), "completed")), "completed"):\n\t\tpass\n',
        )

    def test_signal(self) -> None:
        """A signal of this object or of another is awaited by its name, emitted and connected."""
        self.check("func f():\n\tvar a = await answered\n", 'func f():\n\tvar a = yield(self, "answered")\n')
        self.check("func f():\n\tawait (a as B).c\n", 'func f():\n\tyield((a as B), "c")\n')
        self.check("\ta.b().changed.emit(c, d)\n", '\ta.b().emit_signal("changed", c, d)\n')
        self.check("\tchanged.connect(_f)\n", '\tconnect("changed", self, "_f")\n')
        self.check("\ta.changed.connect(_f.bind(b(1), c))\n", '\ta.connect("changed", self, "_f", [b(1), c])\n')

    def test_of_games(self) -> None:
        """A function of a game is awaited only if it waits."""
        self.check(
            "func _f():\n\tvar a = await person.problem(b)  # c\n",
            "func _f():\n\tvar a = person.problem(b)  # c\n\tif a is GDScriptFunctionState:\n"
            '\t\ta = yield(a, "completed")\n',
        )

    def test_examples(self) -> None:
        """An indented comment is code; any other stays as it is."""
        self.check(
            "#     var a = await frame()   # await frame()\n# await frame()\n",
            '#     var a = yield(frame(), "completed")   # await frame()\n# await frame()\n',
        )

    def test_platform(self) -> None:
        """The class Platform is the one for Godot 3; what follows it is translated."""
        text = "# A\nclass Platform:\n\tvar x = TLSOptions\n\n\tfunc f():\n\t\tsuper()\n\n\n# B\nvar a: int = 1\n"
        platform = "extends Reference\n\n\nfunc f():\n\tpass\n"
        expected = "# A\nclass Platform:\n\textends Reference\n\n\tfunc f():\n\t\tpass\n\n\n# B\nvar a = 1\n"
        self.assertEqual(translated(text, platform), expected)

    def test_origin(self) -> None:
        """A translated script names the file to change."""
        self.assertIn(" clients/godot4/gamed.gd ", generate.scripts()["gamed.gd"].splitlines()[0])


class Refusals(SynchronousTestCase):
    def refused(self, line: str, words: str) -> None:
        """Check that the error has these words, and the place of the line: the second one of a function."""
        text = f'var a = """\n"""\n\n\nfunc _f():\n\tawait frame()\n\t{line}\n'
        error = self.assertRaises(GenerateError, translated, text)
        self.assertEqual(str(error).partition(": ")[0], "x.gd:7")
        self.assertIn(words, str(error))

    def test_lambda(self) -> None:
        for line in ("var b = func(): return 1", "changed.connect(func(x): g(x))", "g(\n\t\tfunc(): pass)"):
            self.refused(line, "x.gd:7: A script for both engines cannot have lambdas. Write a function")

    def test_typed_array(self) -> None:
        for line in ("var b: Array[Save] = []", "var b: Array[int]", "var b = Dictionary[String, int]()"):
            self.refused(line, "typed arrays or dictionaries. Leave out the type")

    def test_super(self) -> None:
        for line in ("super()", "super.close()"):
            self.refused(line, "super. Give the function of the other class its own name")

    def test_annotations(self) -> None:
        for line in ("@warning_ignore('x')", "static var b = 1", "var b: int:", "var b = 1: set = _set_b"):
            self.refused(line, "annotations, static variables or properties")

    def test_literals(self) -> None:
        for line in ("b = c ** 2", 'b = &"name"', 'b = ^"Path"', 'b = r"\\d"'):
            self.refused(line, "`**`, StringNames, NodePaths or raw strings")

    def test_blocks(self) -> None:
        for line in ("if b: return", "while b: g()", "else: return 1"):
            self.refused(line, "a block on one line")

    def test_operators(self) -> None:
        for line in ("if a not in b:", "if a is not B:"):
            self.refused(line, "Write `not a in b`")

    def test_calls(self) -> None:
        """A call that both engines have, with another meaning, is refused."""
        for line in ('b = ",".join(c)', "b = c.slice(1, 2)", "b = OS.get_name()", "if OS.has_feature(b):"):
            self.refused(line, "a call that differs. Use Platform")

    def test_signal_forms(self) -> None:
        for line in ("changed.connect(a.f)", "changed.emit()", "changed.connect(f, CONNECT_ONE_SHOT)"):
            self.refused(line, "a signal in this form")

    def test_classes(self) -> None:
        for name in ("DirAccess", "JSON", "Callable", "PackedInt32Array", "Time", "FileAccess"):
            self.refused(f"var b = {name}.x", "cannot have this. Use Platform")

    def test_not_a_call(self) -> None:
        for line in ("await b[1]", 'await "b"', "await f()()"):
            self.refused(line, "Only a function or a signal can be awaited")

    def test_function_that_does_not_wait(self) -> None:
        """An `await` of a function without one is refused, also in an example."""
        self.refused("var b = await g(1)", "g does not wait. Leave out the await")
        self.refused("#     await g(1)", "g does not wait")

    def test_of_games(self) -> None:
        """A variable must be declared for the result of a function of a game."""
        for line in ("await person.problem(b)", "return await person.problem(b)", "b = await person.problem(c)"):
            self.refused(line, "problem may wait or not. Declare a variable")


class Ways(SynchronousTestCase):
    """Godot 3 can only wait for a function that has paused, so a way through it without a wait gets one."""

    def returns(self, body: str, name: str = "f") -> list[int]:
        """Return the number of each line, in the body, that ends the translated function with a pause."""
        text = f"func {name}(a):\n" + "".join(f"\t{line}\n" for line in body.splitlines())
        found, number = [], 0
        for line in translated(text).splitlines(keepends=True):
            if line.lstrip("\t") == generate.PAUSE:
                found.append(number)
            elif line.strip() != "return early":
                number += not line.strip().startswith("var early")
        return found

    def test_pause(self) -> None:
        """The pause is in the block of the return, and after its value, or at the end of the function."""
        pause = generate.PAUSE
        text = "func f():\n\tif a:\n\t\treturn g([\n\t\t\t1])  # d\n\tif a:\n\t\treturn  # d\n\tfor b in c:\n"
        self.assertEqual(
            translated(f"{text}\t\tawait frame()\n\n\nvar d = 1\n"),
            f"func f():\n\tif a:\n\t\tvar early = g([\n\t\t\t1])  # d\n\t\t{pause}\t\treturn early\n"
            f"\tif a:\n\t\t{pause}\t\treturn  # d\n\tfor b in c:\n"
            f'\t\tyield(frame(), "completed")\n\t{pause}\n\nvar d = 1\n',
        )

    def test_early(self) -> None:
        """A return before the first wait is one."""
        self.assertEqual(self.returns("if a:\n\treturn 1\nawait frame()"), [2])
        self.assertEqual(self.returns("if a:\n\tawait frame()\n\treturn 1\nreturn await frame()"), [])

    def test_end(self) -> None:
        """So is the end of a function that may not have waited."""
        self.assertEqual(self.returns("if a:\n\tawait frame()\ng()"), [4])

    def test_branches(self) -> None:
        """Branches wait if all do, and the last one is `else`."""
        self.assertEqual(self.returns("if a:\n\tawait frame()\nelse:\n\tawait frame()\nreturn 1"), [])
        self.assertEqual(self.returns("if a:\n\tawait frame()\nelif b:\n\tg()\nelse:\n\tawait frame()\nreturn 1"), [7])
        self.assertEqual(self.returns("if a:\n\tawait frame()\nelif b:\n\tawait frame()\nreturn 1"), [5])
        self.assertEqual(self.returns("if await frame():\n\treturn 1"), [])

    def test_loops(self) -> None:
        """A loop may have no round, but for one that ends with `break`."""
        self.assertEqual(self.returns("while a:\n\tawait frame()\nreturn 1"), [3])
        self.assertEqual(self.returns("for b in a:\n\tawait frame()\nreturn 1"), [3])
        self.assertEqual(self.returns("while true:\n\tawait frame()\n\tif a:\n\t\tbreak\nreturn 1"), [])
        self.assertEqual(self.returns("while true:\n\tif a:\n\t\tbreak\n\tawait frame()\nreturn 1"), [5])
        self.assertEqual(self.returns("while true:\n\tfor b in a:\n\t\tbreak\n\tawait frame()\n\tbreak\nreturn 1"), [])

    def test_match(self) -> None:
        """No branch of a `match` need be taken."""
        self.assertEqual(self.returns('match a:\n\t"b":\n\t\tawait frame()\nreturn 1'), [4])
        self.assertEqual(self.returns('await frame()\nmatch a:\n\t"b":\n\t\treturn 1\nreturn 2'), [])

    def test_expressions(self) -> None:
        """An `await` that is left out, depending on a value, is no wait."""
        for line in ("1 if a else await frame()", "await frame() if a else 1", "a and await frame()"):
            self.assertEqual(self.returns(f"return {line}"), [1], line)
        self.assertEqual(self.returns("if a:\n\tg()\nelif await frame():\n\tg()\nreturn 1"), [5])
        self.assertEqual(self.returns("return await frame(1 if a else 2)"), [])

    def test_of_games(self) -> None:
        """A function of a game may not wait, and need not."""
        self.assertEqual(self.returns("var b = await person.problem(a)\nreturn b"), [4])  # it has two lines more
        self.assertEqual(self.returns("if a:\n\treturn 1\nawait frame()", "problem"), [])

    def test_private(self) -> None:
        """A private function that no script awaits may end early."""
        early = "if a:\n\treturn 1\nawait frame()"
        self.assertEqual(self.returns(early, "_f"), [])
        self.assertEqual(self.returns(f"{early}\nawait _f(1)", "_f"), [2])


class Command(SynchronousTestCase):
    def run_it(self, *arguments: str, script: Path = Path(generate.__file__)) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(script), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_game(self) -> None:
        """A game gets the five files that it can need; its folder is made."""
        folder = Path(self.mktemp()) / "game"
        self.assertEqual(self.run_it(str(folder)).returncode, 0)
        names = {"gamed.gd", "gamed_assets.gd", "gamed_dialog.gd", "gamed_sync.gd", "gamed_texts.gd"}
        self.assertEqual({path.name for path in folder.iterdir()}, names)
        self.assertEqual((folder / "gamed.gd").read_text("utf-8"), generate.scripts()["gamed.gd"])

    def test_all(self) -> None:
        """With --all it writes every file of the client."""
        folder = Path(self.mktemp())
        self.assertEqual(self.run_it(str(folder), "--all").returncode, 0)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, generate.files())

    def test_error(self) -> None:
        """An error names the file and the line, ends with 1, and leaves the folder alone."""
        clients = Path(self.mktemp())
        for path in (*generate.SCRIPTS, *generate.FOLDER.glob("*.*"), *generate.SOURCE.glob("plugin.cfg")):
            copy = clients / "clients" / path.parent.name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        with (clients / "clients" / "godot4" / "gamed_sync.gd").open("a") as script:
            script.write("\n\nfunc f():\n\treturn func(): return 1\n")
        last = len((clients / "clients" / "godot4" / "gamed_sync.gd").read_text("utf-8").splitlines())
        done = self.run_it(str(clients / "game"), script=clients / "clients" / "godot3" / "generate.py")
        place = f"clients/godot4/gamed_sync.gd:{last}"
        said = f"generate.py: {place}: A script for both engines cannot have lambdas. Write a function with a name.\n"
        self.assertEqual((done.returncode, done.stderr), (1, said))
        self.assertFalse((clients / "game").exists())

    def test_no_folder(self) -> None:
        """A folder that cannot be made is named."""
        done = self.run_it(__file__)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(__file__, done.stderr)

    def test_no_copy_is_kept(self) -> None:
        """The checkout has only scripts for Godot 3 that differ for good."""
        kept = sorted(path.name for path in generate.FOLDER.glob("*.gd"))
        self.assertEqual(kept, ["platform.gd", "plugin.gd"])
        self.assertEqual(re.findall(r"\bawait\b", (generate.FOLDER / "platform.gd").read_text("utf-8")), [])
