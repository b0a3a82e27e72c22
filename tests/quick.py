"""The tests that a change needs: `.ci/quick [COMMIT]` chooses and runs them. `.ci/run` always runs everything.

A changed file needs the tests of its row in ROWS, those that import it, and those whose source has its path. A file of
a feature also needs the tests of the folders that import this feature, and those that read all of gamed/; a shared
module needs the rows of all folders that import it. A path without a row needs everything.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from subprocess import STDOUT, Popen, run
from tempfile import TemporaryFile
from time import monotonic

from msgspec import Struct

from tests.test_layout import imports

ROOT = Path(__file__).parent.parent
ALWAYS = {
    *("tests.test_docs", "tests.test_language", "tests.test_layout", "tests.test_page_commands", "tests.test_patterns"),
    *("tests.test_references", "tests.test_security", "tests.test_spec", "tests.packaging.test_source"),
}
"""Tests that read the whole tree: fifteen seconds."""
READERS = {
    *("tests.contract.test_document", "tests.contract.test_page", "tests.database.test_statements"),
    *("tests.ops.test_events", "tests.packaging.test_extras", "tests.packaging.test_licences"),
    *("tests.pages.test_languages", "tests.pages.test_texts", "tests.providers.test_presets"),
    *("tests.startup.test_routes", "tests.test_guides"),
}
"""Tests that read the source of all of gamed/, or import all of it: any change there may fail them."""
WHEEL = "tests.packaging.test_installed"
"""It compares the wheel with the files of gamed/ and etc/; Python files get there by their folder."""
SIGN_IN = (
    "tests.login tests.hostile tests.contract tests.processes.test_sign_in_races tests.e2e.test_main_job "
    "tests.e2e.test_two_windows tests.e2e.test_failing_sign_ins tests.e2e.test_qr tests.e2e.test_handoff "
    "tests.e2e.test_app_return tests.e2e.test_providers tests.e2e.test_asked_again tests.e2e.test_killed_sign_ins "
    "tests.e2e.test_secrets "
    "clients.conformance.tests.test_python"
)
PYTHON_CLIENT = "clients.python clients.packaging.tests.test_python clients.conformance.tests.test_python"
GODOT = "clients.godot3 clients.godot4 clients.conformance.tests.test_godot3 clients.conformance.tests.test_godot4"
ROWS = {
    "gamed/account": (
        "tests.account tests.contract tests.e2e.test_account_page tests.e2e.test_engines tests.e2e.test_links "
        "tests.e2e.test_erased"
    ),
    "gamed/assets": "tests.assets tests.contract clients.python.tests.assets",
    "gamed/cli": "tests.cli tests.startup tests.readme tests.dev tests.ops tests.e2e.test_main_job",
    "gamed/config": "tests.config tests.startup tests.test_guides tests.cli tests.e2e.test_owner_paths",
    "gamed/database": (
        "tests.database tests.processes tests.startup tests.cli tests.e2e.test_failing_disk tests.e2e.test_full_disk "
        "tests.e2e.test_locked_store tests.e2e.test_refused_writes"
    ),
    "gamed/database/postgresql": (
        "tests.database tests.processes tests.startup tests.cli tests.e2e.test_old_primary "
        "tests.e2e.test_postgresql_crashes tests.e2e.test_postgresql_outages tests.e2e.test_postgresql_replicas"
    ),
    "gamed/dev": (
        "tests.dev tests.readme tests.e2e.test_dev tests.e2e.test_demo tests.e2e.test_board tests.e2e.test_match "
        "tests.test_game_developers"
    ),
    "gamed/http": (
        "tests.http tests.contract tests.proxies tests.startup tests.e2e.test_bad_input tests.e2e.test_stopping "
        "clients.conformance.tests.test_python"
    ),
    "gamed/login": SIGN_IN,
    "gamed/notify": "tests.notify tests.cli.test_notify",
    "gamed/ops": "tests.ops tests.startup tests.cli.test_doctor_command",
    "gamed/owner": (
        "tests.owner tests.ops.test_admin tests.pages tests.cli.test_owner_page tests.e2e.test_owner_page "
        "tests.e2e.test_owner_site"
    ),
    "gamed/pages": (
        "tests.pages tests.login tests.account tests.owner tests.e2e.test_pages tests.e2e.test_languages "
        "tests.e2e.test_engines "
        "clients.packaging.tests.test_texts"
    ),
    "gamed/passkeys": (
        "tests.passkeys tests.account tests.cli.test_passkeys tests.e2e.test_passkeys tests.startup.test_late_passkeys "
        f"{SIGN_IN}"
    ),
    "gamed/players": "tests.players tests.contract tests.cli",
    "gamed/providers": f"tests.providers {SIGN_IN}",
    "gamed/saves": (
        "tests.saves tests.contract tests.processes.test_save_races tests.cli.test_saves tests.e2e.test_main_job "
        "tests.e2e.test_killed_saves tests.e2e.test_killed_commits tests.e2e.test_waits tests.e2e.test_export "
        "clients.conformance.tests.test_python"
    ),
    "gamed/sessions": "tests.sessions tests.contract tests.processes tests.e2e.test_main_job tests.e2e.test_secrets",
    "gamed/tickets": (
        "tests.tickets tests.contract tests.cli.test_rotate_tickets tests.processes.test_ticket_rotation "
        "tests.e2e.test_match clients.csharp.tests.test_tickets clients.godot4.tests.test_tickets "
        "clients.conformance.tests.test_python"
    ),
    "twisted": "tests.packaging tests.startup",
    "bench": "tests.bench",
    "clients/conformance": "clients.conformance",
    "clients/csharp": "clients.csharp clients.packaging clients.conformance.tests.test_csharp",
    "clients/gdlintrc": GODOT,
    "clients/godot3": f"{GODOT} clients.packaging",
    "clients/godot4": f"{GODOT} clients.packaging",
    "clients/js": (
        "clients.js clients.packaging.tests.test_javascript clients.conformance.tests.test_js tests.e2e.test_demo "
        "tests.e2e.test_match"
    ),
    "clients/packaging": "clients.packaging",
    "clients/build": "clients.packaging",
    "clients/project.json": "clients.packaging",
    "clients/texts.py": "clients.packaging clients.js tests.pages",
    "clients/python": f"{PYTHON_CLIENT} tests.support.python_client",
    "debian": "tests.packaging.test_release tests.packaging.test_licences",
    "docs": "tests.test_guides",
    "docs/openapi.yaml": "tests.contract clients.conformance.tests.test_runner",
    "docs/protocol.md": "tests.contract clients.conformance.tests.test_runner",
    "etc": "tests.ops tests.packaging tests.proxies tests.readme tests.cli.test_gamedctl tests.cli.test_samples",
    "examples": (
        "tests.e2e.test_demo tests.e2e.test_board tests.e2e.test_match tests.e2e.test_engines "
        "tests.tickets.test_samples clients.csharp.tests.test_tickets clients.godot4.tests.test_tickets clients.js"
    ),
    ".ci": "tests.readme tests.test_quick tests.packaging.test_extras",
    "README.md": "tests.readme tests.packaging",
    "CHANGELOG.md": "tests.cli.test_first_minute",
    "CONTRIBUTING.md": "tests.test_docs",
    "SECURITY.md": "tests.test_security",
    "clients/PACKAGES.md": "clients.packaging",
    "clients/PHONES.md": "tests.test_docs",
    "constraints.txt": "tests.packaging",
    "mkdocs.yml": "tests.test_docs",
}
"""Tests by path. The longest path counts; a module without `test_` in its name means the tests that import it."""
BY_ROW = {"tests.e2e.test_engines"}
"""Tests of minutes that import only words of pages and intervals: they run where a row names them."""
PARTS = {
    "gamed.cli.setup": "tests.cli.setup",
    "gamed.cli.data": (
        "tests.cli.test_kept_stores tests.cli.test_migrating tests.cli.test_move_store "
        "tests.cli.test_postgresql_backup"
    ),
    "gamed.cli.service": "tests.cli.test_stopping",
}
"""Tests of a part of a folder that start many whole servers: most of the time of tests.cli. A feature that the
part does not import has them left out."""
WHOLE = ("tests", "clients")
ONLY_GATE = ("the container: .ci/container", "the README's first command: .ci/run")
"""Checks that no change makes this program run: they build or install everything anew."""
STORED = (
    "tests.account",
    "tests.database",
    "tests.login",
    "tests.notify",
    "tests.passkeys",
    "tests.players",
    "tests.saves",
    "tests.sessions",
    "tests.tickets",
)
"""Folders whose tests `.ci/run` also runs on PostgreSQL."""
WIRING = {"__init__", "__main__", "clock", "context", "service", "stores", "tap"}
"""Modules that build everything, or are in everything: they have no row, and count as no folder's importers."""


def is_below(name: str, packages: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


class Sources:
    """The Python files of a checkout, and which of them import which."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Each module's source by its name."""
        found = {}
        for top in ("gamed", "tests", "clients", "bench"):
            for file in (self._root / top).rglob("*.py"):
                parts = file.relative_to(self._root).with_suffix("").parts
                if "node_modules" not in parts:
                    found[".".join(parts).removesuffix(".__init__")] = file.read_text("utf-8")
        return found

    @cached_property
    def tests(self) -> set[str]:
        return {name for name in self.texts if name.rpartition(".")[2].startswith("test_")}

    def is_package(self, name: str) -> bool:
        return (self._root / name.replace(".", "/")).is_dir()

    @cached_property
    def _importers(self) -> Mapping[str, set[str]]:
        """The modules that import a module, or a module of that package, by the name of the module or package."""
        found: dict[str, set[str]] = {}
        for name, text in self.texts.items():
            for target in {name.rpartition(".")[0], *imports(text, self.texts)}:
                parts = target.split(".")
                for length in range(1, len(parts) + 1):
                    found.setdefault(".".join(parts[:length]), set()).add(name)
        return found

    def testing(self, module: str) -> set[str]:
        """Return the test modules that import a module of tests/, clients/ or bench/, directly or through others."""
        seen, waiting = {module}, [module]
        while waiting:
            for name in self._importers.get(waiting.pop(), set()) - seen:
                if not name.startswith("gamed."):
                    seen.add(name)
                    waiting.append(name)
        return seen & self.tests

    def direct(self, module: str) -> set[str]:
        return self._importers.get(module, set()) & self.tests - BY_ROW

    def using(self, feature: str, folder: str) -> set[str]:
        """Return the tests of a folder of the package that imports this feature."""
        package, importers = f"tests.{folder}", self._importers.get(f"gamed.{feature}", ())
        out = {
            test
            for part, tests in PARTS.items()
            if not any(is_below(name, {part}) for name in importers)
            for test in tests.split()
            if is_below(test, {package})
        }
        if not out:
            return {package} & self.texts.keys()
        return {name for name in self.tests if is_below(name, {package}) and not is_below(name, out)}

    def folders_importing(self, folder: str) -> set[str]:
        """Return the folders and shared modules of the package that import a module of this one."""
        parts = (name.split(".") for name in self._importers.get(f"gamed.{folder}", ()) if name.startswith("gamed."))
        return {part[1] for part in parts} - {folder} - WIRING

    @cached_property
    def _all_texts(self) -> str:
        return "\n".join(self.texts.values())

    @cached_property
    def _lines_of_paths(self) -> str:
        """Each line that may have a path of a folder: a tenth of all text."""
        return "\n".join({line for line in self._all_texts.splitlines() if "/" in line})

    def naming(self, path: str) -> set[str]:
        """Return the test modules that have this path anywhere, and those that import a helper with it as a string."""
        if path not in (self._lines_of_paths if "/" in path else self._all_texts):
            return set()
        tests = {name for name in self.tests if path in self.texts[name]} - {"tests.test_quick"}
        helpers = {name for name, text in self.texts.items() if f'"{path}"' in text} - {"tests.quick", *self.tests}
        return tests.union(*(self.testing(name) for name in helpers if not name.startswith("gamed.")))


def row(path: str) -> set[str] | None:
    """Return the tests of the longest path in ROWS that is this path or a folder of it."""
    fitting = [each for each in ROWS if f"{path}/".startswith(f"{each}/")]
    return set(ROWS[max(fitting, key=len)].split()) if fitting else None


def needed(path: str, sources: Sources) -> set[str] | None:
    """Return the tests that a changed path needs, or None if they are all."""
    top, *below = path.split("/")
    module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    if top == "gamed":
        tests = needed_by_package(module, path, sources)
    elif top == "tests" and len(below) == 1 and module not in sources.tests:
        tests = sources.testing(module) if module in sources.texts and below != ["__init__.py"] else None
    elif module in sources.tests:
        tests = sources.testing(module)
    elif top == "tests":
        # A helper that tests start as a program, a file that is not Python, or one that is gone.
        package = ".".join(path.split("/")[:2])
        tests = sources.testing(module) if module in sources.texts else set()
        tests = tests or {package} | sources.testing(package)
    else:
        tests = row(path)
    return None if tests is None else tests | sources.naming(path)


def needed_by_package(module: str, path: str, sources: Sources) -> set[str] | None:
    """Return the tests that a change of the package needs: its row, and those of the folders that import it."""
    name = path.removesuffix(".py").split("/")[1]
    tests, importing = row(path), sources.folders_importing(name)
    if name in WIRING or (tests is None and (path != f"gamed/{name}.py" or not importing)):
        return None
    if tests is not None:
        tests = tests.union(*(sources.using(name, each) for each in importing))
    else:
        seen, waiting, tests = {name}, [name], {"tests.util"}
        while waiting:
            for folder in sources.folders_importing(waiting.pop()) - seen:
                seen.add(folder)
                if (found := row(f"gamed/{folder}")) is None:
                    waiting.append(folder)
                else:
                    tests |= found
    return tests | sources.direct(module) | READERS | (set() if path.endswith(".py") else {WHEEL})


class TestPlan(Struct, frozen=True):
    """The tests and checks that a change needs."""

    tests: list[str]
    """Names for trial; none is below another."""
    ruff: bool
    mypy: bool
    site: bool
    """Whether the site of the documentation is built."""
    walk: bool
    """Whether the walk is taken: only after a change of the walk itself, because it takes minutes."""

    @property
    def stored(self) -> list[str]:
        """The tests that run once more on PostgreSQL."""
        names = [each for each in STORED if is_below(each, self.tests)]
        names += [each for each in self.tests if is_below(each, STORED) and each not in STORED]
        return sorted(names)


def make_plan(paths: Iterable[str], sources: Sources) -> TestPlan:
    """Return what a change of these paths needs."""
    found, paths, whole = {*ALWAYS}, list(paths), False
    for path in paths:
        names = needed(path, sources)
        whole |= names is None
        for name in WHOLE if names is None else names:
            # A helper means the tests that import it.
            is_helper = name in sources.texts and name not in sources.tests and not sources.is_package(name)
            found |= sources.testing(name) if is_helper else {name}
    return TestPlan(
        sorted(name for name in found if not is_below(name, found - {name})),
        ruff=whole or any(path.endswith((".py", ".toml")) for path in paths),
        mypy=whole or any(path.startswith(("gamed/", "twisted/")) for path in paths),
        site=whole or any(path.endswith(".md") or path in {"mkdocs.yml", ".ci/site.py", ".ci/docs"} for path in paths),
        walk=whole or any(path.startswith(("tests/walk/", ".ci/walk")) for path in paths),
    )


def git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, or None if it fails."""
    done = run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def changed_files(root: Path, commit: str | None) -> list[str]:
    """Return the paths that differ from a commit, and files that git does not know; a renamed file has both paths.

    Without a commit it is the last one that HEAD and origin/main, or main, have in common. Raise SystemExit if git
    knows none.
    """
    if commit is None:
        bases = (git(root, "merge-base", "HEAD", branch) for branch in ("origin/main", "main"))
        commit = next((base.strip() for base in bases if base), None)
        if commit is None:
            raise SystemExit("There is no origin/main and no main. Name a commit: .ci/quick COMMIT")
    tracked = git(root, "diff", "--name-only", "--no-renames", "-z", commit, "--")
    if tracked is None:
        raise SystemExit(f"git does not know {commit}. Name a commit: .ci/quick COMMIT")
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return sorted({*tracked.split("\0"), *new.split("\0")} - {""})


def left_out(plan: TestPlan, sources: Sources) -> Iterator[str]:
    """Yield what the plan does not run, by folder."""
    folders: dict[str, list[str]] = {}
    for name in sources.tests:
        parts = name.split(".")
        folders.setdefault(".".join(parts[:2] if len(parts) > 2 else parts[:1]), []).append(name)
    for folder, names in sorted(folders.items()):
        missing = [name for name in names if not is_below(name, plan.tests)]
        if missing:
            yield folder if len(missing) == len(names) else f"{len(missing)} of {len(names)} modules of {folder}"
    if missing := [name for name in STORED if name not in plan.stored]:
        yield f"on PostgreSQL {', '.join(missing)}"
    checks = (("ruff", plan.ruff), ("mypy", plan.mypy), ("the site", plan.site), ("the walk: .ci/walk", plan.walk))
    yield from (name for name, runs in checks if not runs)
    yield from ONLY_GATE


def jobs(plan: TestPlan) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Yield name, command and environment of what runs."""
    python = [sys.executable, "-m"]
    trial = [*python, "twisted.trial"]
    if plan.ruff:
        yield "ruff", [*python, "ruff", "check", "."], {}
    if plan.mypy:
        yield "mypy", [*python, "mypy"], {}
    if plan.site:
        yield "site", [*python, "mkdocs", "build", "--strict", "--quiet"], {"NO_MKDOCS_2_WARNING": "1"}
    if plan.walk:
        yield "walk", [".ci/walk"], {}
    yield "tests", [*trial, "-j4", "--temp-directory=_trial_temp.quick", *plan.tests], {}
    if plan.stored:
        # The tests above wait for much of their time.
        words = ["nice", "-n5", *trial, "-j2", "--temp-directory=_trial_temp.quick-postgresql", *plan.stored]
        yield "postgresql", words, {"GAMED_TEST_STORE": "postgresql"}


def run_plan(plan: TestPlan, root: Path) -> bool:
    """Run everything of the plan at the same time, print a line for each and the output of what fails."""
    began, running = monotonic(), []
    try:
        for name, words, variables in jobs(plan):
            output = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - read when the process has ended
            process = Popen(words, cwd=root, env={**os.environ, **variables}, stdout=output, stderr=STDOUT)
            running.append((name, process, output))
        for name, process, output in running:
            status = process.wait()
            output.seek(0)
            lines = output.read().splitlines()
            if status:
                print("\n".join(lines[-200:]))
            counts = f" {lines[-1]}" if lines and lines[-1].startswith(("PASSED", "FAILED")) else ""
            print(f"{name}: exit {status} after {monotonic() - began:.0f} s{counts}", flush=True)
    finally:
        for _, process, _ in running:
            if process.poll() is None:
                process.terminate()
                process.wait()
    used = getrusage(RUSAGE_CHILDREN)
    print(f"{monotonic() - began:.0f} s; processors worked {used.ru_utime + used.ru_stime:.0f} s")
    return all(process.returncode == 0 for _, process, _ in running)


def main() -> None:
    parser = ArgumentParser(prog=".ci/quick", description="Run the tests, ruff and mypy that a change needs.")
    parser.add_argument("commit", nargs="?", help="compare with it; default: where HEAD left origin/main, or main")
    parser.add_argument("--list", action="store_true", help="print what would run")
    options = parser.parse_args()
    paths, sources = changed_files(ROOT, options.commit), Sources(ROOT)
    if not paths:
        print("Nothing has changed.")
        return
    plan = make_plan(paths, sources)
    print(f"{len(paths)} changed files need:", *(f"  {name}" for name in plan.tests), sep="\n")
    print("left out:", *(f"  {each}" for each in left_out(plan, sources)), sep="\n", flush=True)
    if not options.list and not run_plan(plan, ROOT):
        sys.exit(1)


if __name__ == "__main__":
    main()
