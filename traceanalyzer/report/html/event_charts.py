"""Charts of single events: who launched the device's work, who keeps it idle, how long kernels are,
how full the queue is. Each is left out where it would say nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from traceanalyzer.base import NS_PER_MS
from traceanalyzer.report.format import figure, is_figure, number, step_figure
from traceanalyzer.report.html.charts import Chart, Series, axis_name, height_of, stacked
from traceanalyzer.report.html.charts import rows as rows_of
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.pictures.colours import light
from traceanalyzer.report.html.pictures.plot import Axis, Lines, Mark, Plot, PlotTexts, Rects
from traceanalyzer.report.html.pictures.plot import Box as Rectangle
from traceanalyzer.report.model import Report
from traceanalyzer.report.timeline.icicle import IcicleBox
from traceanalyzer.trace import F64

LEAST_KERNELS = 20  # fewer make no distribution
LEAST_STEPS = 20
PLACES = 10
MAX_LOGGED = 200
ROW_PX = 24
EDGES_PX = 60
MAX_BOXES = 300


def idle_places(report: Report) -> Chart | None:
    """Idle time by the call that waited, or the operator whose launch ended it."""
    places = report.tables.get("gap_places", [])
    rows = [row for row in places if is_figure(row.idle_ms)][:PLACES]
    if len(rows) < 2:
        return None
    names = []
    ends = []
    hints = []
    colours = []
    for row in rows:
        where = row.python or row.within
        names.append(
            f"{row.name} in {where}" if where not in (None, "", row.name) else str(row.name)
        )
        ends.append(step_figure(row.idle_ms))
        hints.append(f"{names[-1]}: {row.cause}, {ends[-1]} a step in {number(row.gaps)} gaps")
        colours.append(f"idle-{row.cause}" if f"idle-{row.cause}" in light() else "idle-other")
    plot = rows_of(
        names,
        [Series("", "idle", [row.idle_ms for row in rows], hints)],
        "ms a step",
        ends,
        colours,
    )
    coloured = zip(rows, colours, strict=True)
    keys = dict.fromkeys((row.cause, colour, "") for row, colour in coloured)
    caption = "Idle time of a mean steady step, as recorded, by the call that waited, or the operator that ended it."
    plot = replace(plot, keys=list(keys))
    return Chart("places", "Idle time by place", caption, plot, height_of(len(rows)))


def kernel_lengths_chart(report: Report, details: Details) -> Chart | None:
    """Kernels by length, with what it costs to launch one."""
    known = details.lengths
    if known is None or known.kernels.sum() < LEAST_KERNELS:
        return None
    counts = zip(known.kernels.tolist(), known.time_ms.tolist(), strict=True)
    times = [f"{number(n)} kernels, {figure(ms, 'ms')}" for n, ms in counts]
    marks: list[Mark] = [
        Rects("kernels", "compute", _bins(known.edges_us, known.kernels, times, "us"))
    ]
    launch = report.metrics.launches.launch_mean_us if report.metrics.launches else None
    ends = (float(known.edges_us[0]), float(known.edges_us[-1]))
    if launch:
        top = float(known.kernels.max())
        marks.append(Lines("cost of a launch", "more", [launch, launch], [0.0, top]))
        marks.append(PlotTexts([(launch, top, f"a launch takes {figure(launch, 'us')}")]))
        ends = (min(ends[0], launch / 2), max(ends[1], launch * 2))
    caption = (
        "Kernels of a mean steady step by their length. Kernels to the left of the line take less time than the CPU "
        "needs to launch them."
    )
    plot = Plot(marks, Axis("us", range=ends, log=True), Axis("kernels a step"))
    return Chart("lengths", "Kernels by length", caption, plot, 260)


def launch_queue_chart(details: Details) -> Chart | None:
    """How far the host is ahead of the device."""
    queue = details.queue
    if queue is None or queue.depth.max() < 2:
        return None
    line = Lines(
        "", "compute", (queue.time_ns / NS_PER_MS).tolist(), queue.depth.tolist(), steps=True
    )
    caption = (
        "Device ops launched and not finished, over the step of the timeline: near zero the GPU waits for the CPU, "
        "high the CPU is ahead."
    )
    return Chart(
        "queue",
        "Launch queue",
        caption,
        Plot([line], Axis("ms since the step's start"), Axis("ops")),
        220,
    )


def _bins(edges: F64, heights: Any, hints: Sequence[str], unit: str) -> list[Rectangle]:
    """Bars between neighbouring edges, their hints beginning with what is between them."""
    parts = zip(
        edges.tolist(),
        edges[1:].tolist(),
        heights.tolist(),
        hints,
        strict=False,
    )
    return [
        Rectangle(low, high, 0.0, height, f"{figure(low, unit)} to {figure(high, unit)}: {hint}")
        for low, high, height, hint in parts
    ]


def step_times_chart(report: Report) -> Chart | None:
    """How step times are distributed."""
    times = [row.duration_ms for row in report.tables.get("steps", []) if not row.warmup]
    if len(times) < LEAST_STEPS:
        return None
    counts, edges = np.histogram(times, bins=min(30, len(times) // 3))
    bars = Rects(
        "", "duration", _bins(edges, counts, [f"{count} steps" for count in counts.tolist()], "ms")
    )
    plot = Plot(
        [bars],
        Axis("ms", range=(float(edges[0]), float(edges[-1]))),
        Axis("steps"),
    )
    return Chart(
        "times",
        "Steps by time",
        "Steady steps by their time. Two hills are two kinds of steps.",
        plot,
        220,
    )


def logged_chart(details: Details) -> Chart | None:
    """What of the steps of a timing log was waiting for data."""
    rows = details.logged[-MAX_LOGGED:]
    if not rows:
        return None
    waiting = Series("waiting for data", "idle-input", [r.data_ms for r in rows])
    rest = Series(
        "the rest of the step", "duration", [max(r.time_ms - r.data_ms, 0.0) for r in rows]
    )
    caption = "Steps as the log has them: what of each was waiting for data."
    plot = stacked([str(r.step) for r in rows], [waiting, rest], "step", "ms")
    return Chart("logged", "Data and compute", caption, plot)


def icicle(details: Details) -> Chart | None:
    """Device time by who launched it."""
    caption = (
        "Device time of the timeline's step, by phases and operators from the outside in, and kernels, collectives "
        "and copies in their colours. What is below 0.4 % is left out."
    )
    return _icicle("icicle", "Who launched the GPU's work", caption, details.boxes, 3)


def idle_icicle(details: Details) -> Chart | None:
    """Idle time by who is behind it."""
    caption = (
        "Idle time of the timeline's step, charged to the wait or the launch that ended it: phases and operators from "
        "the outside in, then the cause in its colour. What is below 0.4 % is left out."
    )
    return _icicle("idle-icicle", "Who keeps the GPU idle", caption, details.idle_boxes, 2)


def _icicle(
    id_: str,
    title: str,
    caption: str,
    boxes: Sequence[IcicleBox],
    least: int,
) -> Chart | None:
    """Boxes below each other, the innermost in their own colour; None with fewer levels than the
    least, or no time."""
    boxes = sorted(boxes, key=lambda box: box.begin_ms - box.end_ms)[:MAX_BOXES]
    levels = max((box.level for box in boxes), default=-1) + 1
    total = max((box.end_ms for box in boxes), default=0.0)
    if levels < least or not total:
        return None
    drawn = []
    for b in boxes:
        hint = (
            f"{b.name}: {figure(b.end_ms - b.begin_ms, 'ms')}, "
            f"{(b.end_ms - b.begin_ms) / total:.1%}"
        )
        place = (b.begin_ms, b.end_ms, b.level + 0.03, b.level + 0.97)
        drawn.append(Rectangle(*place, hint, axis_name(b.name), b.sort or "operator"))
    sorts = dict.fromkeys(b.colour for b in drawn)
    keys = [
        ("phase or operator" if sort == "operator" else sort.replace("idle-", ""), sort, "")
        for sort in sorts
    ]
    across = Axis("ms", range=(0.0, total))
    along = Axis(range=(0.0, levels), hidden=True)
    plot = Plot([Rects("", "operator", drawn)], across, along, down=True, keys=keys)
    return Chart(id_, title, caption, plot, EDGES_PX + ROW_PX * levels)
