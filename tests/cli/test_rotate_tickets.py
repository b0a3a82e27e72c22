"""`gamed key rotate-tickets`, beside a running server (docs/developers/tickets.md: Keys)."""

import json

from gamed.tickets.ticket_rules import DAY_MS
from gamed.timestamps import parse_rfc3339
from tests.cli.process import CommandTestCase
from tests.e2e.wire import ask


class RotateTests(CommandTestCase):
    def test_rotated(self) -> None:
        """The running server publishes the next key at once; a second rotation waits for its first use."""
        self.write_config({"mode": "local", "ticket_audiences": {"match.example": {}}})
        _, port = self.serve()
        [first] = ask(port, "GET", "/auth/keys").json["keys"]
        code, out, err = self.gamed("key", "rotate-tickets", "--json")
        self.assertEqual(code, 0, err)
        rotated = json.loads(out)
        self.assertEqual(rotated["number"], 2)
        first_use_ms = parse_rfc3339(rotated["first_use_at"])
        assert first_use_ms is not None
        keys = ask(port, "GET", "/auth/keys").json["keys"]
        self.assertEqual((keys[0], len(keys)), (first, 2))
        code, out, err = self.gamed("key", "rotate-tickets")
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"Key 2 is published and will be used from {rotated['first_use_at']}.", err)
        self.assertEqual(ask(port, "GET", "/auth/keys").json["keys"], keys)
        [event] = [
            each
            for each in json.loads(self.gamed("events", "--json")[1])
            if each["values"].get("command") == "key rotate-tickets"
        ]
        noted_ms = parse_rfc3339(event["last_at"])
        assert noted_ms is not None
        self.assertLess(abs(noted_ms + DAY_MS - first_use_ms), 60_000)
