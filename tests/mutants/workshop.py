"""A process that tries mutants: libraries are imported once, each mutant has a fork of its own, no file is changed.

`python -m tests.mutants.workshop` reads one JSON object per line, `{"file", "source", "tests"}`, and answers one word
per line: `noticed` if a test of that module failed on that source, `lives` if all passed, `broken` for anything else.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from io import StringIO
from types import CodeType, ModuleType
from unittest import TestCase, TestSuite, TextTestRunner, defaultTestLoader

SECONDS = 300
NOTICED, LIVES, BROKEN = "noticed", "lives", "broken"
LIBRARIES = (
    "hypothesis",
    "joserfc.jws",
    "joserfc.jwk",
    "klein",
    "msgspec",
    "treq.testing",
    "argon2",
    "yaml",
    "twisted.enterprise.adbapi",
)


class Altered(SourceFileLoader):
    """One module, by another source."""

    source = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)


class Finder(MetaPathFinder):
    def __init__(self, file: str, source: str) -> None:
        self.name = file.removesuffix(".py").replace("/", ".")
        self.file = os.path.join(os.environ["PYTHONPATH"], file)
        self.source = source
        self.found = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        self.found = True
        loader = Altered(fullname, self.file)
        loader.source = self.source
        return spec_from_file_location(fullname, self.file, loader=loader)


def examples(suite: TestSuite) -> Iterator[TestCase]:
    """Those that say the same on every run."""
    for each in suite:
        if isinstance(each, TestSuite):
            yield from examples(each)
        elif not getattr(getattr(each, each._testMethodName, None), "is_hypothesis_test", False):
            yield each


def verdict(asked: dict[str, str]) -> str:
    finder = Finder(asked["file"], asked["source"])
    sys.meta_path.insert(0, finder)
    tests = list(examples(defaultTestLoader.loadTestsFromName(asked["tests"])))
    if not finder.found or not tests or any("_FailedTest" in repr(test) for test in tests):
        return BROKEN
    result = TextTestRunner(StringIO(), failfast=True).run(TestSuite(tests))
    return LIVES if result.wasSuccessful() else NOTICED


def tried(asked: dict[str, str]) -> str:
    """In a fork, so that no module of one mutant is there for the next."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        words = [NOTICED, LIVES, BROKEN]
        try:
            said = words.index(verdict(asked))
        except BaseException:
            said = 2
        os._exit(said)
    _, status = os.waitpid(child, 0)
    return [NOTICED, LIVES, BROKEN][os.WEXITSTATUS(status)] if os.WIFEXITED(status) else BROKEN


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in LIBRARIES:
        __import__(name)
    for line in sys.stdin:
        print(tried(json.loads(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
