"""The state of the machine is part of each report."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from bench.machine import interpreter_build, lines, state


class InterpreterTests(SynchronousTestCase):
    def test_optimizations(self) -> None:
        """PGO and LTO are found among the arguments of configure, in each form that configure accepts."""
        debian = "'--enable-shared' '--enable-optimizations' '--with-lto' 'CFLAGS=-g -O2'"
        self.assertEqual(interpreter_build(debian), {"PGO": True, "LTO": True})
        self.assertEqual(
            interpreter_build("'--enable-optimizations=yes' '--with-lto=thin'"), {"PGO": True, "LTO": True}
        )
        self.assertEqual(interpreter_build("'--prefix=/opt/python' '--with-lto=no'"), {"PGO": False, "LTO": False})
        self.assertEqual(interpreter_build(""), {"PGO": False, "LTO": False})


class StateTests(SynchronousTestCase):
    def test_it_is_printed(self) -> None:
        """The text names interpreter, flush time and foreign load; only a build without PGO gets a warning."""
        Path(folder := self.mktemp()).mkdir()
        found = state(Path(folder))
        slow, fast = ("\n".join(lines({**found, "pgo": pgo})) for pgo in (False, True))
        for text in (slow, fast):
            self.assertRegex(text, r"built with(out)? PGO, with(out)? LTO")
            self.assertRegex(text, r"a flush of 4 KiB \d+\.\d+ ms")
            self.assertRegex(text, r"\d\.\d\d of the two measured ones busy")
        self.assertIn("Warning", slow)
        self.assertNotIn("Warning", fast)
