"""A catalogue is read within bounds, and a file that cannot be used is refused with the line and what to change."""

from twisted.trial.unittest import SynchronousTestCase

from gamed.pages.catalogue import FILE_BYTES, TEXT_BYTES, CatalogueError, read_catalogue

HEADER = 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
PLURAL = 'msgid "{count} device"\nmsgid_plural "{count} devices"\n'


class ReadTests(SynchronousTestCase):
    def texts(self, content: str) -> dict[str, list[str]]:
        return {source: list(forms) for source, forms in read_catalogue((HEADER + content).encode()).texts.items()}

    def test_texts(self) -> None:
        """A text may be on several lines, with escapes; comments and texts without a translation are left out."""
        content = (
            '# a comment\nmsgid "Sign"\n" out"\nmsgstr "Ab"\n"melden"\n\n'
            'msgid "a\\n\\"b\\"\\\\\\t"\nmsgstr "c\\n\\"d\\"\\\\\\t"\n'
            'msgid "new"\nmsgstr ""\n#, fuzzy\nmsgid "guessed"\nmsgstr "geraten"\n'
        )
        self.assertEqual(self.texts(content), {"Sign out": ["Abmelden"], 'a\n"b"\\\t': ['c\n"d"\\\t']})

    def test_counted(self) -> None:
        """A counted text has a form for each kind of number."""
        content = f'{PLURAL}msgstr[0] "{{count}} Gerät"\nmsgstr[1] "{{count}} Geräte"\n'
        self.assertEqual(self.texts(content), {"{count} device": ["{count} Gerät", "{count} Geräte"]})
        plural = read_catalogue((HEADER + content).encode()).plural
        self.assertEqual([plural(count) for count in (0, 1, 2)], [1, 0, 1])

    def test_byte_order_mark(self) -> None:
        """A file of an editor that begins with a byte order mark is read."""
        self.assertEqual(read_catalogue(b"\xef\xbb\xbf" + HEADER.encode()).texts, {})

    def test_long_texts(self) -> None:
        """A text has at most 4 KiB in UTF-8, on one line or on many."""
        longest = "\u00e4" * (TEXT_BYTES // 2)
        self.assertEqual(self.texts(f'msgid "a"\nmsgstr "{longest}"\n'), {"a": [longest]})
        for long in (f'"{longest}b"', f'"{longest}"\n"b"', '"\\\\"\n' * (TEXT_BYTES + 1)):
            with self.assertRaisesRegex(CatalogueError, r"^line [0-9]+: a text is larger than 4 KiB; shorten it$"):
                self.texts(f'msgid "a"\nmsgstr {long}\n')

    def test_largest_file(self) -> None:
        """A file of 256 KiB is read, however many lines it has; a larger one is not."""
        filled = HEADER.encode() + b'msgid ""\nmsgid "a"\n' * 5
        filled += b"\n" * (FILE_BYTES - len(filled))
        self.assertEqual(read_catalogue(filled).texts, {})
        with self.assertRaisesRegex(CatalogueError, "larger than 256 KiB"):
            read_catalogue(filled + b"\n")


class RefusedTests(SynchronousTestCase):
    def refused(self, content: str | bytes) -> str:
        """Return what is wrong with a file."""
        raw = content if isinstance(content, bytes) else content.encode()
        return str(self.assertRaises(CatalogueError, read_catalogue, raw))

    def test_files(self) -> None:
        """A file that is no catalogue is named as what it is."""
        self.assertEqual(self.refused(b"\xff"), "the file is not UTF-8; save it with that encoding")
        for empty in ("", "\n# only a comment\n"):
            self.assertEqual(self.refused(empty), "the file has no texts")
        self.assertEqual(
            self.refused('\nmsgid "a"\nmsgstr "b"\n'),
            'line 2: a catalogue begins with msgid "" and the line Plural-Forms',
        )

    def test_lines(self) -> None:
        """A line of another form is named by its number."""
        for line in (
            'msgctxt "a"', "msgid a", 'msgid "a', 'msgid "a"b"', 'msgid "\\x41"', 'msgstr[6] "a"', 'msgstr[] "a"',
            "<html>", '~msgid "a"', "\ufeffmsgid",
        ):  # fmt: skip
            expected = 'line 4: expected msgid, msgid_plural or msgstr, and a text in "..."'
            self.assertEqual(self.refused(f"{HEADER}{line}\n"), expected, line)

    def test_beginning(self) -> None:
        """A text without a msgid before it is refused."""
        for line in ('msgstr "a"', '"a"', 'msgid_plural "a"'):
            self.assertEqual(self.refused(f"# a\n{line}\n"), "line 2: a text without its msgid before it")

    def test_twice(self) -> None:
        """The second one of two translations of a text is refused, as one of them would not count."""
        entry = 'msgid "a"\nmsgstr "b"\n'
        self.assertEqual(self.refused(HEADER + entry * 2), "line 6: a second text for 'a'; remove one")

    def test_forms(self) -> None:
        """A text with a form too few or too many is refused."""
        for forms in ('msgstr "b"', 'msgstr[0] "{count}"', 'msgstr[0] "{count}"\nmsgstr[1] ""',
                      'msgstr[0] "{count}"\nmsgstr[1] "{count}"\nmsgstr[2] "{count}"'):  # fmt: skip
            self.assertEqual(
                self.refused(f"{HEADER}{PLURAL}{forms}\n"), "line 4: the text needs msgstr[0] msgstr[1], none empty"
            )
        self.assertEqual(
            self.refused(f'{HEADER}msgid "a"\nmsgstr[0] "b"\nmsgstr[1] "b"\n'),
            "line 4: the text needs msgstr, none empty",
        )

    def test_placeholders(self) -> None:
        """A translation has exactly the placeholders of its text, in each form."""
        for source, form, names in (
            ("Link {provider}", "Link", "{provider}"),
            ("Link {provider}", "Link {provider} {name}", "{provider}"),
            ("{a} {b}", "{a} {c}", "{a}, {b}"),
            ("Link", "Link {provider}", "none"),
        ):
            self.assertEqual(
                self.refused(f'{HEADER}msgid "{source}"\nmsgstr "{form}"\n'),
                f"line 4: the placeholders of the text are {names}; use exactly these",
            )
        counted = f'{HEADER}{PLURAL}msgstr[0] "{{count}}"\nmsgstr[1] "viele"\n'
        self.assertEqual(self.refused(counted), "line 4: the placeholders of the text are {count}; use exactly these")

    def test_rules(self) -> None:
        """A rule of plurals is one that gives each number a form, and nothing else."""
        missing = "the header has no line such as Plural-Forms: nplurals=2; plural=n != 1;"
        for line in (
            "",
            "Language: de\\n",
            "Plural-Forms: nplurals=7; plural=0;",
            "Plural-Forms: nplurals=2; plural=;",
            f"Plural-Forms: nplurals=2; plural={'n' * 501};",
            "X-Plural-Forms: nplurals=2; plural=n != 1;",
        ):
            self.assertEqual(self.refused(f'msgid ""\nmsgstr "{line}"\n'), missing, line)
        unusable = "Plural-Forms gives no number below 2 for each count; copy the line of your language"
        for rule in ("n", "2", "1/n", "n %", "__import__", "n ** 9", f"{'(' * 200}n{')' * 200}", "0 - 1"):
            line = f"Plural-Forms: nplurals=2; plural={rule};"
            self.assertEqual(self.refused(f'msgid ""\nmsgstr "{line}"\n'), unusable, rule)
