"""Old versions: read, made current again, brought back after a delete, dismissed.

See docs/protocol.md: Saves; docs/developers/saves.md: History.
"""

from collections.abc import Mapping
from typing import Any

from gamed.config.game import SaveLimits
from gamed.database.connection import Connection
from gamed.saves.model import Version
from gamed.saves.version_tables import newest_written
from tests.saves.helpers import ABSENT, BIG, SaveCase, digest_of, tag
from tests.sessions.fixtures import ANNA
from tests.support.http import Answer

ONE, TWO, THREE = b"one", b"two!", b"three"


class VersionCase(SaveCase):
    def setUp(self) -> None:
        super().setUp()
        self.put("auto", ONE, {"Content-Type": "text/plain", "Save-Meta": '{"a":1}', **ABSENT})
        self.put("auto", TWO, {"If-Match": tag(1, ONE)})

    def version(self, number: object, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        return self.ask(method, f"/game/saves/auto/versions/{number}", headers)

    def restore(self, number: object, headers: Mapping[str, str] | None = None, slot: str = "auto") -> Answer:
        return self.ask("POST", f"/game/saves/{slot}/versions/{number}/restore", headers)

    def numbers(self) -> list[int]:
        return [version["version"] for version in self.versions("auto")]


class ReadTest(VersionCase):
    def test_bytes_and_head(self) -> None:
        """A version is read as the save was when it was current, its own tag included."""
        answer = self.version(1)
        self.assertEqual((answer.status, answer.body), (200, ONE))
        shown = {name: answer.headers[name] for name in ("etag", "content-type", "save-meta", "repr-digest")}
        wanted = {"etag": tag(1, ONE), "content-type": "text/plain", "save-meta": '{"a":1}'}
        self.assertEqual(shown, {**wanted, "repr-digest": digest_of(ONE)})

    def test_conditions_and_ranges(self) -> None:
        """304, 206, 412 and HEAD as for the current version, by the version's own tag; large ones too."""
        self.put("auto", BIG, {"If-Match": tag(2, TWO)})
        self.put("auto", ONE, {"If-Match": tag(3, BIG)})
        self.assertEqual(self.version(3, {"If-None-Match": tag(3, BIG)}).status, 304)
        answer = self.version(3, {"Range": "bytes=5-9"})
        self.assertEqual((answer.status, answer.body), (206, BIG[5:10]))
        self.assertEqual(self.version(3, method="HEAD").status, 200)
        self.assert_problem(self.version(3, {"If-Match": tag(4, ONE)}), 412, "version_conflict")

    def test_not_there(self) -> None:
        """Unknown numbers and what is no number: 404 version_gone; a slot never seen: 404; a delete has no bytes."""
        for number in (3, 0, "01", "-1", "x", 10**18, 10**30, "%20"):
            self.assert_problem(self.version(number), 404, "version_gone", "/game/saves/auto/versions")
        self.assert_problem(self.ask("GET", "/game/saves/never/versions/1"), 404, "save_not_found")
        self.delete("auto", {"If-Match": "*"})
        self.assert_problem(self.version(3), 410, "deleted", "version 2 is what it deleted")
        self.assertEqual(self.version(2).body, TWO)

    def test_damaged(self) -> None:
        """Damage is noticed before a byte leaves, and the newest good version named; nothing damaged is restored."""
        self.damage("auto", 1)
        for answer in (self.version(1), self.restore(1, {"If-Match": tag(2, TWO)})):
            self.assert_problem(answer, 500, "corrupt_blob", "Version 2 is the newest that is good")
        self.assertEqual(self.numbers(), [2, 1])


class RestoreTest(VersionCase):
    def test_restore(self) -> None:
        """The old bytes are current under a new number, type and meta with them; no byte is copied."""
        answer = self.restore(1, {"If-Match": tag(2, TWO)})
        self.assertEqual((answer.status, answer.json["version"], answer.headers["etag"]), (200, 3, tag(3, ONE)))
        self.assertEqual((answer.json["meta"], answer.json["content_type"]), ({"a": 1}, "text/plain"))
        self.assertEqual(self.get("auto").body, ONE)
        self.assertEqual([version["kind"] for version in self.versions("auto")], ["restore", "write", "write"])
        self.assertEqual(self.in_state(lambda c: c.execute("SELECT count(*) FROM blob").fetchone()), (2,))
        self.assert_counts_agree()

    def test_repeated(self) -> None:
        """A repeated restore succeeds, or is superseded if something newer was stored."""
        for _ in range(2):
            self.assertEqual(self.restore(1, {"If-Match": tag(2, TWO)}).json["version"], 3)
        self.put("auto", THREE, {"If-Match": tag(3, ONE)})
        answer = self.assert_problem(self.restore(1, {"If-Match": tag(2, TWO)}), 412, "superseded", "something newer")
        self.assertEqual(answer.json["current"]["version"], 4)
        self.assertEqual(self.numbers(), [4, 3, 2, 1])

    def test_conditions(self) -> None:
        """A restore needs the current tag; a rejected one makes no copy."""
        self.assert_problem(self.restore(1), 428, "precondition_required", tag(2, TWO))
        answer = self.assert_problem(
            self.restore(1, {"If-Match": '"7-0000000000000000"'}), 412, "version_conflict", "nothing"
        )
        self.assertEqual(answer.json["yours"]["href"], "/game/saves/auto/versions/1")
        self.assert_problem(self.restore(1, {"If-Match": f"W/{tag(2, TWO)}"}), 412, "weak_validator")
        self.assert_problem(self.restore(1, {"If-Match": "9"}), 400, "bad_precondition")
        self.assert_problem(self.restore(9, {"If-Match": "*"}), 404, "version_gone")
        self.assert_problem(self.restore(1, {"If-Match": "*"}, slot="never"), 404, "save_not_found")
        self.assertEqual(self.numbers(), [2, 1])
        self.assertEqual(self.restore(1, {"If-Match": "*"}).status, 200)

    def test_restore_of_a_deleted_save(self) -> None:
        """A deleted save comes back with If-None-Match: *, asked once or twice; its tombstone holds nothing."""
        self.delete("auto", {"If-Match": tag(2, TWO)})
        self.assert_problem(self.restore(3, ABSENT), 410, "deleted", "holds no bytes")
        self.assert_problem(self.restore(2, {"If-Match": tag(2, TWO)}), 412, "deleted", "If-None-Match: *")
        for _ in range(2):
            self.assertEqual(self.restore(2, ABSENT).json["version"], 4)
        self.assertEqual(self.get("auto").body, TWO)
        self.assert_counts_agree()

    def test_restore_of_a_copy(self) -> None:
        """A refused save is made current, and then dismissed."""
        yours = self.put("auto", THREE, {"If-Match": tag(1, ONE)}).json["yours"]
        self.assertEqual(self.restore(yours["version"], {"If-Match": tag(2, TWO)}).json["version"], 4)
        self.assertEqual(self.get("auto").body, THREE)
        self.assertEqual(self.version(3, method="DELETE").status, 204)
        self.assertEqual(self.get("auto").body, THREE)
        self.assertEqual(self.numbers(), [4, 2, 1])
        self.assert_counts_agree()

    def test_quota(self) -> None:
        """Bringing back is a write: it must fit, unless it makes the save no larger."""
        self.browser = self.browser_for(SaveLimits(bytes=4, save_bytes=4))
        self.assertEqual(self.restore(1, {"If-Match": "*"}).status, 200)
        self.put("other", b"x", ABSENT)
        self.assert_problem(self.restore(2, {"If-Match": "*"}), 413, "quota_exceeded", "delete one")

    def test_large(self) -> None:
        """Also by way of files."""
        self.put("auto", BIG, {"If-Match": "*"})
        self.put("auto", ONE, {"If-Match": "*"})
        self.assertEqual(self.restore(3, {"If-Match": "*"}).status, 200)
        self.assertEqual(self.get("auto").body, BIG)


class Counting:
    """A connection that counts its statements."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self.statements = connection, 0

    def execute(self, sql: str, parameters: Any) -> Any:
        self.statements += 1
        return self._connection.execute(sql, parameters)


class NewestWrittenTest(VersionCase):
    """The version that can be restored of each deleted slot of a page."""

    def test_in_one_statement(self) -> None:
        """It is the last version that was current, in one statement for all slots; a conflict copy is none."""
        self.put("auto", THREE, {"If-Match": tag(1, ONE)})
        self.delete("auto", {"If-Match": "*"})
        self.put("restored", ONE, ABSENT)
        self.put("restored", TWO, {"If-Match": "*"})
        self.restore(1, {"If-Match": "*"}, slot="restored")
        self.delete("restored", {"If-Match": "*"})
        self.put("other", TWO, ABSENT)

        def read(connection: Connection) -> tuple[Mapping[str, Version], int]:
            counting = Counting(connection)
            found = newest_written(counting, ANNA, ["auto", "restored", "never"])  # type: ignore[arg-type]
            return found, counting.statements

        found, statements = self.in_state(read)
        self.assertEqual({slot: version.version for slot, version in found.items()}, {"auto": 2, "restored": 3})
        self.assertEqual(statements, 1)
        self.assertEqual(self.in_state(lambda connection: newest_written(connection, ANNA, [])), {})


class DismissTest(VersionCase):
    def test_dismiss(self) -> None:
        """A dismissed copy is not listed, its number is never used again, and a second dismissal gets 404."""
        self.put("auto", THREE, {"If-Match": tag(1, ONE)})
        cursor = self.ask("GET", "/game/saves").json["cursor"]
        self.assertEqual(self.version(3, method="DELETE").status, 204)
        changes = self.ask("GET", f"/game/saves?since={cursor}").json["saves"]
        self.assertEqual([(save["slot"], save["conflicts"]) for save in changes], [("auto", [])])
        self.assert_problem(self.version(3, method="DELETE"), 404, "version_gone")
        self.assertEqual(self.put("auto", ONE, {"If-Match": "*"}).json["version"], 4)
        self.assert_counts_agree()

    def test_protected(self) -> None:
        """Current, older, restored and deleted versions cannot be dismissed."""
        self.restore(1, {"If-Match": "*"})
        self.delete("auto", {"If-Match": "*"})
        for number in (1, 2, 3, 4):
            self.assert_problem(self.version(number, method="DELETE"), 409, "version_protected", "only conflict copies")
        self.assert_problem(self.ask("DELETE", "/game/saves/never/versions/1"), 404, "save_not_found")

    def test_foreign(self) -> None:
        """Another player's versions are not there."""
        self.put("auto", THREE, {"If-Match": tag(1, ONE)})
        self.bearer = self.sign_in("ply_" + "B" * 22)
        for answer in (self.version(3), self.version(3, method="DELETE"), self.restore(1, {"If-Match": "*"})):
            self.assert_problem(answer, 404, "save_not_found")
