"""Header fields as they are asked for, and as they leave (RFC 9110 5)."""

from collections.abc import Callable
from itertools import count
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from gamed.web.fast import PlainFields
from gamed.web.fields import AnswerFields, Fields, Prepared
from gamed.web.request_ids import DRAWN, RequestIds
from gamed.web.tap import Tap

STEPS: list[Callable[[AnswerFields], object]] = [
    lambda fields: fields.set("ETag", "2"),
    lambda fields: fields.set("Date", "now"),
    lambda fields: fields.update({"Date": "then", "Vary": "Origin"}),
    lambda fields: fields.add("Vary", "Origin"),
    lambda fields: fields.remove("Vary"),
    lambda fields: fields.remove("Date"),
    lambda fields: fields.block(),
]


class FieldsTests(SynchronousTestCase):
    def test_lines_are_joined(self) -> None:
        """Asked for as one text; whoever needs exactly one line is told when there are two."""
        fields = Fields({"Accept": ["a", "b"], "Host": ["h"]})
        self.assertEqual((fields.header("accept"), fields.only("accept")), ("a, b", None))
        self.assertEqual((fields.header("host"), fields.only("host")), ("h", "h"))
        self.assertEqual((fields.header("date"), fields.only("date")), (None, None))

    def test_bytes_stay_bytes(self) -> None:
        """What is no UTF-8 can be read too, one character for each byte."""
        fields = Fields({b"X-Name": [b"\xe4\xff"]})
        self.assertEqual((fields.header("x-name"), fields.only("x-name")), ("\xe4\xff", "\xe4\xff"))

    def test_a_plain_head_answers_as_any_other(self) -> None:
        """By text and, as Twisted asks, by bytes; in any case."""
        plain = PlainFields({"host": "h", "x-name": "\xe4"})
        same = Fields({b"Host": [b"h"], b"X-Name": [b"\xe4"]})
        for name in ("host", "Host", b"HOST", "x-name", b"X-Name", "date", b"Date"):
            self.assertEqual(plain.getRawHeaders(name, ["-"]), same.getRawHeaders(name, ["-"]), name)
            self.assertEqual(plain.hasHeader(name), same.hasHeader(name), name)
        self.assertEqual(plain.header("x-name"), same.header("x-name"))
        self.assertEqual(dict(plain.getAllRawHeaders()), {b"host": [b"h"], b"x-name": [b"\xe4"]})


class AnswerTests(SynchronousTestCase):
    def test_the_last_value_counts(self) -> None:
        """Where it was first, with what stands beside it at the end."""
        fields = AnswerFields()
        fields.set("Vary", "Authorization")
        fields.add("Vary", "Origin")
        fields.update({"ETag": '"1"', "Vary": "Cookie"})
        self.assertEqual(fields.block(), b'Vary: Cookie\r\nETag: "1"\r\nVary: Origin\r\n')
        fields.remove("ETag")
        fields.remove("Date")
        self.assertEqual((fields.get("ETag"), fields.get("Vary")), (None, "Cookie"))

    def test_a_value_is_one_line(self) -> None:
        """Nothing that a value has in it begins another field, or ends the head."""
        for value in ("a\r\nSet-Cookie: b", "a\nSet-Cookie: b", "a\rSet-Cookie: b", "a\r\n\r\nSet-Cookie: b\r\n"):
            fields = AnswerFields()
            fields.set("Date", "now")
            fields.set("Location", value)
            fields.add("Refresh", value)
            lines = fields.block().split(b"\r\n")
            self.assertEqual([line.partition(b":")[0] for line in lines], [b"Date", b"Location", b"Refresh", b""])
            self.assertEqual(fields.block().count(b"\r"), 3)
            self.assertEqual(fields.block().count(b"\n"), 3)


class PreparedTests(SynchronousTestCase):
    def test_as_set_one_by_one(self) -> None:
        """Whatever is done to them afterwards; and what was prepared for many stays as it was."""
        random = Random(21)
        values = {"ETag": '"1"', "Vary": "Authorization", "Odd": "a\r\nSet-Cookie: b"}
        prepared, other = Prepared(values), Prepared({"Vary": "Cookie"})
        for _ in range(300):
            one, same = AnswerFields(), AnswerFields()
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
            self.assertEqual([one.block()] * 2, [same.block(), one.block()])
        fresh = AnswerFields()
        fresh.begin(prepared)
        self.assertEqual(fresh.block(), b'ETag: "1"\r\nVary: Authorization\r\nOdd: a Set-Cookie: b\r\n')


class IdsTests(SynchronousTestCase):
    def test_each_is_another(self) -> None:
        """24 digits, drawn many at a time."""
        numbers, drawn = count(), []

        def random(size: int) -> bytes:
            drawn.append(size)
            return b"".join(next(numbers).to_bytes(12, "big") for _ in range(size // 12))

        ids = RequestIds(random)
        found = [ids.next() for _ in range(2 * DRAWN)]
        self.assertEqual(found, [f"{number:024x}" for number in range(2 * DRAWN)])
        self.assertEqual(drawn, [12 * DRAWN, 12 * DRAWN])


class Network:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        self.told.append("pause")

    def resumeProducing(self) -> None:
        self.told.append("resume")


class TapTests(SynchronousTestCase):
    def test_only_news(self) -> None:
        """The network is not told what it knows."""
        network = Network()
        tap = Tap(network)
        tap.resumeProducing()
        tap.pauseProducing()
        tap.pauseProducing()
        tap.resumeProducing()
        tap.resumeProducing()
        tap.pauseProducing()
        self.assertEqual(network.told, ["pause", "resume", "pause"])
