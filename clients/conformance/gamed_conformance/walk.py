"""Random walks over a network that loses things, beside a model of what must be: nothing lost, nothing doubled.

Each written value is unique and names its writer, so a list of versions shows every write.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from random import Random
from typing import Any

from .driver import CommandFailed
from .matching import Mismatch, decoded
from .scenario_run import ScenarioRun

FATES: tuple[Mapping[str, Any], ...] = (
    *[{}] * 12,
    {"lose": "request"},
    {"lose": "answer"},
    {"tear": "request"},
    {"tear": "answer"},
    {"answer": {"status": 503, "problem": "busy"}},
    {"answer": {"status": 502, "text": "<h1>Bad Gateway</h1>"}},
)
PASSING = ("Unreachable", "Busy", "NotGamed")
ROUNDS = 8
KILL_SECONDS = 0.06
"""A process is killed so long after a command at most: a write or a round takes some milliseconds to tens of them."""


class Walk:
    """One walk: its players, the versions that they have seen, the versions that the server may have."""

    def __init__(self, scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
        self.scenario_run, self.random = scenario_run, Random(step["seed"])
        self.session: dict[str, Any] = scenario_run.memory[step["session"]]
        scenario_run.end("main").fate = lambda request: self.random.choice(FATES)

    def heal(self) -> None:
        self.scenario_run.end("main").fate = lambda request: {}

    def call(self, do: str, client: str, **how: Any) -> Any:
        return decoded(self.scenario_run.send(do, {"client": client, **how}).result())

    def passes(self, failure: CommandFailed) -> None:
        """Ignore a failure of the network; any other ends the walk."""
        if failure.error.get("kind") not in PASSING:
            raise Mismatch(f"over a bad network came {failure.error}") from None

    def at_server(self, path: str) -> Any:
        """Request JSON or text past the network; return None for a resource that does not exist."""
        connection = HTTPConnection("127.0.0.1", self.scenario_run.service.port, timeout=60)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.session['access_token']}"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            return None
        return json.loads(text) if answer.getheader("Content-Type") == "application/json" else text

    def versions(self, slot: str) -> list[dict[str, Any]]:
        """List the versions, newest first, each with its `text`; none for a slot that was never written."""
        listed = (self.at_server(f"/game/saves/{slot}/versions") or {"versions": []})["versions"]
        texts = [self.at_server(f"/game/saves/{slot}/versions/{version['version']}") for version in listed]
        return [{**version, "text": text} for version, text in zip(listed, texts, strict=True)]

    def not_doubled(self, slot: str) -> None:
        written = [version["text"] for version in self.versions(slot) if version["kind"] == "write"]
        if len(written) != len(set(written)):
            raise Mismatch(f"a write to {slot} was doubled: {written}")


def saves(scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
    """Run one writer that sends each request again until it is answered: it never conflicts with itself."""
    walk = Walk(scenario_run, step)
    held: dict[str, tuple[str, str] | None] = {"one": None, "two": None}
    for number in range(step["steps"]):
        slot = walk.random.choice(sorted(held))
        before = held[slot]
        base = before[1] if before else None
        if before and walk.random.random() < 0.15:
            answered(walk, "delete", slot=slot, base=base, done=("deleted",))
            held[slot] = None
        else:
            text = f"value {number}"
            info = answered(walk, "put", slot=slot, data=scenario_run.bytes_of(text), base=base)
            held[slot] = text, info["etag"]
        if walk.random.random() < 0.3:
            found = answered(walk, "get", slot=slot, done=("deleted",))
            expected = held[slot]
            if (found and found["text"]) != (expected and expected[0]):
                raise Mismatch(f"{slot} is {found}; expected {expected}")
    walk.heal()
    for slot, last in held.items():
        if walk.at_server(f"/game/saves/{slot}") != (last and last[0]):
            raise Mismatch(f"the server has another {slot} than the client: {last}")
        walk.not_doubled(slot)


def answered(walk: Walk, do: str, done: tuple[str, ...] = (), **how: Any) -> Any:
    """Repeat a request until there is an answer; return None for a code in `done`."""
    for _ in range(50):
        try:
            return walk.call(do, "a", **how)
        except CommandFailed as failure:
            if failure.error.get("code") in done:
                return None
            walk.passes(failure)
    raise Mismatch(f"{do} got no answer in 50 times")


class Devices(Walk):
    """Two devices of one player, offline and online, on one slot."""

    slot = "auto"
    processes: Mapping[str, str] = {"desk": "1", "sofa": "1"}

    def __init__(self, scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
        super().__init__(scenario_run, step)
        self.held: dict[str, str | None] = {"desk": None, "sofa": None}
        """The game's value in memory."""
        self.seen: dict[str, set[str | None]] = {"desk": {None}, "sofa": {None}}
        self.knew: dict[str | None, set[str | None]] = {None: {None}}
        """The versions that the writer of each value had read or replaced; those of all deletes under None."""
        self.count = 0

    def call(self, do: str, client: str, **how: Any) -> Any:
        return super().call(do, client, process=self.processes[client], **how)

    def wander(self, steps: int) -> None:
        deeds: list[Callable[[str], None]] = [self.write] * 4 + [self.pump] * 5 + [self.read, self.delete, self.restart]
        for _ in range(steps):
            self.random.choice(deeds + [self.choose] * 2)(self.random.choice(["desk", "sofa"]))

    def state(self, who: str) -> str:
        return str(self.call("sync_status", who, slot=self.slot)["state"])

    def new(self, who: str) -> str:
        self.count += 1
        self.held[who] = text = f"{who} {self.count}"
        self.seen[who].add(text)
        self.knew[text] = set(self.seen[who])
        return self.scenario_run.bytes_of(text)

    def write(self, who: str) -> None:
        self.call("sync_write", who, slot=self.slot, data=self.new(who))

    def delete(self, who: str) -> None:
        if self.state(who) != "newer" and self.held[who] is not None:
            self.call("sync_delete", who, slot=self.slot)
            self.held[who] = None
            self.knew[None] |= self.seen[who]

    def read(self, who: str) -> None:
        newer, found = self.state(who) == "newer", self.found(who)
        if not newer and found != self.held[who]:
            raise Mismatch(f"the game's own bytes changed behind its back: {found}, it had {self.held[who]}")
        self.held[who] = found
        self.seen[who].add(found)

    def found(self, who: str) -> str | None:
        try:
            save = self.call("sync_read", who, slot=self.slot)
        except CommandFailed as failure:
            if failure.error.get("code") == "not_arrived":
                return self.held[who]
            if failure.error.get("kind") not in ("Deleted", "NotKnown"):
                raise
            return None
        return save and save["text"]

    def pump(self, who: str) -> None:
        try:
            self.call("sync_pump", who)
        except CommandFailed as failure:
            self.passes(failure)

    def restart(self, who: str) -> None:
        before, pends = self.held[who], self.pends(who)
        self.call("sync_close", who)
        self.call("sync_open", who)
        self.read(who)
        self.kept(who, before, pends)

    def pends(self, who: str) -> bool:
        """Return whether the device may have a save that the server lacks."""
        return self.state(who) in ("waiting", "conflict", "refused")

    def kept(self, who: str, before: str | None, pends: bool) -> None:
        """Assert that a save which was pending is still on the device, or in the server's history."""
        if pends and before not in (None, self.held[who], *(version["text"] for version in self.versions(self.slot))):
            raise Mismatch(f"the pending save of {who} is lost: {before}; it has {self.held[who]}")

    def choose(self, who: str) -> None:
        for conflict in self.call("sync_conflicts", who)["conflicts"]:
            try:
                theirs = self.call("sync_side", who, slot=self.slot, side="theirs")
            except CommandFailed as failure:
                self.passes(failure)
                continue
            text = theirs and theirs["text"]
            if text and text.startswith(who):
                raise Mismatch(f"a conflict of {who} with itself: {conflict}")
            self.seen[who].add(text)
            self.random.choice([self.mine, self.theirs, self.both])(who, text)

    def mine(self, who: str, text: str | None) -> None:
        self.call("sync_keep_mine", who, slot=self.slot)
        self.knew[self.held[who]] |= self.seen[who]

    def theirs(self, who: str, text: str | None) -> None:
        self.call("sync_keep_theirs", who, slot=self.slot)
        self.held[who] = text

    def both(self, who: str, text: str | None) -> None:
        self.call("sync_merged", who, slot=self.slot, data=self.new(who))

    def settle(self) -> None:
        """Repair the network, and let the players choose until no conflict is left."""
        self.heal()
        for _ in range(ROUNDS):
            for who in self.held:
                for deed in (self.pump, self.choose, self.pump, self.read):
                    deed(who)
        states = {who: self.state(who) for who in self.held}
        current = self.at_server(f"/game/saves/{self.slot}")
        if set(states.values()) != {"in_step"} or set(self.held.values()) != {current}:
            raise Mismatch(f"they do not agree: {states}, {self.held}, the server has {current}")

    def check(self) -> None:
        """Assert that no current save was replaced by a device that had not seen it, and that none is doubled."""
        listed = self.versions(self.slot)
        kept = {version["version"]: version["text"] for version in listed if version["kind"] != "delete"}
        for version in listed:
            if version["parent"] is None or version["kind"] == "conflict":
                continue
            replaced, by = kept.get(version["parent"]), kept.get(version["version"])
            if replaced not in self.knew[by]:
                raise Mismatch(f"{replaced} was replaced by {by}, who had not seen it")
        self.not_doubled(self.slot)


class Killed(Devices):
    """Two devices with a process each, of two clients perhaps, which are killed at any moment."""

    processes: Mapping[str, str] = {"desk": "1", "sofa": "2"}

    def wander_with_kills(self, steps: int, kills: int) -> None:
        parts = [steps // (kills + 1)] * kills
        for part in (*parts, steps - sum(parts)):
            self.wander(part)
            if kills:
                kills -= 1
                self.kill(self.random.choice(["desk", "sofa"]))

    def kill(self, who: str) -> None:
        """Kill the process in a write, a round or neither; the game then has its last save, or the one it tried."""
        before, text, pends = self.held[who], self.held[who], self.pends(who)
        do = self.random.choice(["sync_write", "sync_pump", ""])
        where = {"client": who, "process": self.processes[who]}
        if do == "sync_write":
            data = self.new(who)
            text, self.held[who] = self.held[who], before
            self.scenario_run.send(do, {**where, "slot": self.slot, "data": data})
        elif do:
            self.scenario_run.send(do, where)
        time.sleep(self.random.uniform(0, KILL_SECONDS) if do else 0)
        self.scenario_run.perform({"process": "kill", "number": self.processes[who]})
        self.call("open", who, folder=f"{self.scenario_run.memory['folder']}/{who}", pauses=0)
        self.call("sync_open", who)
        newer, found = self.state(who) == "newer", self.found(who)
        if not newer and found not in (before, text):
            raise Mismatch(f"after a kill the game has {found}, not {before} or {text}")
        self.held[who] = found
        self.seen[who].add(found)
        if found != text:
            self.kept(who, before, pends)


def killed(scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
    devices = Killed(scenario_run, step)
    devices.wander_with_kills(step["steps"], step["kills"])
    devices.settle()
    devices.check()


def sync(scenario_run: ScenarioRun, step: Mapping[str, Any]) -> None:
    devices = Devices(scenario_run, step)
    devices.wander(step["steps"])
    devices.settle()
    devices.check()


WALKS = {"saves": saves, "sync": sync, "killed": killed}
