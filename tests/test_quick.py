"""`.ci/quick` chooses at least the tests that a change needs; changes are planted."""

import re
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from tests.quick import (
    ALWAYS,
    ONLY_GATE,
    READERS,
    ROOT,
    ROWS,
    STORED,
    WHEEL,
    Sources,
    TestPlan,
    changed_files,
    is_below,
    jobs,
    left_out,
    make_plan,
)
from tests.support.folders import unused_path

WHOLE_PATHS = {
    *(".gitignore", "MANIFEST.in", "pyproject.toml", "setup.py", "clients/__init__.py", "tests/__init__.py"),
    *("gamed/__init__.py", "gamed/__main__.py", "gamed/clock.py", "gamed/context.py", "gamed/service.py"),
    *("gamed/py.typed", "gamed/stores.py", "gamed/tap.py"),
}
"""The files of the project that need everything."""
SOURCES = Sources(ROOT)


def plan(*paths: str) -> TestPlan:
    return make_plan(paths, SOURCES)


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split("\0") if path and (ROOT / path).exists()]


class PlanTests(SynchronousTestCase):
    def test_planted_changes(self) -> None:
        """A change runs the tests of its own folder, and those of what uses it."""
        for path, wanted in (
            ("gamed/saves/model.py", "tests.saves tests.contract clients.conformance.tests.test_python tests.account"),
            ("gamed/saves/planted.py", "tests.saves tests.account"),
            ("gamed/login/start.py", "tests.login tests.hostile tests.contract tests.account tests.e2e.test_main_job"),
            ("gamed/login/browser_routes.py", "tests.e2e.test_handoff tests.e2e.test_app_return"),
            (
                "gamed/login/collect.py",
                "tests.e2e.test_providers tests.e2e.test_handoff clients.conformance.tests.test_python",
            ),
            ("gamed/providers/oidc.py", "tests.e2e.test_providers"),
            ("gamed/pages/templates/base.html", f"tests.pages tests.e2e.test_pages tests.e2e.test_languages {WHEEL}"),
            ("gamed/assets/store.py", "tests.assets tests.cli.test_closed_python"),
            ("gamed/sessions/store.py", "tests.sessions tests.cli.test_closed_python"),
            ("gamed/players/names.py", "tests.players tests.login tests.sessions tests.saves tests.account"),
            ("gamed/players/planted.py", "tests.cli.test_people tests.cli.test_closed_python tests.cli.test_restore"),
            ("gamed/config/model.py", "tests.cli"),
            ("gamed/cli/setup/plan.py", "tests.cli"),
            ("gamed/account/views.py", "tests.e2e.test_engines"),
            ("gamed/owner/views.py", "tests.e2e.test_owner_site"),
            ("gamed/http/app.py", "tests.http tests.saves tests.login tests.assets tests.contract tests.proxies"),
            ("gamed/database/queues.py", "tests.database tests.saves tests.login tests.sessions tests.processes"),
            ("gamed/database/sqlite/schema/state/9999.sql", "tests.database tests.saves"),
            ("gamed/cli/data/check.py", "tests.cli tests.readme"),
            ("gamed/crypto.py", "tests.util tests.login tests.saves tests.sessions tests.players tests.providers"),
            ("gamed/gc_pause.py", "tests.cli"),
            ("gamed/readable.py", "tests.util tests.account tests.cli tests.ops"),
            ("tests/saves/test_planted.py", ""),
            ("tests/saves/test_model.py", "tests.saves.test_model"),
            ("tests/saves/helpers.py", "tests.saves.test_commit tests.account.test_routes"),
            ("tests/saves/gone.py", "tests.saves tests.account.test_routes"),
            ("tests/support/nodejs.py", "tests.e2e.test_demo tests.test_game_developers clients.js.tests.test_js"),
            ("tests/e2e/node/package.json", "tests.e2e"),
            ("tests/e2e/play_oidc_provider_mock.py", "tests.e2e"),
            ("tests/contract/schemathesis.toml", "tests.contract"),
            ("tests/quick.py", "tests.test_quick"),
            ("tests/walk/story.py", "tests.walk.test_planted"),
            ("tests/walk/gone.py", "tests.walk"),
            ("bench/rows.py", "tests.bench"),
            ("clients/js/gamed.mjs", "clients.js clients.conformance.tests.test_js tests.e2e.test_demo"),
            ("clients/python/gamed_client/sync.py", "clients.python tests.e2e.test_main_job tests.contract.test_live"),
            ("clients/conformance/gamed_conformance/planted.py", "clients.conformance"),
            ("clients/godot4/gamed.gd", "clients.godot3 clients.godot4"),
            ("docs/owners/monitoring.md", "tests.readme.test_players_page"),
            ("docs/owners/events.md", "tests.ops.test_events tests.ops.test_audit_lines"),
            ("docs/owners/metrics.md", "tests.ops.test_admin"),
            ("docs/owners/commands.md", "tests.cli.test_help tests.cli.test_commands"),
            ("docs/openapi.yaml", "tests.contract"),
            ("docs/internals/licences.md", "tests.packaging.test_licences"),
            ("etc/systemd/gamed.service", "tests.ops tests.packaging tests.readme.test_owner_guide"),
            ("examples/garden/planted.mjs", "tests.e2e.test_demo clients.js"),
            (".ci/docs", "tests.readme tests.packaging.test_extras"),
        ):
            found = plan(path).tests
            missing = [name for name in {*ALWAYS, *wanted.split()} if not is_below(name, found)]
            self.assertEqual(missing, [], path)
            self.assertNotIn("tests", found, path)

    def test_longest(self) -> None:
        """A change of a feature does not run tests of minutes that only start it beside others."""
        for path in ("gamed/saves/service.py", "gamed/login/local.py", "gamed/sessions/planted.py"):
            found = plan(path).tests
            self.assertIn("tests.cli.test_saves", found, path)
            for name in ("tests.cli.setup", "tests.bench.test_scripts", "tests.e2e.test_engines"):
                self.assertFalse(any(is_below(each, {name}) for each in found) or is_below(name, found), (path, name))
        self.assertIn("tests.bench.test_where", plan("gamed/saves/service.py").tests)

    def test_readers_of_the_package(self) -> None:
        """A change anywhere in gamed/ runs each test that reads all of it, itself or by a helper."""
        reads_all = re.compile(r"(?:\"gamed\"\)|gamed\.__file__\)\.parent|PACKAGE|\bROOT)\.r?glob\(\"\*[^\"]*\.py\"\)")
        read = {
            test
            for name, text in SOURCES.texts.items()
            if name.startswith("tests.") and reads_all.search(text)
            for test in ({name} if name in SOURCES.tests else SOURCES.testing(name))
        }
        self.assertLessEqual({"tests.database.test_statements", "tests.contract.test_document"}, read)
        for path in ("gamed/saves/model.py", "gamed/login/collect.py", "gamed/crypto.py", "gamed/config/planted.py"):
            found = plan(path).tests
            wanted = {*read, *READERS} - {WHEEL}
            self.assertEqual([name for name in sorted(wanted) if not is_below(name, found)], [], path)

    def test_each_has_a_change(self) -> None:
        """Each end-to-end test is chosen after a change of some folder of gamed/, but the one of the pictures."""
        chosen = {name for path in ROWS if path.startswith("gamed/") for name in plan(f"{path}/planted.py").tests}
        ours = {name for name in SOURCES.tests if name.startswith("tests.e2e.")}
        self.assertEqual({name for name in ours if not is_below(name, chosen)}, {"tests.e2e.test_screenshots"})

    def test_unknown_paths(self) -> None:
        """A path that no row names needs everything, alone or beside others."""
        for path in ("planted.py", "planted/file.txt", "gamed/planted.py", "gamed/planted/model.py", "setup.py"):
            for paths in ([path], ["docs/faq.md", path]):
                found = plan(*paths)
                self.assertEqual(found.tests, ["clients", "tests"], paths)
                self.assertEqual((found.ruff, found.mypy, found.site, found.walk), (True, True, True, True))
                self.assertEqual(found.stored, [*STORED])
                self.assertEqual(list(left_out(found, SOURCES)), [*ONLY_GATE])

    def test_every_file_is_known(self) -> None:
        """Each existing file has a row, unless everything depends on it."""
        self.assertEqual({path for path in tracked() if "clients" in plan(path).tests} ^ WHOLE_PATHS, set())

    def test_rows_are_real(self) -> None:
        """Each row's path and tests exist."""
        self.assertEqual([path for path in ROWS if not (ROOT / path).exists()], [])
        names = {name for row in ROWS.values() for name in row.split()} | {*ALWAYS, *READERS, *STORED, WHEEL}
        self.assertEqual([name for name in names if name not in SOURCES.texts], [])

    def test_checks(self) -> None:
        """ruff runs for Python files, mypy for the package, the site for pages."""
        found = [
            (each.ruff, each.mypy, each.site)
            for each in map(
                plan, ("gamed/saves/model.py", "tests/saves/helpers.py", "docs/faq.md", "clients/js/gamed.mjs")
            )
        ]
        self.assertEqual(
            found, [(True, True, False), (True, False, False), (False, False, True), (False, False, False)]
        )

    def test_walk(self) -> None:
        """A change of the walk takes it; any other change names it among what is left out, with its command."""
        for path in (".ci/walk", "tests/walk/story.py", "tests/walk/gone.py"):
            self.assertIn("walk", [name for name, _, _ in jobs(plan(path))], path)
        for path in ("gamed/saves/model.py", "docs/faq.md", "tests/saves/helpers.py"):
            self.assertNotIn("walk", [name for name, _, _ in jobs(plan(path))], path)
            self.assertIn("the walk: .ci/walk", list(left_out(plan(path), SOURCES)), path)

    def test_only_the_gate(self) -> None:
        """The container and the README's first command are always among what is left out."""
        for path in ("etc/Containerfile", "README.md", "setup.py", "docs/faq.md"):
            self.assertLessEqual({*ONLY_GATE}, {*left_out(plan(path), SOURCES)}, path)

    def test_on_postgresql(self) -> None:
        """Tests of what is stored run on PostgreSQL too, whole folders or single modules."""
        self.assertIn("tests.saves", plan("gamed/saves/model.py").stored)
        self.assertEqual(plan("tests/saves/test_model.py").stored, ["tests.saves.test_model"])
        self.assertEqual(plan("docs/faq.md").stored, [])

    def test_left_out(self) -> None:
        """The plan names folders, parts of folders and checks that do not run."""
        lines = list(left_out(plan("tests/saves/test_model.py"), SOURCES))
        self.assertLessEqual({"tests.bench", "clients.godot4", "mypy", "the site"}, {*lines})
        self.assertNotIn("ruff", lines)
        self.assertTrue(any(line.endswith(" modules of tests.saves") for line in lines), lines)
        self.assertTrue(any(line.startswith("on PostgreSQL tests.account, ") for line in lines), lines)


class ChangedFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = unused_path(self)
        self.root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("old", "kept", "moved")
        self.commit()

    def git(self, *arguments: str) -> None:
        words = ["git", "-c", "user.name=Planted", "-c", "user.email=planted@example.org", *arguments]
        subprocess.run(words, cwd=self.root, capture_output=True, check=True)

    def write(self, *names: str) -> None:
        for name in names:
            (self.root / name).write_text(f"{name}\n")

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=Plant a change")

    def test_all_kinds(self) -> None:
        """Commits since main, changes without a commit, new and deleted files, and both paths of a rename count."""
        self.git("switch", "--quiet", "--create", "work")
        self.write("committed")
        self.commit()
        self.git("mv", "moved", "there")
        (self.root / "old").unlink()
        self.write("blank and ü")
        self.assertEqual(changed_files(self.root, None), ["blank and ü", "committed", "moved", "old", "there"])
        self.assertEqual(changed_files(self.root, "HEAD"), ["blank and ü", "moved", "old", "there"])

    def test_changes_of_main(self) -> None:
        """Commits of main after the branch began do not count."""
        self.git("branch", "work")
        self.write("other")
        self.commit()
        self.git("switch", "--quiet", "work")
        self.assertEqual(changed_files(self.root, None), [])

    def test_unknown_commit(self) -> None:
        """A commit that git does not know is an error, and so is a missing main."""
        self.assertRaises(SystemExit, changed_files, self.root, "planted")
        self.git("branch", "--move", "other")
        self.assertRaises(SystemExit, changed_files, self.root, None)


class GateTests(SynchronousTestCase):
    def test_the_gate_runs_everything(self) -> None:
        """`.ci/run` does not use the choice."""
        self.assertNotIn("quick", (ROOT / ".ci/run").read_text("utf-8"))
