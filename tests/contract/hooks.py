"""These hooks and checks extend schemathesis; GAMED_LIVE is the JSON of a `Prepared`."""

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
    "erase_saves": "anew",
}
"""The player whose token an operation uses if it ends a session; all other operations use `token`."""
EXAMPLES = {"q0Z8b1Yd3kX5mN7pR9tV2w": "link", "grc_" + "A" * 49: "refresh"}
"""Examples of the document, which stand for credentials of the live service."""
devices = cycle(LIVE["devices"])
waits = cycle([True] + [False] * 30)
"""Only few requests may wait for changes; waiting has tests of its own."""


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Forbid members of answers that the document does not name, although clients must accept them."""
    raw_schema.update(closed())


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    operation = case.operation.definition.raw["operationId"]
    sent = case.headers.get("Authorization")
    if sent == f"Bearer {LIVE['device']}":
        case.headers["Authorization"] = f"Bearer {next(devices)}"
    elif sent == f"Bearer {LIVE['token']}":
        who = SPENT.get(operation, "token")
        case.headers["Authorization"] = f"Bearer {LIVE[who]}"
    if sent is None and "If-Match" in case.headers:
        # A schema cannot say "not both"; syntax is checked before the token (docs/protocol.md: Saves), and schemathesis
        # wants 401.
        case.headers.pop("If-None-Match", None)
    for values in (case.path_parameters, case.body):
        if isinstance(values, dict) and operation != "log_out":  # which would spend it
            known = {name: LIVE[EXAMPLES[value]] for name, value in values.items() if _is_example(value)}
            values.update(known)
    if isinstance(case.body, dict) and isinstance(case.body.get("wait"), int) and not next(waits):
        case.body["wait"] = min(case.body["wait"], 0)
    if "Prefer" in case.headers and not next(waits):
        del case.headers["Prefer"]


def _is_example(value: object) -> bool:
    return isinstance(value, str) and value in EXAMPLES


@schemathesis.check
def follows_conventions(context: Any, response: Any, case: Any) -> None:
    """Check the conventions (docs/protocol.md: Conventions) in every answer."""
    headers = {name.lower(): ", ".join(lines) for name, lines in response.headers.items()}
    wrong = complaints(case.method.upper(), case.path, Answer(response.status_code, headers, response.content))
    assert not wrong, "\n".join(wrong)
