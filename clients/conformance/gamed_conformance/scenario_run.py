"""One run of a scenario: fake servers, memory, and the effect of each kind of step (README: Scenarios)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .driver import LIMIT_SECONDS, CommandFailed, Pending
from .fake_server import FakeServer, Rule
from .matching import Mismatch, decoded, encoded, expect, filled, matches
from .surroundings import Surroundings
from .world import World, made_up

UNTIL_PAUSE_SECONDS = 0.05

OFFERS = {
    "GET /auth/config": {"answer": {"json": {"mode": "local", "providers": []}}},
    "GET /auth/providers": {"answer": {"status": 404, "problem": "route_not_found"}},
}
"""Answers of a fake server without the real one, unless a rule matches: those of an older server in `local` mode."""


class ScenarioRun(Surroundings):
    """Performs the steps; `close` ends all that they started."""

    def __init__(self, world: World, name: str, case: Mapping[str, Any], real: bool | str) -> None:
        self.world, self._real = world, bool(real)
        self.mode = real if isinstance(real, str) else "local"
        folder = world.folder / "places" / f"{name}-{time.monotonic_ns()}"
        self.ends: dict[str, FakeServer] = {}
        self.memory: dict[str, Any] = {
            "folder": str(folder),
            "made_up": made_up(),
            "other_made_up": made_up("ply_other"),
        }
        self.memory |= case
        self._clients: set[tuple[str, str]] = set()
        self._pending: dict[str, Pending] = {}
        self.connections = []
        self.memory |= {"server": self.end("main").origin, "other": self.end("other").origin}
        self.memory |= {"port": self.end("main").port, "other_authority": self.memory["other"].partition("//")[2]}
        if real:
            self.memory["direct"] = self.service.base
        self.memory |= filled(dict(case), self.memory)
        for driver in world.drivers:
            driver.events.clear()
            driver.lines.clear()

    def end(self, name: str) -> FakeServer:
        if name not in self.ends:
            self.ends[name] = FakeServer(self.service if self._real else None)
            if not self._real:
                self.ends[name].fate = lambda request: OFFERS.get(request.line)
        return self.ends[name]

    def perform(self, step: Mapping[str, Any]) -> None:
        step = {**step, **filled(step.get("with", {}), self.memory)}
        step.pop("with", None)
        kind = next(iter(step))
        method = getattr(self, "_" + kind, None)
        if method is None:
            raise Mismatch(f"there is no step {kind!r}")
        value = dict(filled(dict(step), self.memory))
        method(value.pop(kind), value)

    # -- commands --

    def _arguments(self, do: str, how: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        process, client = how.pop("process", "1"), how.pop("client", "a")
        for name in ("expect", "error", "either", "keep", "as"):
            how.pop(name, None)
        if do == "open":
            self._clients.add((process, client))
            how = {"server": self.memory["server"], "folder": self.memory["folder"], "app": "conformance"} | how
            how = {"pauses": 0.01, "timeout_seconds": 20, **how}
        return process, {"client": client, **encoded(how)}

    def _do(self, do: str, step: dict[str, Any]) -> None:
        self._check(do, step, self.send(do, step))

    def _until(self, do: str, step: dict[str, Any]) -> None:
        """Repeat a command until its result is as expected: the client's own loop works meanwhile."""
        end = time.monotonic() + self.world.until_seconds
        while True:
            found = decoded(self.send(do, step).result())
            if matches(step["expect"], found):
                return self._keep(step, found)
            if time.monotonic() > end:
                expect(step["expect"], found, f"the result of {do} after {self.world.until_seconds:g} s")
            time.sleep(UNTIL_PAUSE_SECONDS)

    def send(self, do: str, step: Mapping[str, Any]) -> Pending:
        process, arguments = self._arguments(do, dict(step))
        return self.world.driver(process).send(do, **arguments)

    @staticmethod
    def bytes_of(text: str) -> str:
        return str(encoded({"text": text})["data"])

    def _check(self, do: str, step: dict[str, Any], pending: Pending, within: float = LIMIT_SECONDS) -> None:
        try:
            result = decoded(pending.result(within))
        except CommandFailed as failure:
            may = "error" in step or step.get("either")
            if not may or failure.error.get("kind") == "Driver":
                raise Mismatch(f"{do} failed: {failure}") from None
            expect(step.get("error", {}), failure.error, f"the error of {do}")
            result = failure.error
        else:
            if "error" in step and not step.get("either"):
                raise Mismatch(f"{do} gave {result!r}; expected the error {step['error']!r}")
            if "expect" in step:
                expect(step["expect"], result, f"the result of {do}")
        self._keep(step, result)

    def _start(self, do: str, step: dict[str, Any]) -> None:
        """Start a command; `finish` waits for its answer."""
        self._pending[step.get("as", do)] = self.send(do, step)

    def _finish(self, name: str, step: dict[str, Any]) -> None:
        self._check(name, step, self._pending.pop(name), step.get("within", LIMIT_SECONDS))

    def _event(self, name: str, step: dict[str, Any]) -> None:
        found = self.world.driver(step.get("process", "1")).event(name, step.get("client", "a"))
        expect(step.get("expect", {}), found, f"the event {name}")
        self._keep(step, found)

    def _no_event(self, name: str, step: dict[str, Any]) -> None:
        for driver in self.world.drivers:
            if found := [event for event in driver.events if event["event"] == name]:
                raise Mismatch(f"there should be no event {name}: {found}")

    def _events(self, name: str, step: dict[str, Any]) -> None:
        """Compare the list of all events so far."""
        driver = self.world.driver(step.get("process", "1"))
        expect(step["expect"], [event for event in driver.events if event["event"] == name], f"the events {name}")

    def _process(self, what: str, step: dict[str, Any]) -> None:
        """Run a step on the process. `kill` runs no handler; the next command finds a new process."""
        number = step.get("number", "1")
        self.world.kill(number)
        self._clients = {known for known in self._clients if known[0] != number}

    # -- the far end --

    def _rules(self, rules: list[dict[str, Any]], step: dict[str, Any]) -> None:
        end = self.end(step.get("end", "main"))
        end.rules = [Rule.of(rule) for rule in rules] + ([] if step.get("instead") else end.rules)

    def _publish(self, files: dict[str, str], step: dict[str, Any]) -> None:
        """Publish a release of these files (path to text) in `channel`; `also` are entries without a file."""
        channel, also, about = step.get("channel", "stable"), step.get("also", {}), step.get("manifest", {})
        if self._real:
            self._keep(step, self.service.publish(files, channel))
        else:
            self._keep(step, self.end("main").releases.publish(channel, files, also, about))

    def _hang_up(self, what: bool, step: dict[str, Any]) -> None:
        """Close the socket, so that the port refuses connections."""
        self.end(step.get("end", "main")).close()

    def _release(self, name: str, step: dict[str, Any]) -> None:
        self.end(step.get("end", "main")).release(name)

    def _await(self, line: str, step: dict[str, Any]) -> None:
        if not self.end(step.get("end", "main")).await_requests(line, step.get("count", 1)):
            raise Mismatch(f"no {line} arrived")

    def _given_up(self, line: str, step: dict[str, Any]) -> None:
        if not self.end(step.get("end", "main")).await_given_up(line, step.get("count", 1), step["within"]):
            raise Mismatch(f"the client still waits for {line} after {step['within']:g} s")

    def _forget_requests(self, what: bool, step: dict[str, Any]) -> None:
        for end in self.ends.values():
            end.seen.clear()

    def _requests(self, line: str, step: dict[str, Any]) -> None:
        """`count` of them; `each`, `first` and `last` are like this; the members in `same` are alike in all.

        `when` leaves out those that are not like it, as in a rule.
        """
        found = self.end(step.get("end", "main")).requests(line)
        found = [request for request in found if matches(step.get("when", {}), request.shown())]
        lines = [request.line for request in self.end(step.get("end", "main")).seen]
        if "count" in step:
            expect(step["count"], len(found), f"the number of {line} among {lines}")
        shown = [request.shown() for request in found]
        picked = [("each", shown), ("first", shown[:1]), ("last", shown[-1:])]
        for name, chosen in picked:
            if name in step and not chosen:
                raise Mismatch(f"no {line} arrived, but {lines}")
            for request in chosen if name in step else ():
                expect(step[name], request, f"{name} {line}")
        for name in step.get("same", ()):
            values = [request["headers"].get(name) if name != "text" else request["text"] for request in shown]
            if len(set(values)) > 1:
                raise Mismatch(f"{name} differs between requests: {values}")
        self._keep(step, shown)

    def _same(self, values: list[Any], step: dict[str, Any]) -> None:
        if any(value != values[0] for value in values):
            raise Mismatch(f"these should be the same: {values}")

    def _sleep(self, seconds: float, step: dict[str, Any]) -> None:
        """Sleep, for scenarios about the client's own time."""
        time.sleep(seconds)

    # -- always --

    def close(self) -> None:
        """Close the clients, then their fake servers."""
        for connection in self.connections:
            connection.close()
        for process, client in sorted(self._clients):
            for end in self.ends.values():
                end.release(None)
            self.world.driver(process).call("close", client=client)
