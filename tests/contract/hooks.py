"""What schemathesis sends and judges besides its own: GAMED_LIVE is the JSON of a `Prepared`."""

import json
import os
from itertools import cycle
from typing import Any

import schemathesis

from tests.contract.conventions import Answer, complaints
from tests.contract.document import closed

LIVE = json.loads(os.environ["GAMED_LIVE"])
SPENT = {
    "list_sessions": "listing",
    "end_session": "listing",
    "log_out": "leaving",
    "erase_player": "erased",
    "erase_shelf": "anew",
}
"""Whose token is used where it ends something; that of all other operations stays good."""
devices = cycle(LIVE["devices"])
waits = cycle([True] + [False] * 30)
"""Few requests may wait for news: there is none, and waiting has tests of its own."""


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Answers may have no member that the document does not name, though clients must bear with some."""
    raw_schema.update(closed(raw_schema))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    sent = case.headers.get("Authorization")
    if sent == f"Bearer {LIVE['device']}":
        case.headers["Authorization"] = f"Bearer {next(devices)}"
    elif sent == f"Bearer {LIVE['token']}":
        who = SPENT.get(case.operation.definition.raw["operationId"], "token")
        case.headers["Authorization"] = f"Bearer {LIVE[who]}"
    if sent is None and "If-Match" in case.headers:
        # A schema cannot say "not both"; syntax is judged before the token (PROTOCOL 4), and schemathesis wants 401.
        case.headers.pop("If-None-Match", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("wait"), int) and not next(waits):
        case.body["wait"] = min(case.body["wait"], 0)
    if "Prefer" in case.headers and not next(waits):
        del case.headers["Prefer"]


@schemathesis.check
def follows_conventions(context: Any, response: Any, case: Any) -> None:
    """PROTOCOL 1, for every answer."""
    headers = {name.lower(): ", ".join(lines) for name, lines in response.headers.items()}
    wrong = complaints(case.method.upper(), case.path, Answer(response.status_code, headers, response.content))
    assert not wrong, "\n".join(wrong)
