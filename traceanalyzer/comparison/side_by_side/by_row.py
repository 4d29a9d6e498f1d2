"""Rows of the tables of two reports: operators, modules and kernels by how often they run and how
long a call takes, batches of servers, and what training came to step by step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

import numpy as np

from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.analysis.tables.timing import NEIGHBOURS_SIGMA
from traceanalyzer.base import dataclass, metric, signed_share
from traceanalyzer.comparison.noise import RUN_NOISE_SHARE
from traceanalyzer.report.format import figure
from traceanalyzer.report.model import TOP_ROWS, Report

TIMES = {"ops": "device_self_ms", "modules": "device_ms", "kernels": "total_ms"}
"""Tables, and the column of device time that is compared."""
NEEDED = {"ops": "ops", "modules": "stacks", "kernels": "device"}
"""What has to be collected for a table to be of all that ran."""
STEP_MARK = "ProfilerStep"  # a mark of the whole step is no operator
SHOWN = 15
OUTCOMES = {
    "loss": ("Loss", ""),
    "grad_norm": ("Gradient norm", ""),
    "peak_memory_bytes": ("Peak memory", "bytes"),
}
"""Columns of the table of steps, with what they go by and their unit: more is worse."""
SIGMAS = 2.0
LEAST_STEPS = 4  # of both: fewer show no spread
LEAST_SHARE = 0.001  # differences below this share of the step are not worth a row


@dataclass(frozen=True)
class RowChange:
    """Device time of one operator, module or kernel in a step of both."""

    name: str = metric("operator, module or kernel")
    calls: str = metric("calls a step in A and B, and the device time of each")
    a_ms: float = metric("device time of A's mean step")
    b_ms: float = metric("device time of B's mean step")
    difference_ms: float = metric("B less A")
    by_time_ms: float = metric(
        "of that, what longer or shorter calls account for; the rest are more or fewer"
    )


class KernelChange(RowChange):
    """That of a kernel, which goes by its label where its name has no room."""

    @property
    def full_name(self) -> str:
        """Its name."""
        return self.name


ROWS_OF: Mapping[str, type[RowChange]] = {"kernels": KernelChange}
"""Rows of tables that have rows of their own."""


def rows_between(a: Report, b: Report, step_ms: float) -> dict[str, list[RowChange]]:
    """What changed in each table, the largest difference first."""
    both = [table for table in TIMES if _sums(table, a) and _sums(table, b)]
    # what one of the two did not record is not what it did not do
    found = ((table, _changes(table, a, b, LEAST_SHARE * step_ms)) for table in both)
    return {table: rows for table, rows in found if rows}


def _changes(table: str, a: Report, b: Report, least_ms: float) -> list[RowChange]:
    of_a = _sums(table, a)
    of_b = _sums(table, b)
    row = ROWS_OF.get(table, RowChange)
    rows = []
    for name in dict.fromkeys((*of_a, *of_b)):
        if (name not in of_a and _is_cut(table, a)) or (name not in of_b and _is_cut(table, b)):
            continue  # it may be below the rows that the other report has
        before = of_a.get(name, CallTime())
        after = of_b.get(name, CallTime())
        difference_ms = after.ms - before.ms
        if abs(difference_ms) < least_ms or not difference_ms:
            continue
        by_calls_ms = difference_ms
        if before.calls and after.calls:
            by_calls_ms = (after.calls - before.calls) * before.ms / before.calls
        rows.append(
            row(
                name=name,
                calls=f"{before} → {after}",
                a_ms=before.ms,
                b_ms=after.ms,
                difference_ms=difference_ms,
                by_time_ms=difference_ms - by_calls_ms,
            )
        )
    return sorted(rows, key=lambda row: -abs(row.difference_ms))


def _is_cut(table: str, report: Report) -> bool:
    """Whether the table may have more rows than the report lists."""
    return len(report.tables.get(table, [])) >= TOP_ROWS


@dataclass(frozen=True)
class CallTime:
    """Calls and device time of a step."""

    calls: float = 0.0
    ms: float = 0.0

    def __str__(self) -> str:
        """How many, and how long each."""
        return f"{self.calls:,.4g} x {figure(self.ms / self.calls, 'ms')}" if self.calls else "none"


def _sums(table: str, report: Report) -> dict[str, CallTime]:
    """Calls and device time of a step by name."""
    found: dict[str, CallTime] = {}
    collected = {name for item in report.inputs for name in item.collected or NEEDED.values()}
    if NEEDED.get(table, "device") not in collected:
        return found
    steps = {row.name for row in report.tables.get("steps", [])}
    for row in report.tables.get(table, []):
        if row.name in steps or row.name.startswith(STEP_MARK):
            continue
        sums = found.get(row.name, CallTime())
        ms = sums.ms + getattr(row, TIMES[table])
        found[row.name] = CallTime(sums.calls + row.calls, ms)
    return found


@dataclass(frozen=True)
class BatchChange:
    """Iterations of one phase and batch in both, medians."""

    phase: str = metric("prefill, decode, mixed or verify", text="own")
    requests: int = metric("requests of the batch")
    a_ms: float | None = metric("time of an iteration in A, from the end of the one before")
    b_ms: float | None = metric("the same in B")
    a_busy_ms: float | None = metric("GPU busy in A")
    b_busy_ms: float | None = metric("GPU busy in B")
    a_gap_ms: float | None = metric("GPU idle behind it in A")
    b_gap_ms: float | None = metric("GPU idle behind it in B")
    a_ops: float | None = metric("kernels, copies and memsets in A")
    b_ops: float | None = metric("kernels, copies and memsets in B")
    a_launches: float | None = metric("launches in A, a graph is one")
    b_launches: float | None = metric("launches in B, a graph is one")
    a_launch_us: float | None = metric("CPU time of its mark for each launch in A")
    b_launch_us: float | None = metric("CPU time of its mark for each launch in B")


def batch_changes(a: Sequence[IterationRow], b: Sequence[IterationRow]) -> list[BatchChange]:
    """The batches that both have, by phase, then size."""
    sides = _by_batch(a), _by_batch(b)
    columns = (
        _time,
        lambda r: r.gpu_busy_ms,
        lambda r: r.gap_ms,
        lambda r: r.gpu_ops,
        _launches,
        _launch_us,
    )
    return [
        BatchChange(*batch, *(_median(side[batch], of) for of in columns for side in sides))
        for batch in sorted(sides[0].keys() & sides[1].keys())
    ]


def _by_batch(rows: Sequence[IterationRow]) -> dict[tuple[str, int], list[IterationRow]]:
    found: dict[tuple[str, int], list[IterationRow]] = {}
    for row in rows:
        if row.phase and row.requests and row.gpu_ops:
            found.setdefault((row.phase, row.requests), []).append(row)
    return found


def _time(row: IterationRow) -> float | None:
    return row.gpu_span_ms if row.period_ms is None else row.period_ms


def _launches(row: IterationRow) -> int:
    return (row.launches or 0) + (row.graph_launches or 0)


def _launch_us(row: IterationRow) -> float | None:
    return 1e3 * row.host_ms / _launches(row) if row.host_ms and _launches(row) else None


def _median(
    rows: list[IterationRow], value_of: Callable[[IterationRow], float | None]
) -> float | None:
    known = [value for value in map(value_of, rows) if value is not None]
    return float(np.median(known)) if known else None


@dataclass(frozen=True)
class Outcome:
    """A figure that more is worse of, over the later half of the steps that both logged."""

    name: str = metric("loss, grad_norm or peak_memory_bytes", text="own")
    a: float = metric("median in A over the later half of the steps that both have")
    b: float = metric("median in B")
    change_share: float = metric("change from A to B")
    spread_share: float = metric("what it varies by from step to step, the larger of both")
    worse: bool = metric("whether it rose by more than steps vary and runs differ")

    @property
    def sentence(self) -> str:
        """The change in words."""
        words, unit = OUTCOMES[self.name]
        return (
            f"{words} is worse: {figure(self.a, unit)} → {figure(self.b, unit)} "
            f"({signed_share(self.change_share)}; steps vary by {self.spread_share:.1%})."
        )


def outcomes_between(a: Report, b: Report) -> list[Outcome]:
    """The figures that both logged in enough of the same steps."""
    return [outcome for name in OUTCOMES for outcome in _outcome(name, a, b)]


def _outcome(name: str, a: Report, b: Report) -> Iterator[Outcome]:
    of_a = _figures_by_step(name, a)
    of_b = _figures_by_step(name, b)
    shared = [step for step in of_a if step in of_b]
    if len(shared) < LEAST_STEPS:
        if name == "loss":
            yield from _loss_of_logs(a, b)
        return
    later = shared[len(shared) // 2 :]
    before = median(of_a[step] for step in later)
    after = median(of_b[step] for step in later)
    if before <= 0:  # a share of nothing, or of less, says nothing
        return
    change = after / before - 1.0
    spread = max(_step_spread([side[step] for step in shared]) for side in (of_a, of_b))
    yield Outcome(
        name=name,
        a=before,
        b=after,
        change_share=change,
        spread_share=spread,
        worse=change > max(RUN_NOISE_SHARE, SIGMAS * spread),
    )


def _loss_of_logs(a: Report, b: Report) -> Iterator[Outcome]:
    """The loss over the later half of both logs, where these are as long: beside recordings, whose
    few steps are not enough."""
    before = a.metrics.timing
    after = b.metrics.timing
    if before is None or after is None or before.steps != after.steps:
        return
    if not before.loss or before.loss < 0 or after.loss is None:
        return
    change = after.loss / before.loss - 1.0
    spread = max(before.loss_spread_share or 0.0, after.loss_spread_share or 0.0)
    yield Outcome(
        name="loss",
        a=before.loss,
        b=after.loss,
        change_share=change,
        spread_share=spread,
        worse=change > max(RUN_NOISE_SHARE, SIGMAS * spread),
    )


def _figures_by_step(name: str, report: Report) -> dict[str, float]:
    """The figure of each step by its name, where a log says it."""
    found: dict[str, float] = {}
    for row in report.tables.get("steps", []):
        value = getattr(row, name, None)
        if value is not None:
            found[row.name] = float(value)
    return found


def _step_spread(values: Sequence[float]) -> float:
    """Standard deviation of a step's figure, a share of the median."""
    middle = median(values)
    apart = [abs(after - before) for before, after in pairwise(values)]
    return NEIGHBOURS_SIGMA * median(apart) / middle if middle > 0 else 0.0
