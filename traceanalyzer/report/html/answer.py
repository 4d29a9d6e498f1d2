"""The first screen: what is wrong, how sure that is, what to do first, what spoils it; and all that
may be changed."""

from collections.abc import Iterator

from traceanalyzer.analysis.tables.step_figures import Budget, Idle
from traceanalyzer.base import definitions
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.report.brief import LONGEST_OF_MORE, change_told
from traceanalyzer.report.document import Fact
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.format import figure, label, step_figure
from traceanalyzer.report.html.frame import heading
from traceanalyzer.report.html.markup import Markup, join, tag
from traceanalyzer.report.html.table_parts import facts, term
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown, gains, opening, step_facts
from traceanalyzer.report.outline.breakdown import BudgetShare

FIRST = 3  # recommendations that are open
LEAST_SHARE = 0.5e-4
"""Of the step, a part that the legend of its budget names: less is 0.00 % and no colour."""
CAVEATS = 6  # that are shown of what spoils the figures


def answer_section(report: Report) -> Markup:
    """Verdict, step time, budget, the first remedy and warnings."""
    culprit = report.summary.culprit
    hardware = opening.hardware(report)
    verdict = tag(
        "div",
        tag("p", opening.verdict(report), class_="kind"),
        heading(report.summary.headline),
        tag("p", culprit, class_="headline") if culprit else None,
        facts(_figures(report)),
        tag("p", hardware, class_="quiet") if hardware else None,
        class_="statement",
    )
    first = None
    shown = gains.on_first_screen(report)[:FIRST]
    if shown:
        named = [_named(report, one, position) for position, one in enumerate(shown, 1)]
        title = gains.changes_title(shown, len(report.recommendations))
        heads = tag("p", tag("b", title))
        first = tag("div", heads, tag("ol", *named), class_="advice")
    return join(
        tag("div", verdict, tag("div", _budget_bar(report)), class_="verdict"),
        first,
        _warnings(report),
    )


def _figures(report: Report) -> list[Fact]:
    """What decides first: how sure, how long, how idle."""
    summary = report.summary
    metrics = report.metrics
    total = step_times.step_ms(report)
    shown = []
    if summary.bottleneck != "inconclusive":
        shown.append(
            Fact("confidence", opening.confidence(report), dict(step_facts.GLOSSARY)["confidence"])
        )
    if total is not None:
        what = "wall-clock time, mean of the steady state"
        shown.append(Fact(f"{step_times.figure_unit(report)} time", step_figure(total), what))
    if metrics.unprofiled is not None and metrics.step_time_ms is not None:
        mean = step_figure(metrics.step_time_ms.mean)
        shown.append(Fact("with the profiler", mean, "the recorded step, which the profiler slows"))
    idle = next((share.share for share in breakdown.budget(report) if share.label == "idle"), None)
    if idle is not None:
        shown.append(
            Fact("GPU idle", figure(idle, "share"), "share of the step without device work")
        )
    return shown


def _budget_bar(report: Report) -> Markup | None:
    """The step's budget as one bar and its legend, readable without scripts."""
    shares = breakdown.budget(report)
    if not shares:
        return None
    # Idle time is shown by its causes, in the colours that they have everywhere on the page.
    parts = [share for share in breakdown.finest(shares) if share.share > 0]
    bar = (
        tag(
            "span",
            class_="part",
            style=f"width:{part.share:.3%};background:var(--{part.colour})",
            data_def=f"{part.name} {figure(part.share, 'share')}, {step_figure(part.ms)}",
        )
        for part in parts
    )
    shown = (share for share in shares if share.share >= LEAST_SHARE)
    items = (
        tag("li", *_entry(share, parts), class_="within" if share.within else None)
        for share in shown
    )
    return join(
        tag("div", *bar, class_="bar", aria_hidden="true"),
        tag(
            "ul",
            *items,
            class_="legend",
            aria_label=f"Where the {step_times.figure_unit(report)} goes",
        ),
    )


def _entry(share: BudgetShare, drawn: list[BudgetShare]) -> Iterator[str]:
    """A line of the bar's legend: with its colour where it is drawn, not only its parts."""
    if share in drawn:
        yield tag(
            "span", class_="key", style=f"background:var(--{share.colour})", aria_hidden="true"
        )
    meanings = {
        label(d.name): d.definition for d in definitions(Idle if share.within == "idle" else Budget)
    }
    meanings |= breakdown.OF_COMMUNICATION
    meanings |= breakdown.OF_COPIES
    yield term(share.name, meanings.get(share.label, ""))
    yield tag("b", f" {figure(share.share, 'share')}")
    yield f" {step_figure(share.ms)}"


def advice(report: Report) -> Markup:
    """Every recommendation with what it would bring."""
    if not report.recommendations:
        return tag("p", gains.no_advice(report))
    items = [
        _remedy(report, one, position) for position, one in enumerate(report.recommendations, 1)
    ]
    rest = len(items) - FIRST
    skipped = gains.without_advice(report)
    folded = tag("ol", *items[FIRST:], start=FIRST + 1)
    more = tag("details", tag("summary", f"{rest} more"), folded) if rest > 0 else None
    left_out = tag("p", skipped, class_="quiet") if skipped else None
    return tag("div", tag("ol", *items[:FIRST]), more, left_out, class_="advice")


def _named(report: Report, advice: Recommendation, position: int) -> Markup:
    """A recommendation in the words of the terminal's first screen, with a link to all of it."""
    alone = gains.prediction_alone(report, advice)
    factor = gains.factor(report, advice)
    figures = [text for text in (alone if factor else "", advice.effort) if text]
    link = tag(
        "a", change_told(advice.action, position, LONGEST_OF_MORE), href=f"#change-{position}"
    )
    reason = advice.instead if position == 1 else ""
    return tag(
        "li",
        tag("span", factor or alone, class_="gain"),
        tag("span", link, class_="action"),
        tag("span", " · ".join(figures), class_="quiet") if figures else None,
        tag("span", reason, class_="quiet") if reason else None,
    )


def _remedy(report: Report, advice: Recommendation, position: int) -> Markup:
    """All of a recommendation."""
    alone = gains.prediction_alone(report, advice)
    factor = gains.factor(report, advice)
    told = [text for text in (alone if factor else "", advice.effort, gains.id_of(advice)) if text]
    head, *points = gains.assumed(advice)
    estimated = join(head, *(join(Markup("\n- "), point) for point in points))
    return tag(
        "li",
        tag("span", factor or alone, class_="gain"),
        tag("span", advice.action, class_="action"),
        tag("span", " · ".join(told), " ", term("how estimated", estimated), class_="quiet"),
        id=f"change-{position}",
    )


def _warnings(report: Report) -> Markup | None:
    lines = opening.caveats(report)[:CAVEATS]
    if not lines:
        return None
    more = tag("p", tag("a", "Everything about the recording", href="#recording"))
    listed = tag("ul", *(tag("li", line) for line in lines))
    return tag("aside", tag("h2", "Before you trust it"), listed, more, class_="warnings")
