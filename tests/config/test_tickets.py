"""The members `ticket_audiences`, `session.ticket_ttl` and `limits.tickets_per_minute`."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from gamed.config.model import TicketAudience
from gamed.config.tickets import MAX_AUDIENCES
from tests.config.fixtures import LOCAL, changed, errors, load_config

NAME, SECRET = "GAMED_MATCH_SECRET", "hush-" * 8


def with_audiences(**audiences: Any) -> Any:
    return changed(LOCAL, ticket_audiences={name.replace("_", "."): value for name, value in audiences.items()})


class AudienceTests(SynchronousTestCase):
    def test_read(self) -> None:
        """An audience gets nothing but the player's id unless the owner allows more; without one tickets are off."""
        self.assertEqual(load_config(LOCAL, {}).config.ticket_audiences, {})
        text = with_audiences(a={}, b_example={"name": True}, c={"owner": True, "name": False})
        self.assertEqual(
            load_config(text, {}).config.ticket_audiences,
            {"a": TicketAudience(), "b.example": TicketAudience(name=True), "c": TicketAudience(owner=True)},
        )

    def test_secret(self) -> None:
        """A secret comes from its variable, is shown nowhere, and its variable is erased."""
        text = with_audiences(match={"secret_env": NAME})
        loaded = load_config(text, {NAME: SECRET})
        found = loaded.config.ticket_audiences["match"].secret
        assert found is not None
        self.assertEqual(found.reveal().decode(), SECRET)
        self.assertNotIn("hush", repr(loaded))
        self.assertEqual(loaded.secret_names, (NAME,))
        without = load_config(text, {}, providers=False)
        self.assertEqual((without.config.ticket_audiences["match"].secret, without.secret_names), (None, (NAME,)))

    def test_wrong_secrets(self) -> None:
        """A secret that is missing, short, or not visible ASCII is refused, and none of it is shown."""
        text = with_audiences(match={"secret_env": NAME})
        [unset] = errors(text, {})
        self.assertIn(f"ticket_audiences.match.secret_env: {NAME} is not set", unset)
        for bad in ("hush", "hush" * 7, "hush " * 10, "hüsh" * 10, "hush" * 200):
            [wrong] = errors(text, {NAME: bad})
            self.assertIn("32 to 512 visible ASCII characters", wrong)
            self.assertNotIn("hush", wrong.replace("GAMED", ""))
        [member] = errors(with_audiences(match={"secret": SECRET}), {})
        self.assertIn("the secret itself is never written to this file", member)
        self.assertNotIn("hush", member)

    def test_same_secret(self) -> None:
        """Two audiences with one secret are refused: the secret alone says which server asks."""
        text = with_audiences(a={"secret_env": NAME}, b={"secret_env": "OTHER"})
        [wrong] = errors(text, {NAME: SECRET, "OTHER": SECRET})
        self.assertIn("ticket_audiences.b.secret_env: is the secret of a, too", wrong)

    def test_names(self) -> None:
        """A name is visible ASCII, up to 255 characters."""
        for good in ("a", "match.example", "https://match.example:7777/", "a" * 255, "~!#"):
            self.assertEqual(errors(changed(LOCAL, ticket_audiences={good: {}}), {}), [], good)
        for bad in ("", "a b", "mätch.example", "a" * 256, "a\n"):
            [wrong] = errors(changed(LOCAL, ticket_audiences={bad: {}}), {})
            self.assertIn("expected a name of 1 to 255 visible ASCII characters", wrong)

    def test_form(self) -> None:
        """Each audience is an object of known members, and there are not too many of them."""
        self.assertIn("expected an object", errors(changed(LOCAL, ticket_audiences=["match.example"]), {})[0])
        self.assertIn("expected an object", errors(with_audiences(match=True), {})[0])
        self.assertIn("did you mean name?", errors(with_audiences(match={"nam": True}), {})[0])
        self.assertIn("expected true or false", errors(with_audiences(match={"owner": 1}), {})[0])
        many = {f"a{number}": {} for number in range(MAX_AUDIENCES + 1)}
        [wrong] = errors(changed(LOCAL, ticket_audiences=many), {})
        self.assertIn(f"at most {MAX_AUDIENCES} audiences", wrong)


class BoundTests(SynchronousTestCase):
    def test_lifetime(self) -> None:
        """A ticket is valid for a minute, or for 1 second to 5 minutes."""
        self.assertEqual(load_config(LOCAL, {}).config.session.ticket_seconds, 60)
        text = changed(LOCAL, session={"ticket_ttl": "5m"})
        self.assertEqual(load_config(text, {}).config.session.ticket_seconds, 300)
        for bad in ("0s", "301s", 60):
            [wrong] = errors(changed(LOCAL, session={"ticket_ttl": bad}), {})
            self.assertIn("session.ticket_ttl: expected a duration", wrong)

    def test_rate(self) -> None:
        """A player gets 30 tickets a minute by default."""
        self.assertEqual(load_config(LOCAL, {}).config.limits.tickets_per_minute, 30)
        text = changed(LOCAL, limits={"tickets_per_minute": 5})
        self.assertEqual(load_config(text, {}).config.limits.tickets_per_minute, 5)
