"""`gamed doctor --public --write`: saves of a player made for this, who is erased afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from secrets import token_bytes
from sqlite3 import Connection

from gamed.cli.departure_commands import at_once, departures_of
from gamed.cli.doctor_local import Step
from gamed.cli.host import Store
from gamed.cli.player_commands import sign_in
from gamed.cli.reaching import TIMEOUT_SECONDS, ask
from gamed.clock import now_ms
from gamed.crypto import Keys
from gamed.doctor import saving
from gamed.doctor.answers import Answer, Reached
from gamed.doctor.findings import Finding, skipped
from gamed.players.names import new_player_id
from gamed.saves.limits import SaveLimits
from gamed.storage.auth import players
from gamed.storage.auth.players import Player
from gamed.structs import Part

SIZE = 2 * 1024 * 1024
SLOT = "/game/saves/doctor"
FIRST, LAST = 1000, 1999
NEVER = '"9-0000000000000000"'
"""A tag that the save never had."""
NOTE = "made by gamed doctor, to be erased"


@contextmanager
def trial_player(store: Store) -> Iterator[str]:
    """The access token of a new player, who is erased with every save however this ends."""
    player_id = new_player_id(token_bytes)

    def unit(connection: Connection, keys: Keys) -> str:
        now = now_ms()
        players.create_player(connection, player_id, now)
        players.set_note(connection, keys.sealer, player_id, NOTE)
        player = Player(player_id, "active", owner=False, created_ms=now, last_sign_in_ms=None)
        store.tell(connection, "doctor", player_id)
        return str(sign_in(connection, keys, player, store.config)["access_token"])

    token = store.run(unit)
    try:
        yield token
    finally:
        at_once(departures_of(store).erase(player_id))


class Trial(Part, frozen=True):
    """Requests of that player."""

    _base: str
    _token: str
    _limits: SaveLimits

    def steps(self) -> list[Step]:
        return [self._saves, self._wait]

    def _saves(self) -> list[Finding]:
        body = token_bytes(min(SIZE, self._limits.save_bytes))
        written = self._ask("PUT", SLOT, {"If-None-Match": "*"}, body)
        finding = saving.judge_write(written, len(body))
        tag = str(written.json().get("etag", "")) if isinstance(written, Answer) else ""
        if not tag:
            return [finding, skipped("ETag, conditions, ranges", "there is no save to try them with")]
        get = partial(self._ask, "GET", SLOT)
        part = body[FIRST : LAST + 1]
        return [
            finding,
            saving.judge_read(get({"Accept-Encoding": "gzip, br"}), body, tag),
            saving.judge_unchanged(get({"If-None-Match": tag})),
            saving.judge_range(get({"Range": f"bytes={FIRST}-{LAST}"}), part),
            saving.judge_conflict(self._ask("PUT", SLOT, {"If-Match": NEVER}, b"another device's save")),
        ]

    def _wait(self) -> list[Finding]:
        seconds = min(saving.WAIT_SECONDS, self._limits.wait_seconds)
        listed = self._ask("GET", "/game/saves", {})
        cursor = listed.json().get("cursor") if isinstance(listed, Answer) else None
        if not isinstance(cursor, str) or not seconds:
            return [skipped("wait", "there is nothing to wait for")]
        wanted = {"Prefer": f"wait={seconds}"}
        answer = self._ask("GET", f"/game/saves?since={cursor}", wanted, timeout=seconds + TIMEOUT_SECONDS)
        return [saving.judge_wait(answer, seconds)]

    def _ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Reached:
        fields = {"Authorization": f"Bearer {self._token}", **headers}
        return ask(self._base + target, method, fields, body, timeout)
