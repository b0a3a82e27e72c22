"""`python -m gamed.login.diagram > docs/internals/login-states.md` writes the transition table as a page."""

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

RESPONSES = {
    LoginStage.PENDING: "`202` `waiting_for_browser`",
    LoginStage.AUTHORIZING: "`202` `at_provider`",
    LoginStage.EXCHANGING: "`202` `exchanging`",
    LoginStage.READY: "`202` `proof_required`",
    LoginStage.DELIVERED: "`200` `complete`, the same every time",
    LoginStage.COLLECTED: "`410` `login_collected`",
}
"""The response to a collect without proof; every other stage is `200` `failed`."""


def page() -> str:
    """Return the page as Markdown with a Mermaid diagram."""
    arrows = [f"    {before.value} --> {after.value}: {event.value}" for (before, event), after in NEXT.items()]
    ends = [f"    {stage.value} --> [*]" for stage in LoginStage if stage in FINAL]
    events = [f"| `{event.value}` | {MEANING[event]} | {_outcome(event)} |" for event in LoginEvent]
    stages = [
        f"| `{stage.value}` | {_timeout(stage)} | {RESPONSES.get(stage, '`200` `failed`')} |" for stage in LoginStage
    ]
    lines = [
        "# The stages and events of a login",
        "",
        "`python -m gamed.login.diagram` writes this page from the table in `gamed/login/transaction.py`. Each arrow",
        "is one compare-and-set in one transaction of `auth.db`. A request that loses a race reads the login again and",
        "answers from its new stage. A pair of stage and event without an arrow changes nothing. A final stage erases",
        "the secrets at once, but not the sealed place of a sign-in to the account that failed. The row is deleted",
        "after an hour.",
        "",
        "A login with the intent `account` has no game. From its start it belongs to a browser that signs in on the",
        "player's own page: no link opens it, no device secret collects it. A password makes it `ready` at once. The",
        "end is `collect` and `acknowledge` in one transaction, which begins the browser's session.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {LoginStage.PENDING.value}",
        *arrows,
        *ends,
        "```",
        "",
        "| Event | Happens when | Leaves the outcome |",
        "|---|---|---|",
        *events,
        "",
        "| Stage | Times out | Response to a collect without proof |",
        "|---|---|---|",
        *stages,
    ]
    return "\n".join(lines) + "\n"


def _outcome(event: LoginEvent) -> str:
    if event is LoginEvent.REFUSED:
        return "the reason"
    return f"`{OUTCOME[event].value}`" if event in OUTCOME else ""


def _timeout(stage: LoginStage) -> str:
    match stage:
        case LoginStage.EXCHANGING:
            seconds, grace = EXCHANGE_MS // 1000, EXCHANGE_GRACE_MS // 1000
            return f"{seconds} s after it began; {grace} s after `device_transaction_ttl` at the latest"
        case LoginStage.READY:
            grace = EXCHANGE_GRACE_MS // 1000
            return f"at `device_transaction_ttl`; {grace} s later if its exchange ended after that"
        case LoginStage.DELIVERED:
            return f"{DELIVERED_MS // 60_000} minutes after the first collect"
        case _ if stage in FINAL:
            return "final"
        case _:
            return "at `device_transaction_ttl`"


if __name__ == "__main__":
    print(page(), end="")
