"""A release has only paths that every file system can hold (docs/owners/assets.md: What is refused)."""

from unicodedata import normalize

from hypothesis import given
from hypothesis.strategies import characters, lists, one_of, sampled_from, text
from twisted.trial.unittest import SynchronousTestCase

from gamed.assets.paths import (
    check_every_rule,
    conflicting_paths,
    fold_key,
    normalize_path,
    normalize_requested,
    path_error,
)
from tests.support.covers import covers

ANY = text(characters(exclude_categories=()))
STRANGE = ["con", "Aux.txt", "nul ", "nul .x", "com1", "com10", "conin$", "CONOUT$.a", "lpt0", "lpt", ".", "..", ".a"]
SEGMENTS = sampled_from(
    [*STRANGE, "a", "B.c", "a.", "a ", "", *("x" * size for size in (254, 255, 256)), *"~[]\\*'\"é"]
)
NAMES = text(characters(codec="utf-8", exclude_categories=("Cc", "Cn", "Zl", "Zp"), exclude_characters='\\/<>:"|?*'))


@covers("threats/58")
class PathErrorTests(SynchronousTestCase):
    def test_good_paths(self) -> None:
        """Letters of every script, spaces, dots, long names and deep folders are valid."""
        for path in (
            "data/level1.pck",
            "a",
            ".hidden",
            "...a",
            "README",
            "Straße/überall/日本語.txt",
            "with space/and, more (1).png",
            "console.txt",
            "com10",
            "family-\U0001f468\u200d\U0001f469\u200d\U0001f467.png",
            "x" * 255,
            "/".join(["a" * 100] * 10),
            "%2e%2e",
            "~",
            "-rf",
        ):
            self.assertIsNone(path_error(path), path)

    def test_bad_paths(self) -> None:
        """Traversal, control characters and names that Windows reads differently are refused."""
        for path, reason in (
            ("", "empty"),
            ("/etc/passwd", "empty"),
            ("a//b", "empty"),
            ("a/", "empty"),
            ("a/./b", ". or .."),
            ("../a", ". or .."),
            ("a/../../b", ". or .."),
            ("a\\b", "\\"),
            ("a\x00b", "control"),
            ("a\nb", "control"),
            ("a\x7f", "control"),
            ("a\x85", "control"),
            ("a\u2028b", "control"),
            ("a\udcff", "UTF-8"),
            ("a\u0378", "assigned"),
            ("e\u0301", "NFC"),
            ("x" * 256, "255"),
            ("é" * 128, "255"),
            ("/".join(["a" * 102] * 10), "1024"),
            ("a./b", "dot or a space"),
            ("a /b", "dot or a space"),
            ("C:/Windows/x", "Windows"),
            ("a:b", "Windows"),
            ("what?", "Windows"),
            ("a|b", "Windows"),
            ("con", "device"),
            ("a/NUL.txt/b", "device"),
            ("Com1.tar.gz", "device"),
            ("lpt¹", "device"),
            ("aux .txt", "device"),
            ("CONIN$", "device"),
        ):
            self.assertIn(reason, str(path_error(path)), path)

    @given(ANY)
    def test_what_passes_is_one_place_below(self, path: str) -> None:
        """Every valid path is UTF-8 in NFC and stays below its folder."""
        if path_error(path) is None:
            self.assertEqual(normalize("NFC", path).encode().decode(), path)
            self.assertTrue(all(segment not in ("", ".", "..") for segment in path.split("/")))
            self.assertTrue(all(segment.isprintable() or not segment.isascii() for segment in path.split("/")))
            self.assertFalse(set("\\\0:") & set(path))

    @given(one_of(ANY, text("aA./ \\con:~\x7f", max_size=12), lists(SEGMENTS, max_size=4).map("/".join)))
    def test_first_sight(self, path: str) -> None:
        """The short cut and the complete check give the same result."""
        self.assertEqual(path_error(path), check_every_rule(path))

    def test_first_sight_of_each_character(self) -> None:
        """They do so for each ASCII character at the begin, in the middle and at the end of a name."""
        for character in map(chr, range(128)):
            for path in (f"{character}a", f"a{character}b", f"a{character}", character, f"a/{character}/b"):
                self.assertEqual(path_error(path), check_every_rule(path), repr(path))


class RequestedTests(SynchronousTestCase):
    def test_any_normal_form(self) -> None:
        """The longest paths of a manifest are found in NFC and in NFD, which has at most three times the bytes."""
        segment = "\N{GREEK SMALL LETTER IOTA WITH DIALYTIKA AND TONOS}" * 127
        for path in ("data/level.pck", "\u00e9t\u00e9.txt", segment, "/".join([segment] * 4)):
            self.assertIsNone(path_error(path))
            self.assertEqual([normalize_requested(normalize(form, path)) for form in ("NFC", "NFD")], [path, path])

    def test_too_long(self) -> None:
        """A path that is longer than any of a manifest is not normalized, which would take the square of its length."""
        marks = "\N{COMBINING ACUTE ACCENT}\N{COMBINING DOT BELOW}"
        self.assertEqual(len(normalize_requested("a" + marks * 191) or ""), 382)
        for path in ("a" + marks * 192, f"b/{'a' + marks * 2000}/b", "/".join(["a" + marks * 190] * 5)):
            self.assertIsNone(normalize_requested(path))

    def test_ascii(self) -> None:
        """An ASCII path is returned as it is, however long."""
        self.assertEqual(normalize_requested("a" * 20_000), "a" * 20_000)


@covers("threats/58")
class ConflictTests(SynchronousTestCase):
    def test_same_name(self) -> None:
        """Two paths that differ only in case or normal form conflict."""
        for first, second in (
            ("Data/a", "data/A"),
            ("straße", "STRASSE"),
            (normalize_path("e\u0301"), "É"),
            (normalize_path("e\u0301"), normalize_path("\u00e9")),
            ("ΣΑΣ", "σας"),
        ):
            [clash] = conflicting_paths([first, second])
            self.assertEqual(clash.path, second)
            self.assertIn(first, clash.reason)

    def test_file_and_folder(self) -> None:
        """A file and a folder of one name conflict, in either order."""
        for paths in (["a", "a/b"], ["a/b", "a"], ["A/b/c", "a/B"], ["x/y/z", "x/y/w", "x/Y"]):
            [clash] = conflicting_paths(paths)
            self.assertEqual(clash.path, paths[-1])
            self.assertIn("a file and a folder", clash.reason)

    def test_no_clash(self) -> None:
        """Folders that differ only in case do not conflict."""
        self.assertEqual(list(conflicting_paths(["Data/a", "data/b", "data.x", "dat", "data/c/d", "data/c/e"])), [])

    @given(lists(NAMES.map(normalize_path).filter(bool), max_size=8))
    def test_clash_is_the_same_either_way(self, names: list[str]) -> None:
        """The order of the paths does not decide whether they conflict."""
        self.assertEqual(bool(list(conflicting_paths(names))), bool(list(conflicting_paths(reversed(names)))))
        self.assertEqual(bool(list(conflicting_paths(names))), len({fold_key(name) for name in names}) < len(names))
