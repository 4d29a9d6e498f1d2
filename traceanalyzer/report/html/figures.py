"""The charts as Plotly figures in plain JSON: data and axes alone, colours as names of the page's own.

A colour is the name of a CSS variable (`--compute`): the page resolves it, so that one figure serves light, dark
and paper. Every figure is of bounded size whatever the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.report.format import label, measured, plain, shorten
from traceanalyzer.report.outline import step_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.html.details import Details
    from traceanalyzer.report.model import Report

Figure = dict[str, Any]

MAX_BARS = 400
"""Steps drawn one by one; of more, each bar is the mean of a few that follow each other."""
MAX_NAME = 60
MAX_ROWS = 20
"""Rows of a table that a chart of bars shows; the table has the others."""
PARTS = ("compute", "exposed_communication", "exposed_copy", "idle")
CAUSES = ("launch", "sync", "input", "host", "communication", "profiler", "other")
DASHES = ("solid", "dash", "dot", "dashdot")
BOUNDS = ("compute", "memory", "latency", "link")


@dataclass(frozen=True)
class Chart:
    """A figure with what it shows in words, and where its numbers stand as a table."""

    id: str
    title: str
    caption: str
    figure: Figure
    height: int = 320


def step_budget(report: Report) -> Chart | None:
    """The budget of each step, stacked; only the steps' times where there was no device work."""
    rows = report.tables.get("steps", [])
    if not rows:
        return None
    block = -(-len(rows) // MAX_BARS)
    known = rows[0].compute_ms is not None
    names = [f"{part}_ms" for part in PARTS] if known else ["duration_ms"]
    first = [rows[i].step for i in range(0, len(rows), block)]
    traces = [
        _bar(first, _means([getattr(r, name) for r in rows], block), label(name), name.removesuffix("_ms"))
        for name in names
        if any(getattr(r, name) for r in rows)
    ]
    warm = sum(row.warmup for row in rows)
    shapes = [_span(first[0] - 0.5, rows[warm - 1].step + 0.5)] if warm else []
    caption = "Wall-clock time of each recorded step" + (" by what the device did." if known else ".")
    if block > 1:
        caption += f" Each bar is the mean of {block} steps."
    if warm:
        caption += " The shaded steps are warm-up and left out of every mean."
    return Chart("steps", "Step by step", caption, _figure(traces, "step", "ms", barmode="stack", shapes=shapes))


def idle_causes(report: Report) -> Chart | None:
    """Idle time of the mean step by cause."""
    idle = report.metrics.idle_ms
    if idle is None:
        return None
    parts = [(cause, getattr(idle, cause)) for cause in CAUSES]
    parts = sorted(((cause, value) for cause, value in parts if value), key=lambda pair: pair[1])
    if not parts:
        return None
    data = {
        "type": "bar",
        "orientation": "h",
        "x": [_short(value) for _, value in parts],
        "y": [cause for cause, _ in parts],
        "marker": {"color": [f"--idle-{cause}" for cause, _ in parts]},
        "text": [f"{value / (step_ms(report) or value):.1%}" for _, value in parts],
        "hovertemplate": "%{y}: %{x:.4g} ms, %{text} of the step<extra></extra>",
    }
    caption = "What the GPU was waiting for while it had no work, in a mean steady step."
    return Chart("idle", "Idle time by cause", caption, _figure([data], "ms a step", ""), 60 + 36 * len(parts) + 40)


def gap_lengths(report: Report) -> Chart | None:
    """Idle time in gaps by their length."""
    rows = report.tables.get("gap_histogram", [])
    if not rows:
        return None
    lengths = [row.length for row in rows]
    traces = [
        _bar(lengths, [getattr(r, f"{part}_ms") for r in rows], part, f"idle-{part}")
        for part in ("launch", "sync", "other")
    ]
    traces[2] |= {
        "name": "any other cause",
        "text": [f"{row.gaps:.3g}" for row in rows],
        "textposition": "outside",
    }
    caption = (
        "Idle time of a mean steady step by the length of its gaps; above each bar the number of gaps. Many short gaps "
        "are latency between kernels, few long ones mean that the GPU ran dry."
    )
    return Chart("gaps", "Gaps by length", caption, _figure(traces, "length of the gap", "ms a step", barmode="stack"))


def kernel_classes(report: Report) -> Chart | None:
    """Device time by kind of work."""
    rows = report.tables.get("kernel_classes", [])[:MAX_ROWS]
    if not rows:
        return None
    rows = rows[::-1]
    data = {
        "type": "bar",
        "orientation": "h",
        "x": [_short(row.total_ms) for row in rows],
        "y": [_name(row.cls) for row in rows],
        "customdata": [_name(row.title) for row in rows],
        "marker": {"color": [f"--bound-{row.bound}" if row.bound in BOUNDS else "--neutral" for row in rows]},
        "text": [f"{row.share_of_device:.1%}" for row in rows],
        "hovertemplate": "%{customdata}: %{x:.4g} ms, %{text} of the device time<extra></extra>",
    }
    caption = (
        "Sum of the durations of a mean step's device ops by kind of work (ops side by side count twice); the colour "
        "says what usually limits such kernels: compute or memory."
    )
    return Chart(
        "classes", "Device time by kind of work", caption, _figure([data], "ms a step", ""), 80 + 28 * len(rows)
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
    axes = {"xaxis": _log("operations for each byte of traffic", low, high), "yaxis": _log("TFLOP/s", None, None)}
    caption = (
        f"Kernels of a mean step on {gpu.name}: how fast they calculate against how much they calculate for each byte "
        f"that they move; the area is their time. Below the slope, {gpu.bandwidth_tbs:.3g} TB/s of memory limits "
        "them, below the flat lines the arithmetic. Only kernels of operators recorded with shapes are here."
    )
    return Chart("roofline", "Roofline", caption, {"data": traces, "layout": axes}, 460)


def _ceiling(name: str, peak: float, bandwidth: float, extent: tuple[float, float], dash: str) -> Figure:
    """The memory's slope up to a peak, and the peak from there."""
    low, high = extent
    line = _line([low, peak / bandwidth, high], [low * bandwidth, peak, peak], name)
    return line | {"line": {"width": 1.5, "dash": dash, "color": "--quiet"}}


def _kernels(rows: Sequence[Any], bound: str | None, longest: float) -> Figure:
    name = f"{bound}-bound" if bound else "bound unknown"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [_short(r.intensity) for r in rows],
        "y": [_short(r.tflops) for r in rows],
        "text": [_name(r.name) for r in rows],
        "customdata": [[_short(r.total_ms), "" if r.sol is None else f"{r.sol:.0%}"] for r in rows],
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
        _bar(names, [r.exposed_ms for r in rows], "exposed", "exposed_communication", across=True),
        _bar(names, [max(r.total_ms - r.exposed_ms, 0) for r in rows], "hidden by compute", "compute", across=True),
    ]
    caption = (
        "Time of the collectives of a mean step, from a kernel's start to its end, waiting for other ranks included; "
        "only the exposed part makes the step longer."
    )
    return Chart(
        "collectives",
        "Collectives and overlap",
        caption,
        _figure(traces, "ms a step", "", barmode="stack"),
        100 + 30 * len(rows),
    )


def _collective(row: Any) -> str:
    size = f" {row.message_bytes / 1e6:,.3g} MB" if row.message_bytes else ""
    return _name(f"{row.collective}{size}" + (f" ({row.group})" if row.group else ""))


def ranks(report: Report) -> Chart | None:
    """Ranks side by side."""
    rows = report.tables.get("ranks", [])[:MAX_BARS]
    if not rows:
        return None
    names = [f"rank {row.rank}" + (" ⚠" if row.straggler else "") for row in rows]
    matched = any(row.transfer_ms is not None for row in rows)
    parts = [("compute_ms", "compute", "compute")]
    parts += (
        [("waiting_ms", "waiting for other ranks", "idle-communication"), ("transfer_ms", "transfer", "communication")]
        if matched
        else [("communication_ms", "communication", "communication")]
    )
    parts.append(("idle_ms", "idle", "idle"))
    traces = [_bar(names, [getattr(r, name) for r in rows], shown, colour) for name, shown, colour in parts]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "mean step",
            "x": names,
            "y": [_short(row.step_mean_ms) for row in rows],
            "marker": {"color": "--text", "symbol": "line-ew-open", "size": 18, "line": {"width": 2}},
        }
    )
    caption = (
        "A mean steady step of each rank on its busiest device; what overlaps is counted in each bar it is part of."
    )
    if any(row.straggler for row in rows):
        caption += " ⚠ marks the rank that holds up the others."
    return Chart("ranks", "Ranks side by side", caption, _figure(traces, "", "ms a step", barmode="group"))


def memory(details: Details) -> Chart | None:
    """Memory of the allocator over the recording."""
    tracks = [track for track in details.memory if track.device >= 0 and track.peak]
    if not tracks:
        return None
    origin, traces = min(int(track.time[0]) for track in tracks), []
    for track in tracks:
        time = [_short(t) for t in ((track.time - origin) / 1e6).tolist()]
        for name, values, colour in (
            ("allocated", track.allocated, "compute"),
            ("reserved", track.reserved, "idle-other"),
        ):
            if (values > 0).any():
                traces.append(
                    {
                        **_line(time, [_short(v) for v in (values / 1e6).tolist()], f"GPU {track.device} {name}"),
                        "line": {"shape": "hv", "color": f"--{colour}", "width": 1.5},
                    }
                )
    events = sum(track.events for track in tracks)
    caption = (
        f"Memory of the framework's allocator over the whole recording ({events:,} allocations and frees; each moment "
        "shows its highest value)."
    )
    return Chart("memory", "Memory over time", caption, _figure(traces, "ms since the first event", "MB"))


def _figure(data: list[Figure], x: str, y: str, **layout: Any) -> Figure:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    return {"data": data, "layout": {**axes, **layout}}


def _bar(x: Sequence[Any], y: Sequence[float | None], name: str, colour: str, *, across: bool = False) -> Figure:
    places, values = [shorten(v, MAX_NAME) if isinstance(v, str) else v for v in x], [_short(v) for v in y]
    return {
        "type": "bar",
        "name": name,
        "x": values if across else places,
        "y": places if across else values,
        "orientation": "h" if across else "v",
        "marker": {"color": f"--{colour.replace('_', '-')}"},
        "hovertemplate": f"%{{{'y' if across else 'x'}}}: {name} %{{{'x' if across else 'y'}:.4g}} ms<extra></extra>",
    }


def _line(x: Sequence[Any], y: Sequence[Any], name: str) -> Figure:
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": {"width": 1.5}}


def _span(start: float, end: float) -> Figure:
    """A shaded stretch of the horizontal axis."""
    shaded = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}, "layer": "below"}
    return {**shaded, "x0": start, "x1": end, "fillcolor": "--shade"}


def _log(title: str, low: float | None, high: float | None) -> Figure:
    axis: Figure = {"type": "log", "title": {"text": title}}
    if low is not None and high is not None:
        axis["range"] = [float(np.log10(low)), float(np.log10(high))]
    return axis


def _means(values: Sequence[float], block: int) -> list[float]:
    return [float(np.mean(values[i : i + block])) for i in range(0, len(values), block)]


def _short(value: float | None) -> float | None:
    """Six digits: more are noise, and take room."""
    return float(f"{value:.6g}") if measured(value) else None


def _name(text: str) -> str:
    """A name as Plotly may show it: short, and nothing in it is one of its own tags."""
    return shorten(plain(text), MAX_NAME).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
