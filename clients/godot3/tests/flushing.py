"""When a save is on the disk, in both versions of the engine: no frame waits for that."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clients.conformance.tests.helpers import ConformanceCase, World, lender
from clients.godot3.tests.cancelling import played
from tests.support.folders import unused_path

from gamed_conformance.scenario_run import ScenarioRun  # isort: skip  (the helpers set its path)
from gamed_conformance.suite import perform  # isort: skip

PROGRAM = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "{folder}/log"
[ -e "{folder}/slow" ] && sleep {seconds}
[ -e "{folder}/broken" ] && exit 1
PATH={path} "$(basename "$0")" "$@"
echo end >> "{folder}/log"
"""
SLOW_SECONDS = 4
LIMIT_SECONDS = 20
BEGIN: list[Mapping[str, Any]] = [
    {"player": "anna"},
    {"session": "first", "of": "anna"},
    {"enter": "${first}", "open": {}},
    {"do": "sync_open"},
    {"do": "sync_pump"},
]
WRITE: Mapping[str, Any] = {"do": "sync_write", "slot": "auto", "text": "level 1"}
OPEN: list[Mapping[str, Any]] = [{"do": "open"}, {"do": "sync_open"}]
READ: Mapping[str, Any] = {"do": "sync_read", "slot": "auto", "expect": {"text": "level 1"}}
BROKEN: Mapping[str, Any] = {"kind": "LocalDamaged", "code": "local_disk"}
HEARD: Mapping[str, Any] = {"until": "sync_trouble", "expect": {"code": "local_disk"}}
FILES = {"big.pck": {"$repeat": ["0123456789abcdef", 25000]}}
MOST_DAMAGED = 4


class Flushing:
    """A mixin for both versions of the engine: a case whose driver has other programs for the disk."""

    case: type[ConformanceCase]

    def setUp(self) -> None:
        self.programs = unused_path(self)
        self.programs.mkdir()
        for name in ("sync", "chmod"):
            program = self.programs / name
            program.write_text(
                PROGRAM.format(folder=self.programs, seconds=SLOW_SECONDS, path=os.environ["PATH"]), "utf-8"
            )
            program.chmod(0o755)
        path = f"PATH={self.programs}:{os.environ['PATH']}"
        first, *rest = self.case.driver()  # env
        self.world = World([first, path, *rest], lender=lender())
        self.addCleanup(self.world.close)
        self.scenario = ScenarioRun(self.world, "flush", {}, True)
        self.addCleanup(self.close_ends)

    def close_ends(self) -> None:
        for end in self.scenario.ends.values():
            end.close()

    def perform(self, *steps: Mapping[str, Any]) -> None:
        for step in steps:
            perform(self.scenario, step)

    def log(self) -> list[str]:
        """Return a line for each program that was started, and `end` for each that ended."""
        return (self.programs / "log").read_text("utf-8").splitlines()

    def started(self) -> int:
        return sum(line != "end" for line in self.log())

    def records(self) -> list[Path]:
        return sorted(self.world.folder.glob("**/slots/auto/record*"))

    def body(self, text: str) -> Path:
        [found] = [path for path in self.world.folder.glob("**/slots/auto/*") if path.read_bytes() == text.encode()]
        return found

    def damaged(self) -> list[Path]:
        """Return the folders with what power cuts have torn, the oldest first."""
        return sorted(self.world.folder.glob("**/damaged/*"), key=lambda path: int(path.name))

    def check_frames(self, doing: Mapping[str, Any], waits_for: str) -> None:
        """While a command waits for the disk to have a file, the game reads its save in a frame."""
        before = len(self.log()) if (self.programs / "log").exists() else 0
        (self.programs / "slow").touch()
        self.perform({"start": doing["do"], **{name: value for name, value in doing.items() if name != "do"}})
        end = time.monotonic() + LIMIT_SECONDS
        while not any(line.startswith("sync ") and waits_for in line for line in self.log()[before:]):
            self.assertLess(time.monotonic(), end, self.log()[before:])
            time.sleep(0.05)
        began = time.monotonic()
        self.perform(READ)
        self.assertLess(time.monotonic() - began, SLOW_SECONDS / 2)
        (self.programs / "slow").unlink()
        self.perform({"finish": doing["do"]})

    def restart(self) -> None:
        """Let the client find that the machine has started again."""
        [boot] = self.world.folder.glob("**/boot")
        boot.write_text("another boot")

    def test_torn_bytes(self) -> None:
        """After a power cut the newer bytes may be torn, although their record is whole: the older save counts."""
        self.perform(*BEGIN, WRITE, {"do": "sync_flush"})
        (self.programs / "slow").touch()
        self.perform({"do": "sync_write", "slot": "auto", "text": "level 22"}, {"process": "kill"})
        (self.programs / "slow").unlink()
        body = self.body("level 22")
        body.write_bytes(b"")
        self.restart()
        for _ in range(2):
            self.perform(*OPEN, READ, {"do": "close"})
        [aside] = self.damaged()
        self.assertIn(body.name, [path.name for path in (aside / "auto").iterdir()])

    def test_failed_rename(self) -> None:
        """A record that cannot take its place is an error of `flush`, and holds up no round."""
        self.perform(*BEGIN, WRITE, {"do": "sync_flush"})
        [record] = self.records()
        record.unlink()
        (record / "x").mkdir(parents=True)
        newer = {"do": "sync_write", "slot": "auto", "text": "level 2"}
        self.perform(newer, {"do": "sync_flush", "error": BROKEN}, {"do": "sync_pump", "error": BROKEN})
        self.perform({"do": "sync_status", "slot": "auto", "expect": {"state": "in_step"}})

    def test_broken_disk_at_the_start(self) -> None:
        """A player who played before the sign-in can play where the flush always fails."""
        (self.programs / "broken").touch()
        begun, sign_in = [{"do": "open"}, {"do": "sync_open"}], BEGIN[:3]
        self.perform(*begun, WRITE, {"do": "close"}, *sign_in)
        for _ in range(2):
            sent = {"do": "sync_pump", "error": BROKEN}
            self.perform(
                {"do": "sync_open"}, READ, sent, {"do": "sync_ready", "within": 9}, {"do": "close"}, {"do": "open"}
            )
            self.perform({"ask": "GET /game/saves/auto", "session": "${first}", "expect": {"text": "level 1"}})

    def test_one_process(self) -> None:
        """A save with all that follows, until the server has it and its list names it, starts one process."""
        self.perform(*BEGIN)
        before = self.started()
        self.perform(WRITE, {"do": "sync_pump"}, {"do": "sync_pump"}, {"do": "sync_flush"}, {"do": "sync_pump"})
        saved = [line for line in self.log() if "/slots/auto/record-" in line]
        self.assertLessEqual(self.started() - before, 2, self.log())  # one of them for `sync_flush`
        names = (r"auto/[0-9a-f]{64}", "auto/record-1", "auto", "")
        expected = "sync" + "".join(rf" \S+/slots/{name}" for name in names)
        self.assertRegex(saved[0] + "/", f"^{expected}$")
        self.assertLessEqual(len(self.records()), 2)

    def test_no_frame_waits(self) -> None:
        """While the disk is slow, the game writes and reads; the end of its saves waits for the disk."""
        self.perform(*BEGIN)
        (self.programs / "slow").touch()
        began = time.monotonic()
        newer = {"do": "sync_write", "slot": "auto", "text": "level 2"}
        self.perform(WRITE, newer, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 2"}}, {"do": "whoami"})
        self.assertLess(time.monotonic() - began, SLOW_SECONDS)
        self.perform({"do": "sync_close"})
        self.assertEqual(self.log().count("end"), self.started())
        (self.programs / "slow").unlink()
        self.perform({"do": "sync_open"}, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 2"}})

    def test_broken_disk(self) -> None:
        """An error of the disk after `write` is in `problem` and in the slot's status until a flush succeeds; the
        game's saves are sent meanwhile."""
        (self.programs / "broken").touch()
        status = {"do": "sync_status", "slot": "auto"}
        self.perform(*BEGIN, WRITE, HEARD, {**status, "expect": {"state": "waiting", "problem": "local_disk"}})
        self.perform({"do": "sync_flush", "error": BROKEN}, {"do": "sync_pump", "error": BROKEN})
        self.perform({**status, "expect": {"state": "in_step", "problem": "local_disk"}})
        self.perform({"ask": "GET /game/saves/auto", "session": "${first}", "expect": {"text": "level 1"}})
        (self.programs / "broken").unlink()
        self.perform({"do": "sync_flush"}, {"do": "sync_trouble", "expect": {"code": None}})
        self.perform({**status, "expect": {"state": "in_step", "problem": None}}, {"do": "sync_pump"})

    def test_hears(self) -> None:
        """A game hears of the error by both signals, without a network, too."""
        (self.programs / "broken").touch()
        path = f"{self.programs}:{os.environ['PATH']}"
        said = played(self.case, "hears.gd", PATH=path, GAMED_FOLDER=str(unused_path(self)))
        heard = [line.partition(" ")[2].replace("<null>", "Null") for line in said if line.startswith("HEARS ")]
        self.assertEqual(heard[0], "write Null")
        self.assertEqual(sorted(heard[1:]), ["problem LocalDamaged", "status auto local_disk"])
        self.assertEqual([line for line in said if "res://" in line], [])

    def test_retry_at_close(self) -> None:
        """After an error the bytes are written anew, and the end of the game brings them to the disk."""
        self.perform(*BEGIN)
        for name in ("broken", "slow"):
            (self.programs / name).touch()
        self.perform(WRITE)
        first = self.body("level 1").stat().st_ino
        self.perform(HEARD)
        self.assertNotEqual(self.body("level 1").stat().st_ino, first)
        for name in ("broken", "slow"):
            (self.programs / name).unlink()
        before = len(self.log())
        self.perform({"do": "sync_close"})
        retried = self.log()[before:]
        self.assertRegex(retried[0], "^sync .*/slots/auto/record-")
        self.assertEqual(retried[1:], ["end"])
        self.assertEqual([path.name for path in self.records()], ["record"])

    def test_cursor(self) -> None:
        """The cursor on the disk waits for the saves before it; a round after the repair keeps it."""
        self.perform(*BEGIN, WRITE, {"do": "sync_pump"}, {"do": "sync_flush"}, {"do": "sync_pump"})
        [cursor] = self.world.folder.glob("**/cursor")
        before = cursor.read_bytes()
        (self.programs / "broken").touch()
        self.perform({"do": "sync_write", "slot": "auto", "text": "level 2"})
        for _ in range(3):
            self.perform({"do": "sync_pump", "error": BROKEN})
        self.assertEqual(cursor.read_bytes(), before)
        (self.programs / "broken").unlink()
        self.perform({"do": "sync_pump"})
        self.assertNotEqual(cursor.read_bytes(), before)

    def test_leftover_record(self) -> None:
        """A record whose flush has failed does not stay beside a newer one, whose number `record` does not show."""
        self.perform(*BEGIN)
        for name in ("broken", "slow"):
            (self.programs / name).touch()
        self.perform(WRITE, {"sleep": 0.5}, {"do": "sync_write", "slot": "auto", "text": "level 2"}, HEARD)
        [record] = self.records()
        self.assertNotEqual(record.name, "record-1")
        self.perform({"process": "kill"})
        for name in ("broken", "slow"):
            (self.programs / name).unlink()
        self.perform(*OPEN, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 2"}})

    def test_flush_under_way(self) -> None:
        """A `flush` while the disk is at work waits for that alone."""
        self.perform(*BEGIN)
        (self.programs / "slow").touch()
        before = self.started()
        self.perform(WRITE, {"sleep": 0.5}, {"do": "sync_flush"}, {"do": "sync_trouble", "expect": {"code": None}})
        self.assertEqual(self.started() - before, 1, self.log()[before:])

    def test_dropped(self) -> None:
        """Each wait of saves that the game has closed and dropped ends."""
        self.perform(*BEGIN, {"do": "sync_open"})
        (self.programs / "slow").touch()
        self.perform(WRITE, {"start": "sync_flush"}, {"do": "sync_open"}, {"finish": "sync_flush"})
        self.perform({"start": "sync_ready", "within": 60}, {"do": "sync_open"})
        self.perform({"finish": "sync_ready", "expect": {"ready": True}})

    def test_no_frame_waits_for_others(self) -> None:
        """Nor does one wait for a refresh, a sign-out, an export or a download."""
        self.perform(*BEGIN, WRITE, {"do": "sync_pump"}, {"do": "sync_flush"}, {"publish": FILES, "keep": "new"})
        self.perform({"do": "clock", "shift": 100_000})
        self.check_frames({"do": "whoami"}, ".json.new")
        self.check_frames({"do": "export", "file": "${folder}/saves.zip"}, "saves.zip.new")
        self.check_frames({"do": "download", "channel": "stable", "target": "${folder}/files"}, "/staging/")
        self.check_frames({"do": "sign_out"}, "/places/")

    def test_no_frame_waits_for_an_adoption(self) -> None:
        """Nor does one wait while the saves from before the sign-in become the player's."""
        self.perform(
            *BEGIN[:2], {"do": "open"}, {"do": "sync_open"}, WRITE, {"do": "sync_flush"}, {"enter": "${first}"}
        )
        self.check_frames({"do": "sync_pump"}, "/slots/auto/record-1")
        self.assertNotIn("not.signed.in", [path.parents[2].name for path in self.records()])

    def test_torn_record(self) -> None:
        """After a power cut a record that was not on the disk yet may be torn: the one before it counts."""
        self.perform(*BEGIN, WRITE, {"do": "sync_flush"}, {"do": "sync_pump"}, {"process": "kill"})
        older, newer = self.records()
        self.assertEqual(older.name, "record")
        newer.write_bytes(b"\0" * newer.stat().st_size)
        damaged = {"kind": "LocalDamaged", "code": "state_damaged"}
        self.perform({"do": "open"}, {"do": "sync_open", "error": damaged})  # a kill does not tear a record
        self.assertEqual(self.records(), [older, newer])
        self.restart()
        others = [newer.parents[2] / "damaged" / str(number) for number in range(7, 7 + MOST_DAMAGED)]
        for other in others:
            other.mkdir(parents=True)
            (other / "record-1").touch()
        torn = newer.read_bytes()
        self.perform(*OPEN, {"do": "sync_trouble", "expect": {"code": "state_damaged"}}, READ, {"do": "sync_pump"})
        self.perform({"do": "sync_status", "slot": "auto", "expect": {"state": "in_step"}})
        self.perform({"do": "sync_trouble", "expect": {"code": None}})
        *kept, last = self.damaged()
        self.assertEqual(kept, others[1:])
        self.assertEqual([(path.name, path.read_bytes()) for path in (last / "auto").iterdir()], [(newer.name, torn)])

    def test_many_torn(self) -> None:
        """One power cut may tear many slots: the start after it keeps them all, and names them."""
        slots = [f"slot-{number}" for number in range(MOST_DAMAGED + 2)]
        writes = [{"do": "sync_write", "slot": slot, "text": "level 1"} for slot in slots]
        self.perform(*BEGIN, *writes, {"do": "sync_flush"}, {"do": "sync_pump"}, {"process": "kill"})
        torn = {slot: path for slot in slots for path in self.world.folder.glob(f"**/slots/{slot}/record-*")}
        self.assertEqual(list(torn), slots)
        for path in torn.values():
            path.write_bytes(b"\0" * path.stat().st_size)
        self.restart()
        detail = {"$pattern": f".*{', '.join(slots)}.*"}
        self.perform(*OPEN, {"do": "sync_trouble", "expect": {"code": "state_damaged", "detail": detail}})
        [aside] = self.damaged()
        self.assertEqual(sorted(path.name for path in aside.iterdir()), slots)
        for slot, path in torn.items():
            self.assertIn(path.name, [kept.name for kept in (aside / slot).iterdir()])

    def test_earlier_version(self) -> None:
        """After the end of the game the slot has one file `record`, as earlier versions of the client keep it."""
        self.perform(*BEGIN, WRITE, {"do": "sync_pump"}, {"do": "close"})
        [record] = self.records()
        self.assertEqual(record.name, "record")
        newer = {"do": "sync_write", "slot": "auto", "text": "level 2"}
        self.perform(*OPEN, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 1"}}, newer, {"do": "close"})
        self.assertEqual(self.records(), [record])
        self.perform(*OPEN, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 2"}})

    def test_restart_of_the_machine(self) -> None:
        """The note that a save was sent may be lost in a power cut: it counts as sent, so that a newer save of the game
        is no conflict with its own."""
        self.perform(*BEGIN, WRITE, {"do": "sync_flush"}, {"do": "close"})
        self.restart()
        newer = {"do": "sync_write", "slot": "auto", "text": "level 2"}
        self.perform(*OPEN, {"process": "kill"}, *OPEN, newer, {"do": "sync_pump"})
        versions = {"json": {"versions": [{"version": 2, "kind": "write"}, {"version": 1, "kind": "write"}]}}
        self.perform({"ask": "GET /game/saves/auto/versions", "session": "${first}", "expect": versions})
