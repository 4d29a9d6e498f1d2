"""Charts of the device's work: kinds of kernels, roofline, communication, memory."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from operator import attrgetter
from typing import Any

from traceanalyzer.base import digits
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.charts import Chart, Series, axis_name, height_of
from traceanalyzer.report.html.charts import rows as rows_of
from traceanalyzer.report.html.details import Details, RooflineCeilings
from traceanalyzer.report.html.pictures.plot import Axis, Dot, Dots, Lines, Plot
from traceanalyzer.report.model import Report
from traceanalyzer.report.names.kernel_labels import kernel_labels

MAX_ROWS = 20  # rows of a table that a chart of bars shows; the table has the others
DASHES = ("", "8 4", "2 3", "8 4 2 4")
BOUNDS = ("compute", "memory", "instructions", "latency", "link")
NAMED_DOTS = 5  # kernels of the roofline whose names are written: those with the most time
MAX_TRACKS = 8  # GPUs whose memory is drawn: those with the highest peaks
SMALLEST_PX = 4.0  # radius of a kernel without time, and of the one with the most
LARGEST_PX = 17.0


def kernel_classes(report: Report) -> Chart | None:
    """Device time by kind of work."""
    rows = report.tables.get("kernel_classes", [])[:MAX_ROWS]
    if not rows:
        return None
    ends = [f"{row.share_of_device:.1%}" for row in rows]
    hints = [
        f"{row.title}: {figure(row.total_ms, 'ms')}, {row.share_of_device:.1%} of the device time"
        for row in rows
    ]
    colours = [f"bound-{row.bound}" if row.bound in BOUNDS else "neutral" for row in rows]
    series = Series("", "neutral", [row.total_ms for row in rows], hints)
    keys = [
        *((f"limited by {bound}", f"bound-{bound}", "") for bound in BOUNDS),
        ("limit unknown", "neutral", ""),
    ]
    plot = replace(
        rows_of([row.title for row in rows], [series], "ms a step", ends, colours), keys=keys
    )
    caption = (
        "Sum of the durations of a mean step's device ops by kind of work (ops side by side count twice); the colour "
        "says what usually limits such kernels: compute or memory."
    )
    return Chart("classes", "Device time by kind of work", caption, plot, height_of(len(rows)))


def roofline(report: Report, details: Details) -> Chart | None:
    """Kernels by arithmetic intensity and rate under the GPU's ceilings, both axes logarithmic."""
    rows = [r for r in report.tables.get("kernels", []) if r.intensity and r.tflops]
    gpu = details.ceilings
    if not rows or gpu is None:
        return None
    top = max(gpu.tflops.values(), default=0.0)
    low = min(row.intensity for row in rows) / 3
    high = 3 * max(*(row.intensity for row in rows), top / gpu.bandwidth_tbs)
    slowest = min(row.tflops for row in rows) / 3
    by_time = sorted(rows, key=lambda r: -r.total_ms)
    named = set(map(id, by_time[:NAMED_DOTS]))
    dots = [_kernels(rows, bound, by_time[0].total_ms, named) for bound in (*BOUNDS, None)]
    rates = (min(slowest, low * gpu.bandwidth_tbs), 2 * max(top, slowest))
    plot = Plot(
        [*_ceilings(gpu, low, high), *filter(attrgetter("dots"), dots)],
        Axis("operations for each byte of traffic", range=(low, high), log=True),
        Axis("TFLOP/s", range=rates, log=True),
    )
    caption = (
        f"Kernels of a mean step on {gpu.name}: how fast they calculate against how much they calculate for each byte "
        f"that they move; the area is their time. Below the slope, {digits(gpu.bandwidth_tbs)} TB/s of memory limits "
        "them, below the flat lines the arithmetic. Only kernels of operators recorded with shapes are here."
    )
    return Chart("roofline", "Kernels under the GPU's limits", caption, plot, 460)


def _ceilings(gpu: RooflineCeilings, low: float, high: float) -> list[Lines]:
    """Between two intensities the memory's slope up to each peak, and the peak from there."""
    lines = []
    for (name, peak), dash in zip(gpu.tflops.items(), cycle(DASHES), strict=False):
        xs = [low, peak / gpu.bandwidth_tbs, high]
        ys = [low * gpu.bandwidth_tbs, peak, peak]
        lines.append(Lines(f"{name} {peak:,.0f} TFLOP/s", "quiet", xs, ys, dash))
    return lines


def _kernels(
    rows: Sequence[Any],
    bound: str | None,
    longest: float,
    named: set[int],
) -> Dots:
    dots = []
    labels = kernel_labels(row.name for row in rows)
    for r in (row for row in rows if row.bound_by == bound):
        share = (r.total_ms / longest) ** 0.5
        size = round(SMALLEST_PX + (LARGEST_PX - SMALLEST_PX) * share, 1)
        rate = f"{digits(r.tflops)} TFLOP/s, {digits(r.intensity)} operations a byte"
        light = "" if r.sol is None else f", {r.sol:.0%} of speed of light"
        label = labels[r.name]
        hint = f"{label}: {figure(r.total_ms, 'ms')} a step, {rate}{light}"
        dots.append(
            Dot(
                r.intensity,
                r.tflops,
                size,
                hint,
                label if id(r) in named else "",
            )
        )
    return Dots(
        f"{bound}-bound" if bound else "bound unknown",
        f"bound-{bound}" if bound else "neutral",
        dots,
    )


def communication(report: Report) -> Chart | None:
    """Collectives: how much of their time compute hides."""
    rows = report.tables.get("collectives", [])[:MAX_ROWS]
    if not rows:
        return None
    series = [
        Series("exposed", "exposed-communication", [r.exposed_ms for r in rows]),
        Series("hidden by compute", "compute", [max(r.total_ms - r.exposed_ms, 0) for r in rows]),
    ]
    caption = (
        "Time of the collectives of a mean step, from a kernel's start to its end, waiting for other ranks included; "
        "only the exposed part makes the step longer."
    )
    names = []
    for row in rows:
        size = f" {row.message_bytes / 1e6:,.3g} MB" if row.message_bytes else ""
        names.append(
            axis_name(f"{row.collective}{size}" + (f" ({row.group})" if row.group else ""))
        )
    plot = rows_of(names, series, "ms a step")
    return Chart("collectives", "Collectives and overlap", caption, plot, height_of(len(rows)))


def memory_chart(details: Details) -> Chart | None:
    """Memory of the allocator over the recording."""
    used = (track for track in details.memory if track.device >= 0 and track.peak)
    tracks = sorted(used, key=lambda track: -track.peak)[:MAX_TRACKS]
    if not tracks:
        return None
    origin = min(int(track.time[0]) for track in tracks)
    lines = []
    for track in tracks:
        time = ((track.time - origin) / 1e6).tolist()
        pair = (
            ("allocated", track.allocated, "compute"),
            ("reserved", track.reserved, "idle-other"),
        )
        for name, values, colour in pair:
            if (values > 0).any():
                lines.append(
                    Lines(
                        f"GPU {track.device} {name}",
                        colour,
                        time,
                        (values / 1e6).tolist(),
                        steps=True,
                    )
                )
    events = sum(track.events for track in tracks)
    caption = (
        f"Memory of the framework's allocator over the whole recording ({events:,} allocations and frees; each moment "
        "shows its highest value)."
    )
    return Chart(
        "memory",
        "Memory over time",
        caption,
        Plot(lines, Axis("ms since the first event"), Axis("MB")),
    )
