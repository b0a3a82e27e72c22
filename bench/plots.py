"""Results are drawn with matplotlib (`pip install -e '.[bench]'`) as small pictures on white."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.rounds import Outcome

STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "lines.markersize": 4,
    "errorbar.capsize": 3,
    "legend.frameon": False,
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#777777")
"""Colours that colour-blind people can distinguish (Okabe, Ito)."""
COST = "processor time per request, us"
Figures = Mapping[str, Sequence[float]]
"""The lower quartile, the median and the upper quartile of each figure."""


@contextmanager
def picture(file: Path, width: float, height: float, columns: int = 1) -> Iterator[Sequence[Any]]:
    """Yield the axes to draw on, side by side, and save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from cycler import cycler
    from matplotlib import pyplot

    file.parent.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        figure, axes = pyplot.subplots(1, columns, figsize=(width, height), squeeze=False)
        yield axes[0]
        figure.tight_layout()
        figure.savefig(file, dpi=110)
        pyplot.close(figure)


def draw(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Draw a picture for each path with every round of every contender."""
    for outcome in outcomes:
        name = " ".join(filter(None, (outcome.row.name, outcome.row.note)))
        with picture(folder / f"{outcome.row.name}.png", 8, 0.9 + 0.35 * len(outcome.sides), 2) as (rates, costs):
            _dots(rates, outcome, "per_second", "requests per second")
            _dots(costs, outcome, "cpu_us", COST)
            rates.set_title(name, loc="left", weight="bold")


def _dots(axes: Any, outcome: Outcome, figure: str, unit: str) -> None:
    """Draw a line for each contender, with a dot for each round and a mark at the median."""
    names = list(outcome.sides)
    for line, name in enumerate(names):
        values = sorted(getattr(each, figure) for each in outcome.sides[name])
        axes.plot(values, [line] * len(values), "o", alpha=0.5, color=COLOURS[min(line, 1)])
        axes.plot(values[len(values) // 2], line, "|", markersize=14, color=COLOURS[min(line, 1)])
    axes.set_yticks(range(len(names)), ["gamed" if name == outcome.row.name else name for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    axes.grid(axis="x")


def draw_growth(points: Sequence[tuple[str, str, int, Figures]], folder: Path) -> None:
    """Draw points, each with the growing size, the path, the size's value and the figures."""
    titles = {"connections": "connections that ask at once", "saves": "saves in the store"}
    for over, title in titles.items():
        if lines := _lines(points, over):
            with picture(folder / f"growth-{over}.png", 5.2, 3.2) as (axes,):
                for path, (sizes, found) in lines.items():
                    _line(axes, path, range(len(sizes)), [each["cpu_us"] for each in found])
                axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
                _named(axes, title, COST)
    for path, (sizes, found) in _lines(points, "waiters").items():
        with picture(folder / f"growth-{path}.png", 8, 3, 2) as (memory, times):
            _line(memory, "the wait", sizes, [each["kib_each"] for each in found])
            _line(memory, "its connection", sizes, [each["kib_connection"] for each in found])
            _line(times, "all are answered", sizes, [[ms / 1000 for ms in each["all_ms"]] for each in found])
            for axes, unit in ((memory, "memory for each, KiB"), (times, "until all are answered, s")):
                axes.xaxis.set_major_formatter("{x:,.0f}")
                _named(axes, "games that wait", unit, legend=axes is memory)


def _lines(points: Sequence[tuple[str, str, int, Figures]], over: str) -> Mapping[str, tuple[list[int], list[Figures]]]:
    """Return the sizes and figures of each path."""
    found: dict[str, tuple[list[int], list[Figures]]] = {}
    for grows, path, at, figures in points:
        if grows == over:
            sizes, values = found.setdefault(path, ([], []))
            sizes.append(at)
            values.append(figures)
    return found


def _line(axes: Any, name: str, places: Sequence[int], found: Sequence[Sequence[float]]) -> None:
    """Draw medians, with bars from the lower to the upper quartile."""
    middles = [middle for _, middle, _ in found]
    bars = [[middle - low for low, middle, _ in found], [high - middle for _, middle, high in found]]
    axes.errorbar(places, middles, bars, fmt="o-", label=name)


def _named(axes: Any, across: str, up: str, *, legend: bool = True) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    if legend:
        axes.legend()


def draw_parts(parts: Mapping[str, float], title: str, unit: str, file: Path) -> None:
    """Draw horizontal bars, the first on top, each with its figure."""
    with picture(file, 5.2, 0.7 + 0.28 * len(parts)) as (axes,):
        bars = axes.barh(range(len(parts)), list(parts.values()), height=0.65)
        axes.bar_label(bars, fmt="%.0f", padding=3)
        axes.set_yticks(range(len(parts)), list(parts))
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, loc="left")
        axes.set_xlabel(unit)
        axes.margins(x=0.1)
