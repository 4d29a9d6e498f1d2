"""A report as one picture: the verdict, the step's budget, the timeline, what changes would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.format import figure, measured
from traceanalyzer.report.html.pictures.plot import Axis, Plot, Rects
from traceanalyzer.report.html.pictures.standalone import Panel, standalone
from traceanalyzer.report.html.pictures.step_strip import strip
from traceanalyzer.report.html.pictures.waterfall import ladder

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.timeline.lanes import Timeline

BUDGET_PX = 66
MOST_CHANGES = 5
NEGLIGIBLE = 0.001
"""Parts of the step below this are no wider than a line."""


def picture(report: Report, timeline: Timeline | None = None) -> str:
    """The report as an SVG file."""
    panels = []
    spent = budget(report)
    if spent is not None:
        panels.append(Panel(f"Where the {outline.whole(report)} goes", spent, BUDGET_PX))
    if timeline is not None:
        panels.append(Panel(timeline.title or "Timeline", *strip(timeline)))
    could = predictions(report)
    if could is not None:
        panels.append(Panel("What each change alone would bring", *could))
    lines = [report.summary.headline, f"Step time: {outline.step_sentence(report)}", outline.recording(report)]
    return standalone(outline.verdict(report), lines, panels)


def budget(report: Report) -> Plot | None:
    """The step's budget as one bar, idle time by cause; None without device work."""
    shares = outline.budget(report)
    causes = any(share.within for share in shares)
    marks, at = [], 0.0
    for share in shares:
        if not measured(share.share) or share.share < NEGLIGIBLE or (causes and share.label == "idle"):
            continue
        name = f"idle: {share.label}" if share.within else share.label
        colour = ("idle-" if share.within else "") + share.label.replace(" ", "-")
        said = f"{name} {figure(share.share, 'share')}"
        marks.append(
            Rects(said, colour, [at], [at + share.ms], [0.0], [1.0], [f"{said}, {figure(share.ms, 'ms')}"], [said])
        )
        at += share.ms
    if not marks:
        return None
    keys = [(mark.name, mark.colour) for mark in marks]
    return Plot(marks, Axis("ms", range=(0.0, at)), Axis(hidden=True, range=(0.0, 1.0)), keys=keys)


def predictions(report: Report) -> tuple[Plot, int] | None:
    """Today's step, the step after each recommended change alone, and the roofline's floor; None without any."""
    today = outline.step_ms(report)
    known = [r for r in report.recommendations if measured(r.predicted_step_ms) and r.predicted_step_ms][:MOST_CHANGES]
    if not measured(today) or not today or not known:
        return None
    changes = [
        (r.action, r.predicted_step_ms or today, (r.low_ms, r.high_ms) if r.low_ms and r.high_ms else None)
        for r in known
    ]
    roof = report.metrics.roofline
    least = None if roof is None else roof.reachable_ms or roof.ideal_ms
    floor = None if least is None or not measured(least) else ("the computation alone at the GPU's limits", least)
    return ladder(("today", today), changes, floor)
