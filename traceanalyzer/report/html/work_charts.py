"""Charts of the device's work: kinds of kernels, roofline, communication, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.report.html.charts import Chart, bar, figure, line, log_axis, name_of, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.html.charts import Figure
    from traceanalyzer.report.html.details import Details
    from traceanalyzer.report.model import Report

MAX_ROWS = 20
"""Rows of a table that a chart of bars shows; the table has the others."""
DASHES = ("solid", "dash", "dot", "dashdot")
BOUNDS = ("compute", "memory", "instructions", "latency", "link")


def kernel_classes(report: Report) -> Chart | None:
    """Device time by kind of work."""
    rows = report.tables.get("kernel_classes", [])[:MAX_ROWS]
    if not rows:
        return None
    rows = rows[::-1]
    data = {
        "type": "bar",
        "orientation": "h",
        "x": [short(row.total_ms) for row in rows],
        "y": [name_of(row.cls) for row in rows],
        "customdata": [name_of(row.title) for row in rows],
        "marker": {"color": [f"--bound-{row.bound}" if row.bound in BOUNDS else "--neutral" for row in rows]},
        "text": [f"{row.share_of_device:.1%}" for row in rows],
        "textangle": 0,
        "hovertemplate": "%{customdata}: %{x:.4g} ms, %{text} of the device time<extra></extra>",
    }
    caption = (
        "Sum of the durations of a mean step's device ops by kind of work (ops side by side count twice); the colour "
        "says what usually limits such kernels: compute or memory."
    )
    return Chart(
        "classes", "Device time by kind of work", caption, figure([data], "ms a step", ""), 80 + 28 * len(rows)
    )


def roofline(report: Report, details: Details) -> Chart | None:
    """Kernels by arithmetic intensity and rate under the GPU's ceilings, both axes logarithmic."""
    rows = [r for r in report.tables.get("kernels", []) if r.intensity and r.tflops]
    gpu = details.ceilings
    if not rows or gpu is None:
        return None
    low, high = min(r.intensity for r in rows) / 3, max(r.intensity for r in rows) * 3
    top = max(gpu.tflops.values(), default=0.0)
    high = max(high, 3 * top / gpu.bandwidth_tbs)
    traces = [
        _ceiling(f"{name} {peak:,.0f} TFLOP/s", peak, gpu.bandwidth_tbs, (low, high), DASHES[i % len(DASHES)])
        for i, (name, peak) in enumerate(gpu.tflops.items())
    ]
    longest = max(r.total_ms for r in rows)
    for bound in (*BOUNDS, None):
        some = [r for r in rows if r.bound_by == bound]
        if some:
            traces.append(_kernels(some, bound, longest))
    axes = {
        "xaxis": log_axis("operations for each byte of traffic", low, high),
        "yaxis": log_axis("TFLOP/s", None, None),
    }
    caption = (
        f"Kernels of a mean step on {gpu.name}: how fast they calculate against how much they calculate for each byte "
        f"that they move; the area is their time. Below the slope, {gpu.bandwidth_tbs:.3g} TB/s of memory limits "
        "them, below the flat lines the arithmetic. Only kernels of operators recorded with shapes are here."
    )
    return Chart("roofline", "Roofline", caption, {"data": traces, "layout": axes}, 460)


def _ceiling(name: str, peak: float, bandwidth: float, extent: tuple[float, float], dash: str) -> Figure:
    """The memory's slope up to a peak, and the peak from there."""
    low, high = extent
    drawn = line([low, peak / bandwidth, high], [low * bandwidth, peak, peak], name)
    return drawn | {"line": {"width": 1.5, "dash": dash, "color": "--quiet"}}


def _kernels(rows: Sequence[Any], bound: str | None, longest: float) -> Figure:
    name = f"{bound}-bound" if bound else "bound unknown"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [short(r.intensity) for r in rows],
        "y": [short(r.tflops) for r in rows],
        "text": [name_of(r.name) for r in rows],
        "customdata": [[short(r.total_ms), "" if r.sol is None else f"{r.sol:.0%}"] for r in rows],
        "marker": {
            "color": f"--bound-{bound}" if bound else "--neutral",
            "size": [round(8 + 26 * (r.total_ms / longest) ** 0.5, 1) for r in rows],
            "opacity": 0.75,
        },
        "hovertemplate": "%{text}<br>%{customdata[0]:.4g} ms a step, %{y:.3g} TFLOP/s, %{x:.3g} operations a byte, "
        "speed of light %{customdata[1]}<extra></extra>",
    }


def communication(report: Report) -> Chart | None:
    """Collectives: how much of their time compute hides."""
    rows = report.tables.get("collectives", [])[:MAX_ROWS][::-1]
    if not rows:
        return None
    names = [_collective(row) for row in rows]
    traces = [
        bar(names, [r.exposed_ms for r in rows], "exposed", "exposed_communication", across=True),
        bar(names, [max(r.total_ms - r.exposed_ms, 0) for r in rows], "hidden by compute", "compute", across=True),
    ]
    caption = (
        "Time of the collectives of a mean step, from a kernel's start to its end, waiting for other ranks included; "
        "only the exposed part makes the step longer."
    )
    return Chart(
        "collectives",
        "Collectives and overlap",
        caption,
        figure(traces, "ms a step", "", barmode="stack"),
        100 + 30 * len(rows),
    )


def _collective(row: Any) -> str:
    size = f" {row.message_bytes / 1e6:,.3g} MB" if row.message_bytes else ""
    return name_of(f"{row.collective}{size}" + (f" ({row.group})" if row.group else ""))


def memory(details: Details) -> Chart | None:
    """Memory of the allocator over the recording."""
    tracks = [track for track in details.memory if track.device >= 0 and track.peak]
    if not tracks:
        return None
    origin, traces = min(int(track.time[0]) for track in tracks), []
    for track in tracks:
        time = [short(t) for t in ((track.time - origin) / 1e6).tolist()]
        for name, values, colour in (
            ("allocated", track.allocated, "compute"),
            ("reserved", track.reserved, "idle-other"),
        ):
            if (values > 0).any():
                traces.append(
                    {
                        **line(time, [short(v) for v in (values / 1e6).tolist()], f"GPU {track.device} {name}"),
                        "line": {"shape": "hv", "color": f"--{colour}", "width": 1.5},
                    }
                )
    events = sum(track.events for track in tracks)
    caption = (
        f"Memory of the framework's allocator over the whole recording ({events:,} allocations and frees; each moment "
        "shows its highest value)."
    )
    return Chart("memory", "Memory over time", caption, figure(traces, "ms since the first event", "MB"))
