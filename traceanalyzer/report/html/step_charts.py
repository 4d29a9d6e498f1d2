"""Charts of the step: its budget, its idle time, its ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.format import label, number
from traceanalyzer.report.html.charts import Chart, bar, figure, means, short, span
from traceanalyzer.report.outline import recorded_ms

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

MAX_BARS = 400
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
    first = [rows[i].step for i in range(0, len(rows), block)]
    traces = [
        bar(first, means([getattr(r, name) for r in rows], block), label(name), name.removesuffix("_ms"))
        for name in names
        if any(getattr(r, name) for r in rows)
    ]
    warm = sum(row.warmup for row in rows)
    shapes = [span(first[0] - 0.5, rows[warm - 1].step + 0.5)] if warm else []
    caption = "Wall-clock time of each recorded step" + (" by what the device did." if known else ".")
    if block > 1:
        caption += f" Each bar is the mean of {block} steps."
    if warm:
        caption += " The shaded steps are warm-up and left out of every mean."
    return Chart("steps", "Step by step", caption, figure(traces, "step", "ms", barmode="stack", shapes=shapes))


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
        "x": [short(value) for _, value in parts],
        "y": [cause for cause, _ in parts],
        "marker": {"color": [f"--idle-{cause}" for cause, _ in parts]},
        "text": [f"{value / (recorded_ms(report) or value):.1%}" for _, value in parts],
        "textangle": 0,
        "hovertemplate": "%{y}: %{x:.4g} ms, %{text} of the step<extra></extra>",
    }
    caption = "What the GPU was waiting for while it had no work, in a mean steady step."
    return Chart("idle", "Idle time by cause", caption, figure([data], "ms a step", ""), 60 + 36 * len(parts) + 40)


def gap_lengths(report: Report) -> Chart | None:
    """Idle time in gaps by their length."""
    rows = report.tables.get("gap_histogram", [])
    if not rows:
        return None
    lengths = [row.length for row in rows]
    traces = [
        bar(lengths, [getattr(r, f"{part}_ms") for r in rows], part, f"idle-{part}")
        for part in ("launch", "sync", "other")
    ]
    traces[2] |= {
        "name": "any other cause",
        "text": [number(row.gaps) for row in rows],
        "textposition": "outside",
    }
    caption = (
        "Idle time of a mean steady step by the length of its gaps; above each bar the number of gaps. Many short gaps "
        "are latency between kernels, few long ones mean that the GPU ran dry."
    )
    return Chart("gaps", "Gaps by length", caption, figure(traces, "length of the gap", "ms a step", barmode="stack"))


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
    traces = [bar(names, [getattr(r, name) for r in rows], shown, colour) for name, shown, colour in parts]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "mean step",
            "x": names,
            "y": [short(row.step_mean_ms) for row in rows],
            "marker": {"color": "--text", "symbol": "line-ew-open", "size": 18, "line": {"width": 2}},
        }
    )
    caption = (
        "A mean steady step of each rank on its busiest device; what overlaps is counted in each bar it is part of."
    )
    if any(row.straggler for row in rows):
        caption += " ⚠ marks the rank that holds up the others."
    return Chart("ranks", "Ranks side by side", caption, figure(traces, "", "ms a step", barmode="group"))
