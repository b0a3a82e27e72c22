"""Two servers store one player's saves: of two writes that exclude each other, one wins (docs/protocol.md: Saves)."""

from hashlib import sha256

from tests.e2e.client import digest
from tests.e2e.wire import Answer
from tests.processes.cases import SharedCase
from tests.processes.wire import Request, bearer, json_request


class SaveRaces(SharedCase):
    def setUp(self) -> None:
        super().setUp()
        [player] = self.players(1)
        self.token = player.access

    def put(self, slot: str, data: bytes, **headers: str) -> Request:
        """Return a PUT; `If_Match` is If-Match."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Request("PUT", f"/game/saves/{slot}", {**bearer(self.token), **named}, data)

    def get(self, path: str) -> Request:
        return Request("GET", path, bearer(self.token))

    def stored(self, slot: str) -> list[bytes]:
        """Return the bytes that each server has for this slot."""
        return [self.ask(number, self.get(f"/game/saves/{slot}"), 200).body for number in (0, 1)]

    def assert_conflict(self, refused: Answer, current: bytes, yours: bytes) -> None:
        """Check the answer to a refused write: both sides are named, and readable at either server."""
        sides = refused.json
        self.assertEqual(sides["code"], "version_conflict")
        for side, data in (("current", current), ("yours", yours)):
            self.assertEqual(sides[side]["sha256"], digest(data))
            for number in (0, 1):
                self.assertEqual(self.ask(number, self.get(sides[side]["href"]), 200).body, data)

    def test_same_if_match(self) -> None:
        """Two writes over the same version: one is stored, the other is refused and its bytes are kept."""
        etag = self.ask(0, self.put("auto", b"first", If_None_Match="*"), 201).headers["etag"]

        def each(number: int) -> int:
            nonlocal etag
            data = [b"%d of %d" % (server, number) for server in (0, 1)]
            answers = self.race(*(self.put("auto", each, If_Match=etag) for each in data))
            won = self.winner(answers, 200, 412)
            self.assertEqual(self.stored("auto"), [data[won]] * 2)
            self.assert_conflict(answers[1 - won], data[won], data[1 - won])
            etag = answers[won].headers["etag"]
            return won

        self.rounds(each)

    def test_first_save(self) -> None:
        """Two first writes of a slot: one creates it; the other is refused as its condition requires."""

        def each(number: int) -> int:
            slot, condition = f"slot{number}", {"If_None_Match": "*"} if number % 2 else {}
            data = [b"%d of %d" % (server, number) for server in (0, 1)]
            answers = self.race(*(self.put(slot, each, **condition) for each in data))
            won = self.winner(answers, 201, 412 if condition else 428)
            self.assertEqual(self.stored(slot), [data[won]] * 2)
            if condition:
                self.assert_conflict(answers[1 - won], data[won], data[1 - won])
            else:
                self.assertEqual(answers[1 - won].json["code"], "precondition_required")
            return won

        self.rounds(each)

    def test_same_bytes(self) -> None:
        """Two writes of the same bytes over the same version both succeed, and are stored once."""
        etag = self.ask(0, self.put("auto", b"first", If_None_Match="*"), 201).headers["etag"]

        def each(number: int) -> None:
            nonlocal etag
            data = b"round %d" % number
            answers = self.race(*[self.put("auto", data, If_Match=etag)] * 2)
            self.assertEqual([answer.status for answer in answers], [200, 200], answers)
            [etag] = {answer.headers["etag"] for answer in answers}
            self.assertEqual(etag.partition("-")[0], f'"{number + 2}')

        self.rounds(each)

    def test_overlapping_commits(self) -> None:
        """Two commits that share a slot: one changes all its slots, the other none of its own."""
        shared = self.ask(0, self.put("shared", b"first", If_None_Match="*"), 201).headers["etag"]

        def each(number: int) -> int:
            nonlocal shared
            commits, data = [], []
            for server in (0, 1):
                body = b"%d of %d" % (server, number)
                data.append(body)
                sha = sha256(body).hexdigest()
                self.ask(server, Request("PUT", f"/game/blobs/{sha}", bearer(self.token), body), 201)
                own = {"slot": f"own{number}-{server}", "if_none_match": "*", "sha256": sha}
                both = {"slot": "shared", "if_match": shared, "sha256": sha}
                writes = [own, both] if server else [both, own]
                commits.append(json_request("POST", "/game/commit", {"writes": writes}, **bearer(self.token)))
            answers = self.race(*commits)
            won = self.winner(answers, 200, 412)
            self.assertEqual([conflict["slot"] for conflict in answers[1 - won].json["conflicts"]], ["shared"])
            self.assertEqual(self.stored("shared"), [data[won]] * 2)
            self.assertEqual(self.stored(f"own{number}-{won}"), [data[won]] * 2)
            for server in (0, 1):
                answer = self.ask(server, self.get(f"/game/saves/own{number}-{1 - won}"), 404)
                self.assertEqual(answer.json["code"], "save_not_found")
            shared = self.ask(0, self.get("/game/saves/shared"), 200).headers["etag"]
            return won

        self.rounds(each)

    def test_erase_against_write(self) -> None:
        """An erase and a write: either the write is stored and the erase refused, or all saves are erased."""

        def each(number: int) -> int:
            self.ask(0, self.put("auto", b"first"), 201)
            etag = self.ask(1, self.get("/game/saves/auto"), 200).headers["etag"]
            cursor = self.ask(1, self.get("/game/"), 200).headers["etag"]
            erase = Request("DELETE", "/game/", {**bearer(self.token), "If-Match": cursor})
            pair = (erase, self.put("auto", b"second", If_Match=etag))
            eraser = number % 2
            answers = self.race(*(pair if eraser == 0 else pair[::-1]))
            erased, written = answers[eraser], answers[1 - eraser]
            won = self.winner(answers, (200, 204), (410, 412))
            if won == eraser:
                self.assertEqual(erased.status, 204)
                self.assertIn((written.status, written.json["code"]), {(410, "erased"), (412, "version_conflict")})
                for server in (0, 1):
                    self.assertEqual(self.ask(server, self.get("/game/saves"), 200).json["saves"], [])
                return won
            self.assertEqual((written.status, erased.status), (200, 412))
            self.assertEqual(erased.json["code"], "version_conflict")
            self.assertEqual(self.stored("auto"), [b"second"] * 2)
            cursor = self.ask(0, self.get("/game/"), 200).headers["etag"]
            self.ask(1, Request("DELETE", "/game/", {**bearer(self.token), "If-Match": cursor}), 204)
            return won

        self.rounds(each)
