"""Pictures of a job's page."""

import math
from collections.abc import Callable, Sequence

from traceanalyzer.fleet.job.model import Heat
from traceanalyzer.report.format import step_figure
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.trace import F64

ROW_PX = 6
FEWEST_PX = 160
FOLDED_PX = 24
LEAST_STRENGTH = 0.02
WORST_NAMED = 5
LABELS = 16
LABEL_PX = 14


def heat(heat: Heat, darkest_ms: float) -> Markup | None:
    """The ranks' excess by step. `darkest_ms` is darkest where nothing is longer."""
    if heat.excess_ms.max() <= 0:
        return None
    rects, most = _rects(
        heat.excess_ms, darkest_ms, lambda x, y: f"{heat.names[y]}, {heat.steps[x]}"
    )
    caption = (
        "How much longer each rank works before its collectives than the middle one of those alike, step by step; the "
        f"longest is {most}. Rows are in the order of stage, host and rank."
    )
    names = _sparse(heat.names, heat.excess_ms.max(axis=1).tolist())
    across = Axis("step", names=_thinned(heat.steps))
    plot = Plot([rects], across, Axis(names=names), down=True)
    height = max(FEWEST_PX, _row_px(heat.names) * len(heat.names) + 80)
    return chart_place(Chart("heat", "Excess by rank and step", caption, plot, height))


def _row_px(names: Sequence[str]) -> int:
    """The height of a row: those that are named have room for their names."""
    return max(ROW_PX, math.ceil(LABEL_PX / _named_every(names)))


def _named_every(names: Sequence[str]) -> int:
    return max(len(names) // LABELS, 1)


def stages(heat: Heat, darkest_ms: float) -> Markup | None:
    """The ranks' mean excess, folded by stage."""
    folded = heat.folded
    if folded is None or folded.max() <= 0:
        return None
    rects, _ = _rects(folded, darkest_ms, lambda x, y: f"stage {y}, place {x}")
    caption = (
        "The same as a mean over the steps: stages from top to bottom, the ranks of each "
        "from left to right."
    )
    names = [f"stage {i}" for i in range(len(folded))]
    across = Axis("place in the stage", range=(-0.5, folded.shape[1] - 0.5))
    plot = Plot([rects], across, Axis(names=names), down=True)
    return chart_place(
        Chart("stages", "Excess by stage", caption, plot, 80 + FOLDED_PX * len(names))
    )


def _rects(table: F64, darkest_ms: float, name: Callable[[int, int], str]) -> tuple[Rects, str]:
    most = float(table.max())
    darkest = max(most, darkest_ms)
    boxes = [
        Box(
            x - 0.5,
            x + 0.5,
            y - 0.5,
            y + 0.5,
            f"{name(x, y)}: {step_figure(value)}",
            strength=value / darkest,
        )
        for y, row in enumerate(table.tolist())
        for x, value in enumerate(row)
        if value >= LEAST_STRENGTH * most
    ]
    return Rects("excess", "high", boxes), step_figure(most)


def _sparse(names: Sequence[str], worst: Sequence[float]) -> list[str]:
    every = _named_every(names)
    first = sorted(range(len(names)), key=lambda i: -worst[i])[:WORST_NAMED]

    def is_free(i: int) -> bool:
        return all(abs(i - one) >= every // 2 for one in first)

    kept = {i for i in range(0, len(names), every) if is_free(i)} | set(first)
    return [name.partition(" (")[0] if i in kept else "" for i, name in enumerate(names)]


def _thinned(names: Sequence[str]) -> list[str]:
    every = _named_every(names)
    return [name if i % every == 0 else "" for i, name in enumerate(names)]
