"""When a save is on the disk, in both versions of the engine: no frame waits for that."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clients.conformance.tests.helpers import ConformanceCase, World, lender
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
BEGIN: list[Mapping[str, Any]] = [
    {"player": "anna"},
    {"session": "first", "of": "anna"},
    {"enter": "${first}", "open": {}},
    {"do": "sync_open"},
    {"do": "sync_pump"},
]
WRITE: Mapping[str, Any] = {"do": "sync_write", "slot": "auto", "text": "level 1"}
OPEN: list[Mapping[str, Any]] = [{"do": "open"}, {"do": "sync_open"}]


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
        [body] = [path for path in self.world.folder.glob("**/slots/auto/*") if path.read_bytes() == b"level 22"]
        body.write_bytes(b"")
        self.restart()
        for _ in range(2):
            self.perform(*OPEN, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 1"}}, {"do": "close"})

    def test_failed_rename(self) -> None:
        """A record that cannot take its place is an error of `flush`, and holds up no round."""
        self.perform(*BEGIN, WRITE, {"do": "sync_flush"})
        [record] = self.records()
        record.unlink()
        (record / "x").mkdir(parents=True)
        newer = {"do": "sync_write", "slot": "auto", "text": "level 2"}
        error = {"kind": "LocalDamaged", "code": "local_disk"}
        self.perform(newer, {"do": "sync_flush", "error": error}, {"do": "sync_pump"})
        self.perform({"do": "sync_status", "slot": "auto", "expect": {"state": "in_step"}})

    def test_broken_disk_at_the_start(self) -> None:
        """A player who played before the sign-in can play where the flush always fails."""
        (self.programs / "broken").touch()
        begun, sign_in = [{"do": "open"}, {"do": "sync_open"}], BEGIN[:3]
        self.perform(*begun, WRITE, {"do": "close"}, *sign_in)
        read = {"do": "sync_read", "slot": "auto", "expect": {"text": "level 1"}}
        for _ in range(2):
            self.perform({"do": "sync_open"}, read, {"do": "sync_pump"}, {"do": "close"}, {"do": "open"})

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
        """An error of the disk is one of `flush`, which succeeds later; the game goes on."""
        (self.programs / "broken").touch()
        error = {"kind": "LocalDamaged", "code": "local_disk"}
        self.perform(*BEGIN, WRITE, {"do": "sync_flush", "error": error}, {"do": "sync_pump"})
        self.perform({"do": "sync_status", "slot": "auto", "expect": {"state": "in_step"}})
        (self.programs / "broken").unlink()
        self.perform({"do": "sync_flush"})

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
        self.perform(*OPEN, {"do": "sync_read", "slot": "auto", "expect": {"text": "level 1"}})
        self.perform({"do": "sync_pump"}, {"do": "sync_status", "slot": "auto", "expect": {"state": "in_step"}})

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
