"""The defects that can be planted for the walk fit this version; `python -m tests.walk.planted` tries them."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.walk.planted import DEFECTS, ENGINES, ROOT, Defect, Edit, failure, plant
from tests.walk.story import STEPS


class PlantedTest(SynchronousTestCase):
    def copy(self, defect: Defect) -> Path:
        """Return a folder with the files that the defect changes."""
        root = Path(self.mktemp())
        for edit in defect.edits:
            (root / edit.file).parent.mkdir(parents=True, exist_ok=True)
            (root / edit.file).write_bytes((ROOT / edit.file).read_bytes())
        return root

    def test_all_fit(self) -> None:
        """Each text to replace is in its file once."""
        for name, defect in DEFECTS.items():
            root = self.copy(defect)
            plant(defect, root)
            for edit in defect.edits:
                self.assertIn(edit.wrong, (root / edit.file).read_text("utf-8"), name)

    def test_python_compiles(self) -> None:
        """A changed Python file is still Python, so that the walk does not fail for that alone."""
        for name, defect in DEFECTS.items():
            root = self.copy(defect)
            plant(defect, root)
            for file in {edit.file for edit in defect.edits if edit.file.endswith(".py")}:
                compile((root / file).read_text("utf-8"), f"{name}: {file}", "exec")

    def test_steps(self) -> None:
        """Each defect names a step of the walk and its stores."""
        steps = {step.__name__ for step in STEPS}
        self.assertEqual([name for name, each in DEFECTS.items() if each.step not in steps], [])
        self.assertEqual([name for name, each in DEFECTS.items() if not {*each.engines} <= {*ENGINES}], [])

    def test_text_is_gone(self) -> None:
        """A text that is not in its file, or twice, is an error."""
        root = Path(self.mktemp())
        root.mkdir()
        for text in ("planted", "right right"):
            (root / "file").write_text(text)
            edits = [Edit("file", "right", "wrong")]
            self.assertRaisesRegex(ValueError, "file has this text", plant, Defect("", edits, "unlink", []), root)

    def test_failure(self) -> None:
        """The report begins at the step that failed, and has the log."""
        lines = ["ok 1 s tools", "FAILED 2 s unlink", "the trouble", "-- the log of home", "a line"]
        self.assertEqual(failure(lines), lines[1:])
        self.assertEqual(failure(lines[:1]), [])
