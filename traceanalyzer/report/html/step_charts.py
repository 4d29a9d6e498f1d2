"""Charts of the step: its budget, its idle time, its ranks."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from traceanalyzer.report.format import figure, label, measured, number
from traceanalyzer.report.html.charts import Chart, Series, height_of, means, side_by_side, stacked  # fmt: skip
from traceanalyzer.report.html.charts import rows as rows_of
from traceanalyzer.report.html.pictures.plot import Axis, Box, Dot, Dots, Rects
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.breakdown import recorded_ms
from traceanalyzer.report.timeline.distributions import WORST, in_groups

MAX_BARS = 200
"""Steps drawn one by one; of more, each bar is the mean of a few that follow each other. Also of ranks."""
PARTS = ("compute", "exposed_communication", "exposed_copy", "idle")
CAUSES = ("launch", "sync", "input", "host", "communication", "profiler", "other")


def step_budget(report: Report) -> Chart | None:
    """The budget of each step, stacked; only the steps' times where there was no device work."""
    rows = report.tables.get("steps", [])
    if not rows:
        return None
    block = -(-len(rows) // MAX_BARS)
    known = rows[0].compute_ms is not None
    names = [f"{part}_ms" for part in PARTS] if known else ["duration_ms"]
    series = [
        Series(label(name), colour(name.removesuffix("_ms")), means([getattr(r, name) for r in rows], block))
        for name in names
        if any(getattr(r, name) for r in rows)
    ]
    places = [f"step {rows[i].step}" for i in range(0, len(rows), block)]
    plot = stacked(places, series, "step", "ms")
    warm = sum(row.warmup for row in rows)
    if warm:
        top = max(box.y1 for mark in plot.marks if isinstance(mark, Rects) for box in mark.boxes)
        shade = Rects("", "shade", [Box(-0.5, (warm - 1) // block + 0.5, 0.0, top)])
        plot = replace(plot, marks=[shade, *plot.marks])
    plot = replace(plot, x=Axis("step", names=[place.removeprefix("step ") for place in places]))
    caption = "Wall-clock time of each recorded step" + (" by what the device did." if known else ".")
    if block > 1:
        caption += f" Each bar is the mean of {block} steps."
    if warm:
        caption += " The shaded steps are warm-up and left out of every mean."
    return Chart("steps", "Step by step", caption, plot)


def colour(name: str) -> str:
    """The CSS variable's name of a part or cause."""
    return name.replace("_", "-").replace(" ", "-")


def idle_causes(report: Report) -> Chart | None:
    """Idle time of the mean step by cause."""
    idle = report.metrics.idle_ms
    if idle is None:
        return None
    parts = [(cause, getattr(idle, cause)) for cause in CAUSES]
    parts = sorted(((cause, value) for cause, value in parts if value), key=lambda pair: -pair[1])
    if not parts:
        return None
    names, values = [cause for cause, _ in parts], [value for _, value in parts]
    ends = [f"{value / (recorded_ms(report) or value):.1%}" for value in values]
    hints = [f"{n}: {figure(v, 'ms')}, {end} of the step" for n, v, end in zip(names, values, ends, strict=True)]
    colours = [f"idle-{cause}" for cause in names]
    plot = rows_of(names, [Series("", "idle", values, hints)], "ms a step", ends, colours)
    caption = "What the GPU was waiting for while it had no work, in a mean steady step."
    return Chart("idle", "Idle time by cause", caption, plot, height_of(len(parts)))


def gap_lengths(report: Report) -> Chart | None:
    """Idle time in gaps by their length."""
    rows = report.tables.get("gap_histogram", [])
    if not rows:
        return None
    series = [
        Series(name, f"idle-{part}", [getattr(r, f"{part}_ms") for r in rows])
        for part, name in (("launch", "launch"), ("sync", "sync"), ("other", "any other cause"))
    ]
    ends = [f"{number(row.gaps)} gaps" for row in rows]
    plot = rows_of([row.length for row in rows], series, "ms a step", ends)
    caption = (
        "Idle time of a mean steady step by the length of its gaps; after each bar the number of gaps. Many short gaps "
        "are latency between kernels, few long ones mean that the GPU ran dry."
    )
    return Chart("gaps", "Gaps by length", caption, plot, height_of(len(rows)))


def ranks(report: Report) -> Chart | None:
    """Ranks side by side."""
    every = report.tables.get("ranks", [])
    if not every:
        return None
    several = list(in_groups(every[WORST:], MAX_BARS - WORST))
    rows = [*every[:WORST], *(_mean(some) for some in several)]
    names = [f"rank {row.rank}" + (" ⚠" if row.straggler else "") for row in rows[:WORST]]
    names += [f"rank {some[0].rank}" + (f" and {len(some) - 1} more" if len(some) > 1 else "") for some in several]
    matched = any(row.transfer_ms is not None for row in rows)
    parts = [("compute_ms", "compute", "compute")]
    parts += (
        [("waiting_ms", "waiting for other ranks", "idle-communication"), ("transfer_ms", "transfer", "communication")]
        if matched
        else [("communication_ms", "communication", "communication")]
    )
    parts.append(("idle_ms", "idle", "idle"))
    series = [Series(shown, chosen, [getattr(r, name) for r in rows]) for name, shown, chosen in parts]
    plot = side_by_side(names, series, "ms a step")
    timed = [(i, row.step_mean_ms) for i, row in enumerate(rows) if measured(row.step_mean_ms)]
    dots = [Dot(i, value, 4.0, f"{names[i]}: mean step {figure(value, 'ms')}") for i, value in timed]
    caption = (
        "A mean steady step of each rank on its busiest device; what overlaps is counted in each bar it is part of."
    )
    if any(row.straggler for row in rows):
        caption += " ⚠ marks the rank that holds up the others."
    if len(every) > len(rows):
        caption += f" First the {WORST} that hold up the run most; the others are put together, as their means."
    return Chart(
        "ranks", "Ranks side by side", caption, replace(plot, marks=[*plot.marks, Dots("mean step", "text", dots)])
    )


def _mean(some: Sequence[Any]) -> Any:
    """The mean of several ranks' rows."""
    times = {f.name: [getattr(row, f.name) for row in some] for f in fields(some[0]) if f.name.endswith("_ms")}
    known = {name: [value for value in values if value is not None] for name, values in times.items()}
    return replace(some[0], **{name: sum(v) / len(v) if v else None for name, v in known.items()})
