"""The suite notices when a defence is taken out: its tests must fail on every mutant (PROTOCOL 3.3, 3.4)."""

import json
import subprocess
import sys
from atexit import register
from collections.abc import Iterable
from functools import cache
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.mutants import callback, gate, proof
from tests.mutants.mutant import Mutant
from tests.mutants.workshop import LIVES, NOTICED
from tests.support.covers import covers

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


class Workshop:
    """One for each process of tests, for as long as that lives."""

    def __init__(self) -> None:
        self.folder = TemporaryDirectory()
        kept = {name: environ[name] for name in KEPT if name in environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.workshop"],
            cwd=self.folder.name,
            env={**kept, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        register(self.close)

    def close(self) -> None:
        self.process.communicate()
        self.folder.cleanup()

    def verdict(self, file: str, source: str, tests: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps({"file": file, "source": source, "tests": tests}), file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()


workshop = cache(Workshop)


class MutantCase(SynchronousTestCase):
    def noticed(self, mutant: Mutant) -> None:
        source = mutant.applied((ROOT / mutant.file).read_text("utf-8"))
        compile(source, mutant.file, "exec")
        self.assertEqual(workshop().verdict(mutant.file, source, mutant.noticed_by), NOTICED, mutant.name)

    def unchanged(self, mutants: Iterable[Mutant]) -> None:
        """What the tests notice is the mutant: without it they pass."""
        first = {mutant.noticed_by: mutant for mutant in mutants}
        for mutant in first.values():
            source = (ROOT / mutant.file).read_text("utf-8")
            self.assertEqual(workshop().verdict(mutant.file, source, mutant.noticed_by), LIVES, mutant.noticed_by)


@covers("2.3/7")
class Callback(MutantCase):
    def test_unchanged(self) -> None:
        """Without a mutant all pass."""
        self.unchanged(callback.CHECKS)

    def test_every_check_has_one(self) -> None:
        """The eight of PROTOCOL's table."""
        self.assertEqual({mutant.name[0] for mutant in callback.CHECKS}, set("12345678"))


@covers("threats/16")
class Gate(MutantCase):
    def test_unchanged(self) -> None:
        """Without a mutant all pass."""
        self.unchanged(gate.CHECKS)

    def test_every_check_has_one(self) -> None:
        """Form, header, key, signature and each claim."""
        found = {mutant.name.partition("_")[0] for mutant in gate.CHECKS}
        self.assertLessEqual(
            {"form", "header", "key", "signature", "iss", "aud", "azp", "exp", "nbf", "iat", "nonce", "sub"}, found
        )


class Proof(MutantCase):
    def test_unchanged(self) -> None:
        """Without a mutant all pass."""
        self.unchanged(proof.CHECKS)


def _made(mutant: Mutant) -> Any:
    method = lambda self: self.noticed(mutant)  # noqa: E731
    method.__doc__ = f"{mutant.file}: `{mutant.old.strip()}` -> `{mutant.new}`"
    return method


for _case, _mutants in ((Callback, callback.CHECKS), (Gate, gate.CHECKS), (Proof, proof.CHECKS)):
    for _mutant in _mutants:
        assert not hasattr(_case, f"test_{_mutant.name}"), _mutant.name
        setattr(_case, f"test_{_mutant.name}", _made(_mutant))
del _case  # a second name for a class makes trial run its tests twice
