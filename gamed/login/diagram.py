"""The handoff's table as a page of documentation: `python -m gamed.login.diagram > docs/login-states.md`."""

from gamed.login.transaction import (
    DELIVERED_MS,
    EXCHANGE_GRACE_MS,
    EXCHANGE_MS,
    FINAL,
    MEANING,
    NEXT,
    OUTCOME,
    LoginEvent,
    LoginStage,
)

TOLD = {
    LoginStage.PENDING: "`202` `waiting_for_browser`",
    LoginStage.AUTHORIZING: "`202` `at_provider`",
    LoginStage.EXCHANGING: "`202` `exchanging`",
    LoginStage.READY: "`202` `proof_required`",
    LoginStage.DELIVERED: "`200` `complete`, the same every time",
    LoginStage.COLLECTED: "`410` `login_collected`",
}
"""What a collect without proof is told; every other stage is `200` `failed`."""


def page() -> str:
    """Markdown with a Mermaid diagram."""
    return "\n".join([*_head(), *_drawing(), *_events(), *_stages()]) + "\n"


def _head() -> list[str]:
    return [
        "# The login handoff: stages and events",
        "",
        "Generated from the table in `gamed/login/transaction.py` by `python -m gamed.login.diagram`.",
        "Every arrow is one compare-and-set in one transaction of `auth.db`; whoever loses a race reads again",
        "and answers from the new stage. A pair of stage and event that has no arrow changes nothing.",
        "",
    ]


def _drawing() -> list[str]:
    arrows = [f"    {before.value} --> {after.value}: {event.value}" for (before, event), after in NEXT.items()]
    ends = [f"    {stage.value} --> [*]" for stage in LoginStage if stage in FINAL]
    return ["```mermaid", "stateDiagram-v2", f"    [*] --> {LoginStage.PENDING.value}", *arrows, *ends, "```", ""]


def _events() -> list[str]:
    rows = [f"| `{event.value}` | {MEANING[event]} | {_outcome(event)} |" for event in LoginEvent]
    return ["| Event | Happens when | Leaves the outcome |", "|---|---|---|", *rows, ""]


def _outcome(event: LoginEvent) -> str:
    if event is LoginEvent.REFUSED:
        return "the reason"
    return f"`{OUTCOME[event].value}`" if event in OUTCOME else ""


def _stages() -> list[str]:
    rows = [f"| `{stage.value}` | {_ends(stage)} | {TOLD.get(stage, '`200` `failed`')} |" for stage in LoginStage]
    return ["| Stage | Ends by the clock | A collect without proof is told |", "|---|---|---|", *rows]


def _ends(stage: LoginStage) -> str:
    match stage:
        case LoginStage.EXCHANGING:
            begun, late = EXCHANGE_MS // 1000, EXCHANGE_GRACE_MS // 1000
            return f"{begun} s after it began; {late} s after `device_transaction_ttl` at the latest"
        case LoginStage.READY:
            late = EXCHANGE_GRACE_MS // 1000
            return f"at `device_transaction_ttl`; {late} s later if its exchange ended after that"
        case LoginStage.DELIVERED:
            return f"{DELIVERED_MS // 60_000} minutes after the first collect"
        case _ if stage in FINAL:
            return "final: secrets erased at once, forgotten after an hour"
        case _:
            return "at `device_transaction_ttl`"


if __name__ == "__main__":
    print(page(), end="")
