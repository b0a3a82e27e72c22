"""The header fields of requests and responses follow RFC 9110 5."""

from collections.abc import Callable
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from gamed.http.parser import RequestHeaders
from gamed.http.request import PreparedHeaders, ResponseHeaders

STEPS: list[Callable[[ResponseHeaders], object]] = [
    lambda fields: fields.set("ETag", "2"),
    lambda fields: fields.set("Date", "now"),
    lambda fields: fields.update({"Date": "then", "Vary": "Origin"}),
    lambda fields: fields.add("Vary", "Origin"),
    lambda fields: fields.remove("Vary"),
    lambda fields: fields.remove("Date"),
    lambda fields: fields.encode(),
]


class RequestTests(SynchronousTestCase):
    def test_repeated(self) -> None:
        """The values of one name are joined; `single` returns None when there are two."""
        headers = RequestHeaders("Accept: a\r\nHost:h\r\naccept:\tb \r\n")
        self.assertEqual((headers.get("accept"), headers.single("accept")), ("a, b", None))
        self.assertEqual((headers.get("host"), headers.single("host")), ("h", "h"))
        self.assertEqual((headers.get("date"), headers.single("date")), (None, None))
        self.assertEqual(
            (headers.values("accept"), headers.values("host"), headers.values("date")), (["a", "b"], ["h"], [])
        )
        self.assertEqual(headers.lines(), [("accept", "a"), ("accept", "b"), ("host", "h")])
        self.assertTrue("host" in headers and "date" not in headers)

    def test_latin_1(self) -> None:
        """A value that is not UTF-8 is readable, too: one character for each byte."""
        self.assertEqual(RequestHeaders("X-Name: \xe4\xff\r\n").get("x-name"), "\xe4\xff")

    def test_repr(self) -> None:
        """No field is shown: some are credentials."""
        self.assertNotIn("gat_x", repr(RequestHeaders("Authorization: Bearer gat_x\r\n")))


class AnswerTests(SynchronousTestCase):
    def test_the_last_value_counts(self) -> None:
        """A later value replaces an earlier one; added lines stay at the end."""
        fields = ResponseHeaders()
        fields.set("Vary", "Authorization")
        fields.add("Vary", "Origin")
        fields.update({"ETag": '"1"', "Vary": "Cookie"})
        self.assertEqual(fields.encode(), b'Vary: Cookie\r\nETag: "1"\r\nVary: Origin\r\n')
        fields.remove("ETag")
        fields.remove("Date")
        self.assertEqual((fields.get("ETag"), fields.get("Vary")), (None, "Cookie"))

    def test_a_value_is_one_line(self) -> None:
        """A line end in a value does not begin another field or end the head."""
        for value in ("a\r\nSet-Cookie: b", "a\nSet-Cookie: b", "a\rSet-Cookie: b", "a\r\n\r\nSet-Cookie: b\r\n"):
            fields = ResponseHeaders()
            fields.set("Date", "now")
            fields.set("Location", value)
            fields.add("Refresh", value)
            lines = fields.encode().split(b"\r\n")
            self.assertEqual([line.partition(b":")[0] for line in lines], [b"Date", b"Location", b"Refresh", b""])
            self.assertEqual(fields.encode().count(b"\r"), 3)
            self.assertEqual(fields.encode().count(b"\n"), 3)


class PreparedTests(SynchronousTestCase):
    def test_as_set_one_by_one(self) -> None:
        """Prepared fields act as if they were set one by one, and are not changed."""
        random = Random(21)
        values = {"ETag": '"1"', "Vary": "Authorization", "Odd": "a\r\nSet-Cookie: b"}
        prepared, other = PreparedHeaders(values), PreparedHeaders({"Vary": "Cookie"})
        for _ in range(300):
            one, same = ResponseHeaders(), ResponseHeaders()
            if random.random() < 0.3:
                one.set("ETag", "0")
                same.set("ETag", "0")
            one.begin(prepared)
            same.update(values)
            for step in random.choices(STEPS, k=random.randrange(5)):
                step(one)
                step(same)
            if random.random() < 0.2:
                one.begin(other)
                same.update(other.values)
            for name in ("ETag", "Vary", "Odd", "Date"):
                self.assertEqual(one.get(name), same.get(name))
            self.assertEqual([one.encode()] * 2, [same.encode(), one.encode()])
        fresh = ResponseHeaders()
        fresh.begin(prepared)
        self.assertEqual(fresh.encode(), b'ETag: "1"\r\nVary: Authorization\r\nOdd: a Set-Cookie: b\r\n')
