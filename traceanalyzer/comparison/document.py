"""Comparisons as documents: the answer for a terminal, all of it for Markdown and a page; of
several runs a table."""

from collections.abc import Sequence
from functools import partial

from traceanalyzer.base import dataclass, metric, signed_share
from traceanalyzer.comparison import outline
from traceanalyzer.comparison.model import Comparison, signed_ms
from traceanalyzer.report.brief import brief
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Paragraph,
    Part,
    Section,
    Table,
    Verdict,
)
from traceanalyzer.report.html.pictures.standalone import standalone
from traceanalyzer.report.html.timeline_section import SCRIPTS, explorer
from traceanalyzer.report.markdown.issue import render_markdown
from traceanalyzer.report.model import Report
from traceanalyzer.report.printed import Printed, PrintedRows, Result
from traceanalyzer.report.timeline.lanes import Timeline
from traceanalyzer.report.timeline.several import timelines_together

SHOWN_ROWS = 3
SHOWN_NOTES = 2
COLUMNS = ("change", "a_ms", "b_ms", "difference_ms", "verdict")
"""Changes and notes on the first screen."""
LEAST_REPORT = 4_000  # characters without which a report below a comparison says too little
FOLDED = "\n<details><summary>Where the time goes now</summary>\n\n{}\n</details>\n"
BOTH_STEPS = "A step of each, the one whose time is closest to the median, both from their starts."


@dataclass(frozen=True)
class ComparisonPage(Result):
    """A comparison."""

    comparison: Comparison
    steps: Sequence[Timeline | None] = ()
    """A step of either side event by event, for the page; None where a side was no recording."""
    full: bool = False  # whether a terminal shows more than the answer
    beyond: Sequence[Section] = ()  # what is known of both sides beside their reports

    @property
    def printed(self) -> Printed:
        """All of it, in a terminal the answer; every change is a row."""
        sections = outline.sections(self.comparison)
        largest = outline.largest_changes(self.comparison, SHOWN_ROWS)
        shown = [*_screen(sections, Table(largest, chosen=COLUMNS)), *self.beyond]
        screen = None if self.full else Document(outline.TITLE, shown)
        every = [*sections, *self.beyond]
        rows = PrintedRows("changes", outline.change_rows(self.comparison), outline.ChangeRow)
        return Printed(Document(outline.TITLE, every), self.comparison, rows, screen=screen)

    def html(self) -> str:
        """A page: the waterfall from A to B, the sections, a step of both on one time axis."""
        every = [*outline.sections(self.comparison), *self.beyond]
        known = [
            (name, step)
            for name, step in zip(("A: ", "B: "), self.steps, strict=False)
            if step is not None
        ]
        if known:
            drawing = Drawing(partial(explorer, [timelines_together(known, "A and B")]))
            every.append(Section("Timelines", [BOTH_STEPS, drawing], id="timeline"))
        return Printed(
            Document(self.comparison.headline, every, scripts=SCRIPTS if known else ())
        ).html()

    def svg(self) -> str:
        """The waterfall."""
        panels = [
            (outline.waterfall_title(self.comparison), *outline.waterfall_of(self.comparison))
        ]
        return standalone("A compared with B", [self.comparison.headline], panels)


FASTER = ("faster", "likely_faster")
TITLE = "Comparison of runs"


def _screen(every: Sequence[Section], changes: Table) -> list[Section]:
    """The answer, what it comes from, notes (which may spoil it), and what else there is."""
    by_title = {one.title: one.parts for one in every if not one.folded}
    shown = outline.ANSWER
    parts = [changes if isinstance(part, Table) else part for part in by_title[outline.CHANGES]]
    unlike = _unlike(by_title.get(outline.UNLIKE, ()))
    notes = [*unlike, *by_title.get(outline.NOTES, ())]
    briefly = [brief(str(note)) for note in notes[:SHOWN_NOTES]]
    end: list[Part] = [Bullets(briefly, "!", "yellow")]
    more = ["each change"] if len(by_title) < len(every) else []
    told = (
        shown,
        outline.UNLIKE,
        outline.CHANGES,
        outline.METRICS,
        outline.FINDINGS,
    )
    more += [title[0].lower() + title[1:] for title in by_title if title not in told]
    if more:
        end += ["", Paragraph(f"--full: {', '.join(more)}. -o change.html draws it.", "dim")]
    answer = Section(shown, by_title[shown], untitled=True)
    return [answer, Section(outline.CHANGES, parts, is_minor=True), Section("", end)]


def _unlike(parts: Sequence[Part | None]) -> list[str]:
    rows = [row for part in parts if isinstance(part, Table) for row in part.rows]
    return [f"{row.condition}: {row.effect}" for row in rows]


def with_comparison(comparison: Comparison, report: Report, max_chars: int) -> str:
    """What changed, and below it the report of B folded, as Markdown of at most `max_chars`
    characters where the comparison's answer allows it."""
    changed = ComparisonPage(comparison).printed.markdown(max_chars)
    room = max_chars - len(changed) - len(FOLDED.format(""))
    return (
        changed if room < LEAST_REPORT else changed + FOLDED.format(render_markdown(report, room))
    )


@dataclass(frozen=True)
class RunRow:
    """A run against the first."""

    run: str = metric("where it was read from")
    step_ms: float = metric("its step, without the profiler where both sides have that")
    change: str = metric("that against the first run's")
    speedup: float | None = metric(
        "the first run's step over this one's; null where nothing changed"
    )
    verdict: str = metric(
        "what `compare` says of it; `best` the fastest of those that are faster", text="own"
    )
    largest: str = metric("the largest part of the difference")


@dataclass(frozen=True)
class Several(Result):
    """Comparisons of one run with others, in the order in which they were given."""

    comparisons: Sequence[Comparison]

    @property
    def best(self) -> Comparison | None:
        """The one that makes the step shortest; None where none is faster."""
        return min(
            (one for one in self.comparisons if one.verdict in FASTER), key=_ratio, default=None
        )

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        best = self.best
        base = self.comparisons[0].a.name
        if best is None:
            return f"None of {len(self.comparisons)} runs is faster than {base}."
        times = f"{1.0 / _ratio(best):.2f} times as fast as {base}"
        return f"{best.b.name} is {times}, the best of {len(self.comparisons)}."

    @property
    def rows(self) -> list[RunRow]:
        """The first run, then the others."""
        first = self.comparisons[0]
        base = RunRow(first.a.name, _times(first)[0], "", None, "the first", "")
        return [base, *(self._row(one) for one in self.comparisons)]

    def _row(self, comparison: Comparison) -> RunRow:
        changes = comparison.judged.changes
        largest = changes[0] if changes else None
        changed = comparison.verdict not in ("no_change", "not_comparable")
        verdict = comparison.verdict.replace("_", " ").replace("not comparable", "cannot tell")
        return RunRow(
            run=comparison.b.name,
            step_ms=_times(comparison)[1],
            change=signed_share(_ratio(comparison) - 1.0),
            speedup=1.0 / _ratio(comparison) if changed else None,
            verdict=f"{verdict}, best" if comparison is self.best else verdict,
            largest=f"{largest.title} ({signed_ms(largest.difference_ms)})"
            if largest and changed
            else "",
        )

    @property
    def printed(self) -> Printed:
        """The table, and where there is room why each is what it is."""
        answer = Verdict(self.headline)
        best = self.best
        rows = PrintedRows("runs", self.rows, RunRow)
        screen = Document(
            self.headline, [Section(TITLE, [answer, "", Table(rows.rows)], untitled=True)]
        )
        whys = Section(
            "Each in a sentence", [f"{one.b.name}: {one.headline}" for one in self.comparisons]
        )
        runs = Section(TITLE, [answer, "", Table(rows.rows)])
        document = Document(self.headline, [runs, whys])
        values = {
            "headline": self.headline,
            "best": best and best.b.name,
            "comparisons": list(self.comparisons),
        }
        return Printed(document, values, rows, screen=screen)


def _times(comparison: Comparison) -> tuple[float, float]:
    """The step of both by which they are judged."""
    if (
        comparison.basis == "unprofiled"
        and comparison.a.unprofiled_step_ms
        and comparison.b.unprofiled_step_ms
    ):
        return comparison.a.unprofiled_step_ms, comparison.b.unprofiled_step_ms
    return comparison.a.step_ms, comparison.b.step_ms


def _ratio(comparison: Comparison) -> float:
    before, after = _times(comparison)
    return after / before if before else 1.0
