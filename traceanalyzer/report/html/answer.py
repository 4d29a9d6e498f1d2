"""The first screen: what is wrong, how sure that is, what to change and what it would bring, what spoils it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report import outline
from traceanalyzer.report.format import figure, measured
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.tables import facts, term

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

FIRST = 3
"""Recommendations that stay on the first screen."""
GLOSSARY = dict(outline.GLOSSARY)


def answer(report: Report) -> Markup:
    """Verdict, step time, budget, remedies and warnings."""
    return join(
        tag("div", _verdict(report), tag("div", _budget_bar(report)), class_="verdict"),
        _advice(report),
        _warnings(report),
    )


def _verdict(report: Report) -> Markup:
    summary, time = report.summary, report.metrics.step_time_ms
    known = summary.bottleneck != "inconclusive"
    shown = [("confidence", f"{summary.confidence:.0%}", GLOSSARY["confidence"])] if known else []
    total = outline.step_ms(report)
    if total is not None:
        definition = (
            "mean wall-clock time of the steady-state steps" if time else "no steps were found in the recording"
        )
        shown.append(("step time" if time else "recording", figure(total, "ms"), definition))
    unprofiled = report.metrics.unprofiled_step_time_ms
    if unprofiled is not None:
        source = report.metrics.unprofiled_source or ""
        about = "" if source == "measured" else "about "
        meaning = f"step time without a profiler, {source}; predictions start from it where steps can be replayed"
        shown.append(("without the profiler", about + figure(unprofiled, "ms"), meaning))
    if measured(report.metrics.gpu_idle_share):
        shown.append(
            ("GPU idle", figure(report.metrics.gpu_idle_share, "share"), "share of the step without device work")
        )
    return tag(
        "div",
        tag("h1", f"{summary.bottleneck}{'-bound' if known else ''}"),
        tag("p", summary.headline, class_="headline"),
        facts(shown) if shown else None,
        tag("p", f"Step time: {outline.step_sentence(report)}", class_="quiet"),
        tag("p", outline.recording(report), class_="quiet"),
        class_="statement",
    )


def _budget_bar(report: Report) -> Markup | None:
    """The step's budget as one bar and its legend, readable without scripts."""
    parts = [part for part in outline.budget(report) if not part.within]
    if not parts:
        return None
    bar = tag(
        "div",
        *(
            tag("span", class_=f"part {_colour(p.label)}", style=f"width:{max(p.share, 0):.3%}")
            for p in parts
            if p.share > 0
        ),
        class_="bar",
        aria_hidden="true",
    )
    whole = outline.whole(report)
    rows = [
        tag(
            "li",
            tag("span", class_=f"key {_colour(part.label)}", aria_hidden="true") if not part.within else None,
            f"{'idle: ' if part.within else ''}{part.label} ",
            tag("b", figure(part.share, "share")),
            f" {figure(part.ms, 'ms')}",
            class_="within" if part.within else None,
        )
        for part in outline.budget(report)
    ]
    return join(bar, tag("ul", *rows, class_="legend", aria_label=f"Where the {whole} goes"))


def _colour(label: str) -> str:
    return label.lower().replace(" ", "-")


def _advice(report: Report) -> Markup:
    title = tag("h2", "What to change", id="change")
    if not report.recommendations:
        return join(title, tag("p", "No recommendation: it needs a finding with evidence for its cause."))
    items = []
    for advice in report.recommendations:
        gain = advice.predicted_speedup
        items.append(
            tag(
                "li",
                tag("span", figure(gain, "x") if measured(gain) else "gain unknown", class_="gain"),
                tag("span", advice.action, class_="action"),
                tag(
                    "span", outline.prediction(report, advice), " ", term("how estimated", advice.basis), class_="quiet"
                ),
            )
        )
    rest = len(items) - FIRST
    more = (
        tag("details", tag("summary", f"{rest} more"), tag("ol", *items[FIRST:], start=FIRST + 1)) if rest > 0 else None
    )
    return tag("section", title, tag("ol", *items[:FIRST]), more, class_="advice", aria_labelledby="change")


def _warnings(report: Report) -> Markup | None:
    """What spoils the figures: conditions, damage, the profiler."""
    spoiled = [
        (row.name, row.value, row.spoils) for row in report.tables.get("conditions", []) if getattr(row, "spoils", "")
    ]
    lines = [tag("li", f"{name}: {value}. {spoils}") for name, value, spoils in spoiled]
    lines += [
        tag("li", f"{item.path}: {outline.damage(item)}") for item in report.inputs[:FIRST] if outline.is_damaged(item)
    ]
    lines += [tag("li", note) for note in report.notes[:FIRST]]
    if not lines:
        return None
    return tag(
        "aside",
        tag("h2", "Before you trust it"),
        tag("ul", *lines),
        tag("p", tag("a", "Everything about the recording", href="#recording")),
        class_="warnings",
    )
