"""Results are printed as a table, and written as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from msgspec.structs import asdict

from bench.rounds import Outcome, Ratio

TITLE = (
    "| Path | Rate | CPU | p99 | Against | Ratio | Spread | By CPU | Wanted | | Foreign load |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)
BINDING = 0.10
"""A target counts where its ratio's spread is below this."""


def target_status(ratio: Ratio, wanted: float | None) -> str:
    """Return `met` or `missed`, `noisy` if the spread is too large, or an empty text without a target."""
    if wanted is None:
        return ""
    if len(ratio.rounds) < 3 or ratio.spread >= BINDING:
        return "noisy"
    return "met" if ratio.median >= wanted else "missed"


def contender_status(outcome: Outcome, other: str) -> tuple[str, str]:
    """Return the targets against a contender and their status, in words."""
    row = outcome.row
    by_rate, by_cpu = row.wanted.get(other), row.wanted_by_cpu.get(other)
    goals = [] if by_rate is None else [f">= {by_rate:g}"]
    found = [] if by_rate is None else [target_status(outcome.ratio(other), by_rate)]
    if by_cpu is not None:
        goals.append(f">= {by_cpu:g} by CPU")
        found.append(f"{target_status(outcome.cost(other), by_cpu)} by CPU")
    return ", ".join(goals), ", ".join(found)


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, one for each row and contender."""
    for outcome in outcomes:
        own = [median(getattr(each, name) for each in outcome.own) for name in ("per_second", "cpu_us", "p99_ms")]
        foreign = median(each.foreign for rounds in outcome.sides.values() for each in rounds)
        start = f"| {outcome.row.name} | {own[0]:,.0f}/s | {own[1]:.0f} us | {own[2]:.1f} ms"
        for other in outcome.row.others:
            ratio, (goal, status) = outcome.ratio(other), contender_status(outcome, other)
            shown = f"{ratio.median:.2f} | {ratio.spread:.0%} | {outcome.cost(other).median:.2f}"
            yield f"{start} | {other} | {shown} | {goal} | {status} | {foreign:.2f} |"


def as_json(outcomes: Sequence[Outcome]) -> list[Mapping[str, object]]:
    return [
        {
            "path": outcome.row.name,
            "note": outcome.row.note,
            "sides": {name: [asdict(each) for each in rounds] for name, rounds in outcome.sides.items()},
            "ratios": {
                other: {
                    "median": outcome.ratio(other).median,
                    "spread": outcome.ratio(other).spread,
                    "by_cpu": outcome.cost(other).median,
                    "wanted": outcome.row.wanted.get(other),
                    "wanted_by_cpu": outcome.row.wanted_by_cpu.get(other),
                    "target_status": contender_status(outcome, other)[1],
                }
                for other in outcome.row.others
            },
        }
        for outcome in outcomes
    ]
