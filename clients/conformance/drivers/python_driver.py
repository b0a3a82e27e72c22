#!/usr/bin/env python3
"""The suite's driver of the Python reference client (clients/conformance/README.md: The driver)."""

from __future__ import annotations

import base64
import copy
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import gamed_client as gc
from gamed_client import assets as ga
from gamed_client import sync as gs

FEATURES = ["saves", "sync", "assets", "loopback", "parallel", "shared_store", "clock", "timeout", "names"]
FEATURES += ["ensure", "providers", "qr", "account", "commit", "return_uri", "loop", "pages", "locale", "delete_newer"]
FEATURES += ["tickets", "other_players", "confirm", "cancel", "stop_at_once"]
OUT = threading.Lock()


def say(line: Mapping[str, Any]) -> None:
    with OUT:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


@dataclass(frozen=True)
class TimedWire(gc.Wire):
    """The client's own, with shorter timeouts."""

    seconds: float = gc.TIMEOUT_SECONDS

    def _once(self, *arguments: Any, timeout: float, **how: Any) -> gc.Answer:
        return super()._once(*arguments, timeout=min(timeout, self.seconds), **how)


class Player(gc.Person):
    """A person whose questions go to the suite."""

    def __init__(self, client: str) -> None:
        self._client = client
        self.codes: queue.Queue[str | None] = queue.Queue()
        self.show_code: Callable[[], None] | None = None
        self.shown: gc.GamedError | None = None

    def choose_provider(self, providers: Sequence[gc.LoginProvider]) -> str:
        names, labels = [each.name for each in providers], [each.label for each in providers]
        say({"event": "choose_provider", "client": self._client, "providers": names, "labels": labels})
        return providers[-1].name

    def browser_opened(self, url: str, opened: bool, qr_url: str | None) -> None:
        say({"event": "open", "client": self._client, "url": url, "qr_url": qr_url})

    def finish_code(self, show_code: Callable[[], None] | None, attempts_left: int | None) -> str | None:
        self.show_code = show_code
        asked = {"show_code": show_code is not None, "attempts_left": attempts_left}
        say({"event": "finish_code", "client": self._client, **asked})
        return self.codes.get()

    def problem(self, error: gc.GamedError) -> None:
        self.shown = error


class Seat:
    """One open client with its objects."""

    def __init__(self, name: str, how: Mapping[str, Any]) -> None:
        self.name = name
        self.shift = how.get("clock_shift") or 0
        self._factor = 1 if how.get("pauses") is None else how["pauses"]
        ga.pause_after = lambda error, attempt: gc.pause_after(error, attempt) * self._factor
        if how.get("return_seconds") is not None:
            gc.RETURN_SECONDS = how["return_seconds"]
        self.client = gc.GamedClient(
            how["server"],
            app=how.get("app") or "gamed",
            folder=Path(how["folder"]),
            device_name=how.get("device_name"),
            locale=how.get("locale"),
            sleep=self._pause,
            now=lambda: time.time() + self.shift,
        )
        wire = self.client._wire
        known = {field.name: getattr(wire, field.name) for field in fields(wire)}
        self.client._wire = TimedWire(**known, seconds=how.get("timeout_seconds") or gc.TIMEOUT_SECONDS)
        self.player = Player(name)
        self.over = gc.Cancellation()
        """Ends the call."""
        self.cancellations: dict[str, gc.Cancellation] = {}
        self.sync: gs.Sync | None = None
        self.stop = threading.Event()
        """Ends `sync_run`."""
        self.shown: dict[str, gs.SyncConflict] = {}

    def new_player(self) -> Player:
        """Return the player of one sign-in."""
        self.player = Player(self.name)
        return self.player

    def changed(self, status: gs.Status) -> None:
        say({"event": "sync_changed", "client": self.name, "slot": status.slot, "state": status.state})

    def cancellation(self, name: str) -> gc.Cancellation:
        return self.cancellations.setdefault(name, gc.Cancellation())

    def called(self, name: str) -> Seat:
        """Return the seat for a call that the cancellation of this name ends."""
        bound = copy.copy(self)
        bound.over = self.cancellation(name)
        bound.client = self.client.cancellable(bound.over)
        bound.client._wire = replace(bound.client._wire, sleep=bound._pause)
        return bound

    def _pause(self, seconds: float) -> None:
        say({"event": "pause", "client": self.name, "seconds": seconds})
        self.over.wait(seconds * self._factor)


SEATS: dict[str, Seat] = {}


def body(how: Mapping[str, Any]) -> bytes:
    return base64.b64decode(how["data"])


def side(of: gc.Save | gs.Side | None) -> dict[str, Any] | None:
    if of is None:
        return None
    shown: dict[str, Any] = {"data": base64.b64encode(of.data).decode(), "content_type": of.content_type}
    shown["meta"] = of.meta
    return {**shown, "etag": of.etag} if isinstance(of, gc.Save) else shown


def save_info(info: gc.SaveInfo | None) -> dict[str, Any] | None:
    return asdict(info) if info else None


def entry(change: gc.SaveInfo | gc.Deletion) -> dict[str, Any]:
    return asdict(change) | ({"deleted": True} if isinstance(change, gc.Deletion) else {})


def status(of: gs.Status) -> dict[str, Any]:
    shown = {"slot": of.slot, "state": of.state, "size": of.size, "meta": of.meta, "copies": list(of.copies)}
    return {**shown, "problem": of.problem.code if of.problem else None}


def labels(how: Mapping[str, Any]) -> dict[str, Any]:
    return {name: how[name] for name in ("content_type", "meta") if how.get(name) is not None}


def where(how: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the browser's return. The suite is the browser."""
    loopback = how.get("loopback", True) is not False
    return {"open_browser": lambda url: True, "loopback": loopback, "return_uri": how.get("return_uri")}


def slot_write(how: Mapping[str, Any]) -> gc.SlotWrite:
    return gc.SlotWrite(how["slot"], None if how.get("delete") else body(how), how.get("base"), **labels(how))


class Commands:
    """One method for each command, with its name; `seat` is the client's."""

    def clock(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.shift = how["shift"]
        return {}

    def cancel(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.cancellation(how["cancellation"]).cancel()
        return {}

    def policy(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        mode, providers = seat.client.policy()
        return {"mode": mode, "providers": providers}

    def providers(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"providers": [{"name": name, "label": label} for name, label in seat.client.providers()]}

    def sign_in(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.sign_in(seat.new_player(), provider=how.get("provider"), **where(how))
        return self.signed_in(seat, how)

    def ensure_signed_in(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        player = seat.new_player()
        signed_in = seat.client.ensure_signed_in(player, provider=how.get("provider"), **where(how))
        return {"signed_in": signed_in, "problem": player.shown and error_of(player.shown)}

    def returned(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.returned(how["url"])
        return {}

    def finish_code(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.player.codes.put(how.get("code"))
        return {}

    def show_code(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        if seat.player.show_code:
            seat.player.show_code()
        return {}

    def cancel_sign_in(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.cancel_sign_in()
        return {}

    def signed_in(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        held = seat.client.credential
        if held is None:
            return {"signed_in": False}
        return {"signed_in": True, "player_id": held.player_id, "session_id": held.session_id}

    def sign_out(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"server_notified": seat.client.sign_out(how.get("scope") or "this")}

    def set_name(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"name": seat.client.set_name(how["name"])}

    def ticket(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"ticket": seat.client.ticket(how["audience"], how.get("nonce"))}

    def whoami(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return seat.client.whoami()

    # -- the account --

    def sessions(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"sessions": [asdict(session) for session in seat.client.list_sessions()]}

    def end_session(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.end_session(how["session_id"])
        return {}

    def identities(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"identities": [asdict(identity) for identity in seat.client.list_identities()]}

    def link(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"provider": seat.client.link(seat.new_player(), how["provider"], **where(how))}

    def unlink(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.unlink(how["provider"])
        return {}

    def delete_player(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.delete_player()
        return {}

    def erase_saves(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.erase_saves()
        return {}

    def export(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"size": seat.client.export(how["file"])}

    # -- saves --

    def commit(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"saves": [entry(change) for change in seat.client.commit([slot_write(each) for each in how["writes"]])]}

    def list_saves(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"saves": [save_info(info) for info in seat.client.list_saves()]}

    def changes(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        found = seat.client.changes(how.get("since"), wait=how.get("wait") or 0, limit=how.get("limit"))
        shown = {"cursor": found.cursor, "saves": [entry(change) for change in found.saves]}
        return {**shown, "whole": found.whole, "more": found.more}

    def get(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return side(seat.client.get(how["slot"], unless=how.get("unless")))

    def put(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return save_info(seat.client.put(how["slot"], body(how), base=how.get("base"), **labels(how)))

    def delete(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.delete(how["slot"], base=how["base"])
        return {}

    def versions(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"versions": [asdict(version) for version in seat.client.versions(how["slot"])]}

    def versions_page(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        page = seat.client.versions_page(how["slot"], before=how.get("before"), limit=how.get("limit"))
        return {"versions": [asdict(version) for version in page.versions], "more": page.more}

    def version(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return side(seat.client.version(how["slot"], how["number"]))

    def restore(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return save_info(seat.client.restore(how["slot"], how["number"], base=how.get("base")))

    def dismiss(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.client.dismiss(how["slot"], how["number"])
        return {}

    # -- downloads --

    def download(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        target = Path(how["target"])
        with ga.Assets(seat.client, target.with_name(target.name + ".releases")) as assets:
            manifest = assets.download(how["channel"])
            link = target.with_name(target.name + ".new")
            link.symlink_to(assets.folder / "releases" / manifest.release)
            link.replace(target)
        return {"release": manifest.release, "files": list(manifest.files)}

    # -- offline play --

    def sync_open(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.sync = gs.Sync(seat.client)
        return {}

    def sync_close(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        if seat.sync:
            seat.sync.close(how.get("within") or 0)
        seat.sync = None
        return {}

    def sync_start(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        synced(seat).start(seat.changed)
        return {}

    def sync_run(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.stop = threading.Event()
        synced(seat).run(seat.stop, seat.changed)
        return {}

    def sync_stop(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.stop.set()
        return {}

    def sync_ready(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"ready": synced(seat).ready(how["within"])}

    def sync_read(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return side(synced(seat).read(how["slot"]))

    def sync_peek(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return side(synced(seat).peek(how["slot"]))

    def sync_write(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        synced(seat).write(how["slot"], body(how), **labels(how))
        return {}

    def sync_delete(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        synced(seat).delete(how["slot"], including_newer=how.get("including_newer", False))
        return {}

    def sync_status(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return status(synced(seat).status(how["slot"]))

    def sync_slots(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"slots": [status(of) for of in synced(seat).slots()]}

    def sync_pump(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"news": [{"slot": of.slot, "state": of.state} for of in synced(seat).send()]}

    def sync_conflicts(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        found = synced(seat).conflicts
        seat.shown = {conflict.slot: conflict for conflict in found}
        sides = [(c, {"base": c.base_info, "current": c.current, "copy": c.copy}) for c in found]
        shown = [(c, {name: save_info(info) for name, info in infos.items()}) for c, infos in sides]
        return {"conflicts": [{"slot": c.slot, "reason": c.reason, **infos} for c, infos in shown]}

    def sync_side(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        conflict = seat.shown[how["slot"]]
        return side({"mine": conflict.mine, "theirs": conflict.theirs, "base": conflict.base}[how["side"]]())

    def sync_keep_mine(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.shown[how["slot"]].keep_mine()
        return {}

    def sync_keep_theirs(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.shown[how["slot"]].keep_theirs()
        return {}

    def sync_merged(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        seat.shown[how["slot"]].merged(body(how), meta=how.get("meta"))
        return {}

    def sync_dropped(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return side(synced(seat).lost(how["slot"]))

    def sync_other_players(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"players": [asdict(player) for player in synced(seat).other_players()]}

    def sync_adopt(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        return {"slots": synced(seat).adopt(how["player_id"], how.get("slots"))}

    def sync_trouble(self, seat: Seat, how: Mapping[str, Any]) -> Any:
        problem = synced(seat).problem
        return {"code": problem.code if problem else None}


def synced(seat: Seat) -> gs.Sync:
    assert seat.sync, "sync_open first"
    return seat.sync


def error_of(error: gc.GamedError) -> dict[str, Any]:
    kind = type(error).__name__
    shown: dict[str, Any] = {"code": error.code, "kind": kind, "detail": error.detail, "status": error.status}
    if error.retry_after is not None:
        shown["retry_after"] = error.retry_after
    if isinstance(error, gc.InvalidProof):
        shown["attempts_left"] = error.attempts_left
    if isinstance(error, gc.Conflict):
        shown |= {name: save_info(getattr(error, name)) for name in ("base", "current", "yours")}
        shown["conflicts"] = [asdict(slot) for slot in error.slots]
    return shown


class Unsupported(Exception):
    """A command that is not in the README."""


def perform(command: Mapping[str, Any]) -> Any:
    name, do = command.get("client") or "", str(command.get("do"))
    if do == "open":
        SEATS[name] = Seat(name, command)
        return {"origin": str(SEATS[name].client.origin)}
    if do == "close":
        seat = SEATS.pop(name, None)
        if seat:
            COMMANDS.sync_close(seat, command)
            seat.player.codes.put(None)
        return {}
    method = getattr(COMMANDS, do, None)
    if method is None:
        raise Unsupported(do)
    seat = SEATS[name]
    called = do != "cancel" and command.get("cancellation")
    return method(seat.called(called) if called else seat, command)


def answer(command: Mapping[str, Any]) -> None:
    try:
        result = {"ok": perform(command)}
    except gc.GamedError as error:
        result = {"error": error_of(error)}
    except gc.Cancelled:
        shown = {"code": "cancelled", "kind": "Cancelled", "detail": "This was cancelled.", "status": 0}
        result = {"error": shown}
    except Unsupported as error:
        result = {"error": {"code": "unsupported", "kind": "Driver", "detail": repr(error)}}
    except Exception as error:
        result = {"error": {"code": "driver_failed", "kind": "Driver", "detail": repr(error)}}
    say({"id": command.get("id"), **result})


COMMANDS = Commands()


def main() -> None:
    say({"event": "hello", "language": "Python", "features": FEATURES})
    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
