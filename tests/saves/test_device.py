"""Each version keeps what the device that wrote it called itself.

See docs/protocol.md: Saves; docs/developers/saves.md: History.
"""

import json
from hashlib import sha256
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from tests.saves.commit_helpers import CommitCase
from tests.saves.helpers import ABSENT, tag
from tests.sessions.fixtures import ANNA
from tests.sessions.server import text

ONE, TWO, THREE = b"one", b"two", b"three"
LAPTOP, PHONE = "ANNA-PC", "Pixel \u5b89"


class DeviceTests(CommitCase):
    """Anna plays on a laptop and on a phone."""

    def on(self, client: object) -> None:
        """Send the next requests from a session with this description of its client."""
        words = client if isinstance(client, str) else json.dumps(client, ensure_ascii=False)
        _, pair = self.successResultOf(self.server.open(ANNA, words))
        self.bearer = {"Authorization": f"Bearer {text(pair.access)}"}

    def on_laptop(self) -> None:
        self.on({"name": "MyGame", "version": "1.4", "device_name": LAPTOP})

    def on_phone(self) -> None:
        self.on({"device_name": PHONE})

    def devices(self, slot: str = "auto") -> list[tuple[str, str | None]]:
        """Return kind and device of each version, oldest first."""
        return [(each["kind"], each["device"]) for each in reversed(self.versions(slot))]

    def test_every_way_to_write(self) -> None:
        """Writes, conflict copies, deletes, restores and commits keep the device of their own session."""
        self.on_laptop()
        answer = self.put("auto", ONE, ABSENT)
        self.assertEqual(answer.json["device"], LAPTOP)
        self.on_phone()
        conflict = self.put("auto", TWO, ABSENT)
        self.assertEqual(conflict.status, 412)
        sides = {side: conflict.json[side] and conflict.json[side]["device"] for side in ("current", "yours")}
        self.assertEqual(sides, {"current": LAPTOP, "yours": PHONE})
        self.assertEqual(self.delete("auto", {"If-Match": tag(1, ONE)}).status, 204)
        self.on_laptop()
        restored = self.ask("POST", "/game/saves/auto/versions/1/restore", ABSENT)
        self.assertEqual((restored.status, restored.json["device"]), (200, LAPTOP))
        self.on_phone()
        staged = {"slot": "auto", "if_match": restored.json["etag"], "sha256": sha256(THREE).hexdigest()}
        committed = self.commit_staged(staged, bodies=(THREE,))
        self.assertEqual((committed.status, committed.json["saves"][0]["device"]), (200, PHONE))
        kept = [("write", LAPTOP), ("conflict", PHONE), ("delete", PHONE), ("restore", LAPTOP), ("write", PHONE)]
        self.assertEqual(self.devices(), kept)
        self.assertEqual([each["device"] for each in self.listed()], [PHONE])
        self.assertEqual([each["device"] for each in self.exported()], [device for _, device in kept])

    def exported(self) -> list[dict[str, Any]]:
        with ZipFile(BytesIO(self.ask("GET", "/game/export").body)) as archive:
            versions: list[dict[str, Any]] = json.loads(archive.read("manifest.json"))["versions"]
        return versions

    def test_longer_than_the_session(self) -> None:
        """The device stays with the version after its session was deleted."""
        self.on_laptop()
        self.put("auto", ONE)
        self.on_phone()
        delete = f"DELETE FROM session WHERE client LIKE '%{LAPTOP}%'"
        self.assertEqual(self.successResultOf(self.stores.auth.submit(lambda c: c.execute(delete).rowcount)), 1)
        self.assertEqual(self.devices(), [("write", LAPTOP)])

    def test_an_equal_save(self) -> None:
        """Bytes that are saved already make no version, so the device that wrote them first stays."""
        self.on_laptop()
        self.put("auto", ONE)
        self.on_phone()
        self.assertEqual(self.put("auto", ONE).json["device"], LAPTOP)

    def test_words(self) -> None:
        """The device's name comes first, then the program's; other members do not count, and nothing is no name."""
        described: tuple[tuple[dict[str, str], str | None], ...] = (
            ({"name": "MyGame", "version": "1.4", "platform": "linux"}, "MyGame"),
            ({"version": "1.4", "platform": "linux"}, None),
            ({}, None),
            ({"device_name": "<script>\"';--"}, "<script>\"';--"),
            ({"device_name": "W" * 64}, "W" * 64),
        )
        for number, (client, device) in enumerate(described):
            self.on(client)
            self.assertEqual(self.put(f"slot{number}", ONE).json["device"], device)

    def test_damaged_rows(self) -> None:
        """A session whose description is damaged saves as before, without a device or with its first characters."""
        damaged = ("", "{", "[]", "7", '{"device_name":7}', '{"device_name":"\\ud800"}', '{"device_name":null}')
        for number, client in enumerate(damaged):
            self.on(client)
            self.assertIsNone(self.put(f"slot{number}", ONE).json["device"])
        self.on({"device_name": "x" * 100_000})
        self.assertEqual(self.put("long", ONE).json["device"], "x" * 64)

    def test_older_versions(self) -> None:
        """A version from before, which has no device, has null."""
        self.on_laptop()
        self.put("auto", ONE)
        forget = "UPDATE save_version SET device = NULL"
        self.successResultOf(self.stores.state.submit(lambda c: c.execute(forget).rowcount))
        self.assertEqual(self.devices(), [("write", None)])

    def test_erase(self) -> None:
        """Erasing all saves leaves no device's name behind."""
        self.on_laptop()
        self.put("auto", ONE)
        cursor = self.ask("GET", "/game/").headers["etag"]
        self.assertEqual(self.ask("DELETE", "/game/", {"If-Match": cursor}).status, 204)
        count = "SELECT count(*) FROM save_version"
        self.assertEqual(self.successResultOf(self.server.rows(count)), [(0,)])
