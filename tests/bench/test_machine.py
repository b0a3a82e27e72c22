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

    def test_arguments_of_another_build(self) -> None:
        """A program that does not load the shared library that was configured may be optimized or not."""
        shared = "'--enable-shared' '--prefix=/usr'"
        self.assertEqual(interpreter_build(shared, library=False), {"PGO": None, "LTO": None})
        self.assertEqual(interpreter_build(shared, library=True), {"PGO": False, "LTO": False})


class StateTests(SynchronousTestCase):
    def test_it_is_printed(self) -> None:
        """The text names interpreter, flush time and foreign load; only a build without PGO gets a warning."""
        Path(folder := self.mktemp()).mkdir()
        found = state(Path(folder))
        slow, fast, unknown = ("\n".join(lines({**found, "pgo": pgo, "lto": True})) for pgo in (False, True, None))
        self.assertIn("built perhaps with PGO, with LTO", unknown)
        for text in (slow, fast, unknown):
            self.assertRegex(text, r"built (perhaps )?with(out)? PGO, with LTO")
            self.assertRegex(text, r"a flush of 4 KiB \d+\.\d+ ms")
            self.assertRegex(text, r"\d\.\d\d of the two measured ones busy")
        self.assertIn("Warning", slow)
        self.assertNotIn("Warning", fast + unknown)
