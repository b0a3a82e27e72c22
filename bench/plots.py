"""A picture per path: every round of every contender. Needs matplotlib (`pip install -e '.[bench]'`)."""

from collections.abc import Sequence
from pathlib import Path

from bench.rounds import Outcome


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        figure, (rates, costs) = pyplot.subplots(1, 2, figsize=(8, 3.2))
        for name, rounds in outcome.sides.items():
            label = "gamed" if name == outcome.row.name else name
            rates.plot(range(1, len(rounds) + 1), [each.per_second for each in rounds], "o-", label=label)
            costs.plot(range(1, len(rounds) + 1), [each.cpu_us for each in rounds], "o-", label=label)
        for axes, title in ((rates, "requests per second"), (costs, "microseconds of CPU per request")):
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("round")
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=8)
        figure.suptitle(" ".join(filter(None, (outcome.row.name, outcome.row.note))))
        figure.tight_layout()
        figure.savefig(folder / f"{outcome.row.name}.png", dpi=110)
        pyplot.close(figure)
