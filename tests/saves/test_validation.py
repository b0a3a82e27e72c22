"""Names, tags, Save-Meta, digests and media types are validated (docs/developers/saves.md: Writing)."""

import json
from base64 import b64encode
from functools import partial
from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.game import SaveLimits
from gamed.http.conditional import EntityTag, sha256_field
from gamed.http.spool import SpooledBody
from gamed.saves.commands import ReceivedBody, WriteContext
from gamed.saves.errors import BadMeta, BlankSave, DigestMismatch, InvalidCondition, InvalidSaveRequest, InvalidSlot
from gamed.saves.limits import DiskReservations
from gamed.saves.model import DEFAULT_MEDIA_TYPE, SaveContent, tag_of, version_of_tag
from gamed.saves.uploads import UploadBody
from gamed.saves.validation import (
    UploadHeaders,
    check_media_type,
    check_meta,
    check_slot,
    deleting_condition,
    parse_content_digest,
    writing_condition,
)
from gamed.saves.write_rules import UNCONDITIONAL, Condition, ConditionKind

GOOD_SLOTS = [
    "auto",
    "a",
    "0",
    "slot-1.sav",
    "a" * 64,
    "x_",
    "a..b",
    "console",
    "com",
    "com10",
    "nul-1",
    "lpt",
    "auxiliary",
]
BAD_SLOTS = ["", "A", "Auto", "a" * 65, ".a", "-a", "_a", "a.", "a b", "a/b", "..", "ä", "a\n", "a\x00", "a%20", "١"]
BAD_SLOTS += ["con", "nul.sav", "prn", "aux", "aux.tar.gz", "com0", "com1", "com9.x", "lpt1", "lpt9.sav", "nul"]

GOOD_META = ["{}", '{"title":"Chapter 3"}', '{"a":[1,2.5e3,null,true,{"b":"\\u00e9\\ud83d\\ude00"}]}', " {} "]
GOOD_META += ['{"a":' * 7 + "{}" + "}" * 7, '{"a":"[[[[[[[[[["}', '{"a":"\\"{{{{{{{{{{"}']
BAD_META = [
    "",
    "x",
    "[]",
    '"a"',
    "1",
    "null",
    "{",
    '{"a":1,}',
    '{"a":1,"a":2}',
    '{"a":NaN}',
    '{"a":-Infinity}',
    "{'a':1}",
]
BAD_META += [
    '{"a":"\\ud83d"}',
    '{"\\udc00":1}',
    '{"a":"é"}',
    '{"a":\t1}',
    '{"a":1}\x7f',
    '{"a":1e999}',
    '{"a":"' + "x" * 2048 + '"}',
]
BAD_META += ['{"a":' * 8 + "{}" + "}" * 8, "[" * 2000, '{"a":' + "9" * 21 + "}", '{"a":18446744073709551616}']

ZERO = sha256(b"").digest()
ZERO64 = b64encode(ZERO).decode()
DIGESTS = [
    (None, None),
    (f"sha-256=:{ZERO64}:", ZERO),
    (f" sha-256=:{ZERO64}: ", ZERO),
    (f"sha-512=:AAAA:, sha-256=:{ZERO64}:", ZERO),
    (f"sha-256=:AAAA:,sha-256=:{ZERO64}:", ZERO),
    ("sha-512=:AAAA:", None),
]
BAD_DIGESTS = ["", "sha-256", f"sha-256={ZERO64}", f"sha-256=:{ZERO64}", "sha-256=::", "sha-256=:AAAA:", "sha-256=:!:"]
BAD_DIGESTS += [f"sha-256=:{ZERO64[:-1]}:", f"SHA-256=:{ZERO64}:", f"sha-256=:{ZERO64}:;", f"sha-256=:{ZERO64}:,"]

TYPES = ["text/plain", "application/x-save; v=1", 'a/b;c="d e\\"f"', "a/b;", DEFAULT_MEDIA_TYPE]
BAD_TYPES = [
    "",
    "text",
    "text/",
    "/plain",
    "text/plain, text/html",
    "text/pl ain",
    "a/b; c",
    "a/b; c=",
    "a/b; c=; d=e",
    'a/b; c="d',
    'a/b; c="d"; e',
    "a/b; c=d ",
    "a/b\r\nX: y",
    "a/" + "b" * 254,
]
BAD_TYPES += ["a/b;c=\xe9"]


class SlotNameTest(SynchronousTestCase):
    def test_good(self) -> None:
        """Lower case letters, digits and `._-`, at most 64."""
        for name in GOOD_SLOTS:
            self.assertEqual(check_slot(name), name)

    def test_bad(self) -> None:
        """Names that some file system would change or reject are rejected with advice."""
        for name in BAD_SLOTS:
            with self.assertRaises(InvalidSlot, msg=name) as caught:
                check_slot(name)
            self.assertRegex(str(caught.exception), "a-z 0-9|another name")


class TagTest(SynchronousTestCase):
    def test_form(self) -> None:
        """The version, a dash, the first 16 hex digits of the SHA-256."""
        self.assertEqual(tag_of(9, bytes.fromhex("9f86d081884c7d65" + "00" * 24)), "9-9f86d081884c7d65")

    @given(st.integers(1, 10**12), st.binary(min_size=32, max_size=32))
    def test_version_in(self, version: int, digest: bytes) -> None:
        """The version can be read back from a tag."""
        self.assertEqual(version_of_tag(tag_of(version, digest)), version)

    def test_foreign(self) -> None:
        """Tags of another form name no version."""
        for tag in (
            "",
            "9",
            "9-",
            "-9f86d081884c7d65",
            "x-9f86d081884c7d65",
            "9-9f86",
            "²-9f86d081884c7d65",
            "9" * 5000 + "-" + "a" * 16,
        ):
            self.assertIsNone(version_of_tag(tag), tag[:40])


class ConditionTest(SynchronousTestCase):
    def test_writing(self) -> None:
        """The three conditions of PUT, or none."""
        for headers, condition in [
            ({}, UNCONDITIONAL),
            ({"if-match": '"9-ab"'}, Condition(ConditionKind.THIS, EntityTag("9-ab"))),
            ({"if-match": 'W/"9-ab"'}, Condition(ConditionKind.THIS, EntityTag("9-ab", weak=True))),
            ({"if-match": "*"}, Condition(ConditionKind.PRESENT)),
            ({"if-none-match": "*"}, Condition(ConditionKind.ABSENT)),
        ]:
            self.assertEqual(writing_condition(headers.get), condition, headers)

    def test_bad_writing(self) -> None:
        """Two conditions, two tags, an unquoted tag, If-None-Match with a tag."""
        for headers in [
            {"if-match": "*", "if-none-match": "*"},
            {"if-match": '"9-ab", "8-cd"'},
            {"if-match": "9-ab"},
            {"if-match": '"' + "9" * 65 + '"'},
            {"if-match": '"1-a"' + "," * 1024},
            {"if-match": ""},
            {"if-none-match": '"9-ab"'},
            {"if-none-match": "9-ab"},
        ]:
            with self.assertRaises(InvalidCondition, msg=str(headers)):
                writing_condition(headers.get)

    def test_deleting(self) -> None:
        """DELETE takes If-Match only."""
        self.assertEqual(deleting_condition({"if-match": "*"}.get), Condition(ConditionKind.PRESENT))
        self.assertEqual(deleting_condition({}.get), UNCONDITIONAL)
        for headers in [{"if-none-match": "*"}, {"if-match": '"a", "b"'}, {"if-match": "a"}]:
            with self.assertRaises(InvalidCondition, msg=str(headers)):
                deleting_condition(headers.get)


class MetaTest(SynchronousTestCase):
    def test_good(self) -> None:
        """A JSON object on one line of ASCII is kept as sent; none is none."""
        for text in GOOD_META:
            self.assertEqual(check_meta(text, 2048), text)
        self.assertIsNone(check_meta(None, 2048))

    def test_bad(self) -> None:
        """Refuse every other form, with a message that does not repeat it."""
        for text in BAD_META:
            with self.assertRaises(BadMeta, msg=text[:40]) as caught:
                check_meta(text, 2048)
            self.assertRegex(str(caught.exception), "one line of ASCII with a JSON object|at most 2048")

    def test_exact_size(self) -> None:
        """`meta_bytes` is the last size that fits."""
        text = json.dumps({"a": "x" * 20})
        self.assertEqual(check_meta(text, len(text)), text)
        with self.assertRaises(BadMeta):
            check_meta(text, len(text) - 1)

    @given(st.text(st.sampled_from('{}[]":,\\u1eENa-.d8 '), max_size=30))
    def test_any_text(self, text: str) -> None:
        """Accepted Save-Meta is one JSON object for every strict parser; no other exception is raised."""
        try:
            check_meta(text, 100)
        except BadMeta:
            return
        self.assertIsInstance(json.loads(text), dict)


class DigestTest(SynchronousTestCase):
    def test_read(self) -> None:
        """sha-256 is found among others; others alone are passed over (RFC 9530 2)."""
        for text, digest in DIGESTS:
            self.assertEqual(parse_content_digest(text), digest, text)

    def test_unreadable(self) -> None:
        """A malformed digest is rejected, not ignored."""
        for text in BAD_DIGESTS:
            with self.assertRaises(DigestMismatch, msg=text) as caught:
                parse_content_digest(text)
            self.assertIn("sha-256=:", str(caught.exception))

    def test_long(self) -> None:
        """A long list of digests is not read at all."""
        known = f"sha-256=:{b64encode(ZERO).decode()}:"
        self.assertEqual(parse_content_digest(f"sha-512=:{'A' * 88}:, {known}"), ZERO)
        with self.assertRaises(DigestMismatch):
            parse_content_digest(known + f",sha-512=:{'A' * 88}:" * 20)

    def test_checked(self) -> None:
        """Other bytes than announced are refused; without an announcement all pass."""
        content = SaveContent(ZERO, 4, DEFAULT_MEDIA_TYPE)
        for expected in (None, ZERO):
            ReceivedBody(content, expected, blank=False).check(allow_blank=False)
        with self.assertRaises(DigestMismatch):
            ReceivedBody(content, sha256(b"x").digest(), blank=False).check(allow_blank=False)

    def test_round_trip(self) -> None:
        """Each digest is parsed back from its text."""
        self.assertEqual(parse_content_digest(sha256_field(ZERO)), ZERO)


class MediaTypeTest(SynchronousTestCase):
    def test_good(self) -> None:
        """A media type is kept as sent; without one the bytes are just bytes."""
        for text in TYPES:
            self.assertEqual(check_media_type(text), text)
        self.assertEqual(check_media_type(None), DEFAULT_MEDIA_TYPE)

    def test_bad(self) -> None:
        """Media types that a header field cannot hold are rejected."""
        for text in BAD_TYPES:
            with self.assertRaises(InvalidSaveRequest, msg=text):
                check_media_type(text)


class BlankTest(SynchronousTestCase):
    @given(st.lists(st.binary(max_size=5) | st.integers(0, 5).map(bytes), max_size=6))
    def test_any_pieces(self, pieces: list[bytes]) -> None:
        """Blank is: nothing but zeros, however the bytes arrive."""
        space = DiskReservations(lambda: (0, 0, 2**40), 0).begin_upload("ply_1", 100)
        headers = UploadHeaders(UNCONDITIONAL, DEFAULT_MEDIA_TYPE, None, None)
        spool = partial(SpooledBody, Path("unused"))
        upload = UploadBody(WriteContext("ply_1", "0"), headers, SaveLimits(), spool, space, 100, 100)
        for piece in pieces:
            upload.write(piece)
        received = self.successResultOf(Deferred.fromCoroutine(upload.receive()))
        self.assertEqual(received.blank, not b"".join(pieces).strip(b"\0"))

    def test_answer(self) -> None:
        """A blank body is refused, unless the owner allows it."""
        for size, word in ((0, "empty"), (4, "zero bytes")):
            received = ReceivedBody(SaveContent(ZERO, size, DEFAULT_MEDIA_TYPE), None, blank=True)
            with self.assertRaises(BlankSave) as caught:
                received.check(allow_blank=False)
            self.assertIn(word, str(caught.exception))
            received.check(allow_blank=True)
