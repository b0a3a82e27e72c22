"""A device whose disk is full keeps its saves, sends them, and recovers: each client on a small file system."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from clients.conformance.tests import test_csharp, test_godot3, test_godot4, test_js, test_python
from clients.conformance.tests.helpers import ConformanceCase, Scenario, World, lender, run

DISK_KIB = 128
LARGE_KIB = 8 * 1024 * 1024 + 2 * 1024
SAVE: Mapping[str, Any] = {"$repeat": ["x", 120 * 1024]}
"""A save that the server accepts and that does not fit on this disk."""
NO_ROOM: Mapping[str, Any] = {"kind": "DiskFull", "code": "disk_full"}
BEGIN: list[Mapping[str, Any]] = [
    {"player": "anna"},
    {"session": "first", "of": "anna"},
    {"enter": "${first}", "open": {}},
    {"do": "sync_open"},
    {"do": "sync_write", "slot": "auto", "text": "level 1"},
    {"do": "sync_pump"},
]


class FullDiskCase(SynchronousTestCase):
    def start_world(self, case: type[ConformanceCase], kib: int = DISK_KIB) -> None:
        """Start the driver of a client, whose folder is a small file system."""
        self.world = World(case.driver(), lender=lender())
        self.addCleanup(self.world.close)
        self.disk = self.world.folder / "places"
        self.disk.mkdir()
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(self.disk)], check=True)
        options = f"size={kib}k,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.disk)], check=True)

    def perform(self, *steps: Mapping[str, Any]) -> None:
        about = "A device whose disk is full."
        run(self.world, Scenario("full_disk", {"about": about, "real": True, "steps": [*BEGIN, *steps]}))

    def unfinished(self) -> list[Path]:
        """Return the files that a write left behind: other names, or larger than any small save."""
        found = [path for path in self.disk.rglob("*") if path.is_file()]
        return [path for path in found if path.suffix == ".new" or path.stat().st_size > DISK_KIB * 512]

    def check_own_save(self) -> None:
        """A save that does not fit is refused and leaves nothing behind, so that a smaller one fits."""
        self.perform(
            {"do": "sync_write", "slot": "big", "text": SAVE, "error": {"kind": "LocalDamaged", "code": "local_disk"}},
            {"do": "sync_write", "slot": "big", "text": "small"},
            {"do": "sync_write", "slot": "auto", "text": "level 2"},
            {"do": "sync_pump"},
            {"ask": "GET /game/saves/big", "session": "${first}", "expect": {"text": "small"}},
            {"ask": "GET /game/saves/auto", "session": "${first}", "expect": {"text": "level 2"}},
        )
        self.assertEqual(self.unfinished(), [])

    def check_close(self) -> None:
        """While a save of another device does not fit, the end of the game waits until its own saves are sent."""
        self.perform(
            {"ask": "PUT /game/saves/big", "session": "${first}", "text": SAVE, "headers": {"If-None-Match": "*"}},
            {"do": "sync_start"},
            {"until": "sync_trouble", "expect": {"code": "local_disk"}},
            {"do": "sync_write", "slot": "auto", "text": "level 2"},
            {"do": "sync_close", "within": 20},
            {"ask": "GET /game/saves/auto", "session": "${first}", "expect": {"text": "level 2"}},
        )

    def check_loop_heeds(self) -> None:
        """While a save of another device does not fit, the loop sends what the game writes, without a pause."""
        begin = [{**step, "open": {"pauses": 100}} if "enter" in step else step for step in BEGIN]
        steps: list[Mapping[str, Any]] = [
            *begin,
            {"ask": "PUT /game/saves/big", "session": "${first}", "text": SAVE, "headers": {"If-None-Match": "*"}},
            {"do": "sync_start"},
            {"until": "sync_trouble", "expect": {"code": "local_disk"}},
            {"do": "sync_write", "slot": "auto", "text": "level 2"},
            {"until": "sync_status", "slot": "auto", "expect": {"state": "in_step"}},
            {"do": "sync_trouble", "expect": {"code": "local_disk"}},
        ]
        about = "A device whose disk is full, and whose loop pauses for long."
        run(self.world, Scenario("full_disk_loop", {"about": about, "real": True, "steps": steps}))

    def check_download(self, error: Mapping[str, Any] | None) -> None:
        """A download into the file system arrives whole, or ends with `error`."""
        end: Mapping[str, Any] = {"error": error} if error else {"expect": {"release": "${first}"}}
        steps: list[Mapping[str, Any]] = [
            {"publish": {"level1.pck": {"$repeat": ["x", DISK_KIB * 1024]}}, "keep": "first"},
            {"do": "open"},
            {"do": "download", "channel": "stable", "target": "${folder}/places/files", **end},
        ]
        run(self.world, Scenario("full_disk_download", {"about": "A download.", "real": True, "steps": steps}))

    def check_save_of_another_device(self) -> None:
        """A save of another device that does not fit is reported, is not downloaded again at once, and does not keep
        this device from saving."""
        self.perform(
            {"ask": "PUT /game/saves/big", "session": "${first}", "text": SAVE, "headers": {"If-None-Match": "*"}},
            {"do": "sync_start"},
            {"until": "sync_trouble", "expect": {"code": "local_disk"}},
            {"do": "sync_status", "slot": "big", "expect": {"state": "refused", "problem": "local_disk"}},
            {"do": "sync_write", "slot": "auto", "text": "level 2"},
            {"until": "sync_status", "slot": "auto", "expect": {"state": "in_step"}},
            {"ask": "GET /game/saves/auto", "session": "${first}", "expect": {"text": "level 2"}},
            {"do": "sync_trouble", "expect": {"code": "local_disk"}},
            {"requests": "GET /game/saves/big/versions/*", "count": 1},
        )
        self.assertEqual(self.unfinished(), [])


class Download(FullDiskCase):
    """A download knows a disk that is too small from one that is large."""

    def test_python(self) -> None:
        """In Python a download that does not fit is refused."""
        self.start_world(test_python.Python)
        self.check_download(NO_ROOM)

    def test_javascript(self) -> None:
        """In Node.js a download that does not fit is refused."""
        self.start_world(test_js.JavaScript)
        self.check_download(NO_ROOM)

    def test_csharp(self) -> None:
        """In C# a download that does not fit is refused."""
        self.start_world(test_csharp.CSharp)
        self.check_download(NO_ROOM)

    def test_godot3(self) -> None:
        """In Godot 3 a download that does not fit is refused."""
        self.start_world(test_godot3.Godot3)
        self.check_download(NO_ROOM)

    def test_godot4(self) -> None:
        """In Godot 4 a download that does not fit is refused."""
        self.start_world(test_godot4.Godot4)
        self.check_download(NO_ROOM)

    def test_large_godot3(self) -> None:
        """In Godot 3 a disk with a little more than 8 GiB, whose lower 32 bits are small, is large."""
        self.start_world(test_godot3.Godot3, LARGE_KIB)
        self.check_download(None)

    def test_large_godot4(self) -> None:
        """In Godot 4 a disk with a little more than 8 GiB is large."""
        self.start_world(test_godot4.Godot4, LARGE_KIB)
        self.check_download(None)


class FullDisk(FullDiskCase):
    """A save that does not fit is an error of the client, which continues to save."""

    def test_python_own_save(self) -> None:
        """In Python a save of this device that does not fit leaves nothing behind."""
        self.start_world(test_python.Python)
        self.check_own_save()

    def test_javascript_own_save(self) -> None:
        """In JavaScript a save of this device that does not fit leaves nothing behind."""
        self.start_world(test_js.JavaScript)
        self.check_own_save()

    def test_csharp_own_save(self) -> None:
        """In C# a save of this device that does not fit leaves nothing behind."""
        self.start_world(test_csharp.CSharp)
        self.check_own_save()

    def test_python(self) -> None:
        """The Python client continues to save."""
        self.start_world(test_python.Python)
        self.check_save_of_another_device()

    def test_javascript(self) -> None:
        """The JavaScript client in Node.js continues to save."""
        self.start_world(test_js.JavaScript)
        self.check_save_of_another_device()

    def test_csharp(self) -> None:
        """The C# client continues to save."""
        self.start_world(test_csharp.CSharp)
        self.check_save_of_another_device()

    def test_godot3(self) -> None:
        """The client for Godot 3 continues to save."""
        self.start_world(test_godot3.Godot3)
        self.check_save_of_another_device()

    def test_godot3_own_save(self) -> None:
        """In Godot 3 a save of this device that does not fit leaves nothing behind."""
        self.start_world(test_godot3.Godot3)
        self.check_own_save()

    def test_godot4(self) -> None:
        """The client for Godot 4 continues to save."""
        self.start_world(test_godot4.Godot4)
        self.check_save_of_another_device()

    def test_godot4_own_save(self) -> None:
        """In Godot 4 a save of this device that does not fit leaves nothing behind."""
        self.start_world(test_godot4.Godot4)
        self.check_own_save()

    def test_python_close(self) -> None:
        """In Python the end of the game waits until its save is sent."""
        self.start_world(test_python.Python)
        self.check_close()

    def test_javascript_close(self) -> None:
        """In JavaScript the end of the game waits until its save is sent."""
        self.start_world(test_js.JavaScript)
        self.check_close()

    def test_csharp_close(self) -> None:
        """In C# the end of the game waits until its save is sent."""
        self.start_world(test_csharp.CSharp)
        self.check_close()

    def test_godot3_loop(self) -> None:
        """In Godot 3 the loop sends the save at once."""
        self.start_world(test_godot3.Godot3)
        self.check_loop_heeds()

    def test_godot4_loop(self) -> None:
        """In Godot 4 the loop sends the save at once."""
        self.start_world(test_godot4.Godot4)
        self.check_loop_heeds()
