"""Results are printed as a table, and written as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from bench.rounds import Outcome, Ratio

TITLE = (
    "| Path | Rate | CPU | p99 | Against | Ratio | Spread | By CPU | Wanted | |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
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


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, one for each row and contender."""
    for outcome in outcomes:
        own = [median(getattr(each, name) for each in outcome.own) for name in ("per_second", "cpu_us", "p99_ms")]
        start = f"| {outcome.row.name} | {own[0]:,.0f}/s | {own[1]:.0f} us | {own[2]:.1f} ms"
        for other in outcome.row.others:
            ratio, wanted = outcome.ratio(other), outcome.row.wanted.get(other)
            goal = "" if wanted is None else f">= {wanted:g}"
            shown = f"{ratio.median:.2f} | {ratio.spread:.0%} | {outcome.cost(other).median:.2f}"
            yield f"{start} | {other} | {shown} | {goal} | {target_status(ratio, wanted)} |"


def as_json(outcomes: Sequence[Outcome]) -> list[Mapping[str, object]]:
    return [
        {
            "path": outcome.row.name,
            "note": outcome.row.note,
            "sides": {
                name: [
                    {"per_second": each.per_second, "cpu_us": each.cpu_us, "p50_ms": each.p50_ms, "p99_ms": each.p99_ms}
                    for each in rounds
                ]
                for name, rounds in outcome.sides.items()
            },
            "ratios": {
                other: {
                    "median": outcome.ratio(other).median,
                    "spread": outcome.ratio(other).spread,
                    "by_cpu": outcome.cost(other).median,
                    "wanted": outcome.row.wanted.get(other),
                    "target_status": target_status(outcome.ratio(other), outcome.row.wanted.get(other)),
                }
                for other in outcome.row.others
            },
        }
        for outcome in outcomes
    ]
