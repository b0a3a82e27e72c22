"""A struct may be more than a plain value."""

from typing import Any

from msgspec import Struct
from twisted.trial.unittest import SynchronousTestCase

from gamed.structs import Component, redacts


@redacts("number", "_code")
class Account(Struct, frozen=True):
    name: str
    number: int
    _code: str = "1234"


class Bank(Component, frozen=True, kw_only=True):
    accounts: tuple[Account, ...]


class StructsTests(SynchronousTestCase):
    def test_hidden(self) -> None:
        """A text has all fields but those; the value is the same as any other."""
        account = Account("anna", 5678)
        self.assertEqual((repr(account), f"{account}"), ("Account(name='anna')",) * 2)
        self.assertEqual(account, Account("anna", 5678, "1234"))
        self.assertNotEqual(account, Account("anna", 5679))

    def test_hidden_within(self) -> None:
        """The text of a container does not show the redacted fields either."""
        self.assertEqual(repr([Account("anna", 5678)]), "[Account(name='anna')]")

    def test_nothing_to_hide(self) -> None:
        """A name that is not a field raises TypeError."""

        class Other(Struct):
            name: str

        with self.assertRaisesRegex(TypeError, "Other has no {'nmae'}"):
            redacts("nmae")(Other)

    def test_part(self) -> None:
        """Itself alone, without a text of its fields, and never changed."""
        one, other = Bank(accounts=(Account("anna", 5678),)), Bank(accounts=(Account("anna", 5678),))
        self.assertEqual(len({one, other}), 2)
        self.assertNotEqual(one, other)
        self.assertNotIn("anna", repr(one))
        changed: Any = one
        with self.assertRaises(AttributeError):
            changed.accounts = ()
