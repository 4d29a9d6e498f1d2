"""Several runs against the first one, as a table with the best marked."""

from collections.abc import Sequence

from traceanalyzer.base import dataclass, metric
from traceanalyzer.comparison.model import Comparison
from traceanalyzer.report.document import Document, Section, Table, Verdict
from traceanalyzer.report.printed import Printed, Result, Rows

FASTER = ("faster", "likely_faster")
TITLE = "Comparison of runs"


@dataclass(frozen=True)
class RunRow:
    """A run against the first."""

    run: str = metric("where it was read from")
    step_ms: float = metric("its step, without the profiler where both sides have that")
    change: str = metric("that against the first run's")
    speedup: float | None = metric("the first run's step over this one's; null where nothing changed")
    verdict: str = metric("what `compare` says of it; `best` the fastest of those that are faster", text="own")
    largest: str = metric("the largest part of the difference")


@dataclass(frozen=True)
class Several(Result):
    """Comparisons of one run with others, in the order in which they were given."""

    comparisons: Sequence[Comparison]

    @property
    def best(self) -> Comparison | None:
        """The one that makes the step shortest; None where none is faster."""
        faster = [one for one in self.comparisons if one.verdict in FASTER]
        return min(faster, key=_ratio, default=None)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        best, base = self.best, self.comparisons[0].a.name
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

    def _row(self, one: Comparison) -> RunRow:
        largest = one.changes[0] if one.changes else None
        changed = one.verdict not in ("no_change", "not_comparable")
        verdict = one.verdict.replace("_", " ").replace("not comparable", "cannot tell")
        return RunRow(
            run=one.b.name, step_ms=_times(one)[1], change=f"{_ratio(one) - 1.0:+.1%}",
            speedup=1.0 / _ratio(one) if changed else None, verdict=f"{verdict}, best" if one is self.best else verdict,
            largest=f"{largest.title} ({largest.difference_ms:+.3g} ms)" if largest and changed else "",
        )  # fmt: skip

    @property
    def printed(self) -> Printed:
        """The table, and where there is room why each is what it is."""
        answer, best, rows = Verdict(self.headline), self.best, Rows("runs", self.rows, RunRow)
        screen = Document(self.headline, [Section(TITLE, [answer, "", Table(rows.rows)], untitled=True)])
        whys = Section("Each in a sentence", [f"{one.b.name}: {one.headline}" for one in self.comparisons])
        whole = Document(self.headline, [Section(TITLE, [answer, "", Table(rows.rows)]), whys])
        values = {"headline": self.headline, "best": best and best.b.name, "comparisons": list(self.comparisons)}
        return Printed(whole, values, rows, screen=screen)


def _times(one: Comparison) -> tuple[float, float]:
    """The step of both by which they are judged."""
    if one.basis == "unprofiled" and one.a.unprofiled_step_ms and one.b.unprofiled_step_ms:
        return one.a.unprofiled_step_ms, one.b.unprofiled_step_ms
    return one.a.step_ms, one.b.step_ms


def _ratio(one: Comparison) -> float:
    before, after = _times(one)
    return after / before if before else 1.0
