"""The single tables people ask for, as rows of the analysis dataclasses; the commands and notebooks use these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.causes.gaps import GapSide
from traceanalyzer.analysis.replay.scenarios import buckets_of, faster
from traceanalyzer.analysis.tables.budget import StepRow
from traceanalyzer.analysis.tables.collectives import CollectiveStats
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.analysis.tables.gap_rows import GapRow, gap_rows
from traceanalyzer.analysis.tables.kernels import KernelStats
from traceanalyzer.analysis.tables.ops import OpStats
from traceanalyzer.analysis.tables.path_rows import PathRow
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.diagnosis.remedies.advice import advise
from traceanalyzer.errors import EmptyRecordingError
from traceanalyzer.selection import measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.replay.whatif import WhatIf
    from traceanalyzer.selection import Knowledge, Selection
    from traceanalyzer.trace import Run

OF_EVERY_RANK = ("gaps", "steps", "syncs")
"""Tables that show all ranks unless one is asked for; the others speak of the critical rank."""

TABLES: dict[str, tuple[type[Any], Callable[[Measurements], list[Any]]]] = {
    "ops": (OpStats, lambda m: m.ops),
    "kernels": (KernelStats, lambda m: m.kernels),
    "steps": (StepRow, lambda m: m.step_rows),
    "syncs": (SyncRow, lambda m: m.syncs),
    "path": (PathRow, lambda m: m.path),
    "copies": (CopyStats, lambda m: m.copies),
    "comm": (CollectiveStats, lambda m: m.collectives),
}
"""Row type and measurement of each table but `gaps`, which has options of its own."""


def row_type(name: str) -> type[Any]:
    """The dataclass whose instances are the rows of a table: its columns, also where there are no rows."""
    return GapRow if name == "gaps" else TABLES[name][0]


def table(
    run: Run,
    name: str,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    top: int | None = None,
    min_us: float = 0.0,
) -> list[Any]:
    """Rows of one table: `gaps` or a key of `TABLES`.

    `top` keeps the first rows (of gaps the longest); `min_us` leaves out shorter gaps. Raises EmptyRecordingError,
    naming what there is, for a rank, device or step that the recording does not have.
    """
    of = measured(run, selection, knowledge)
    speaking = of.each if name in OF_EVERY_RANK else [of.critical]
    if name == "gaps":
        return _gaps(speaking, top, min_us)
    rows = [row for m in speaking for row in TABLES[name][1](m)]
    return rows[:top]


def _gaps(speaking: list[Measurements], top: int | None, min_us: float) -> list[Any]:
    rows = []
    for m in speaking:
        gaps, steps = m.gaps, m.steps
        chosen = (gaps.side == GapSide.INSIDE) & (gaps.duration >= min_us * 1e3)
        if m.only_step is not None:
            chosen &= (gaps.end > steps.start[0]) & (gaps.start < steps.end[-1])
        index = np.flatnonzero(chosen)
        if top is not None:
            index = np.sort(index[np.argsort(-gaps.duration[index], kind="stable")[:top]])
        rows += gap_rows(m, gaps, index)
    rows.sort(key=lambda row: row.start_ns)
    if top is not None:
        rows = sorted(sorted(rows, key=lambda row: -row.duration_ns)[:top], key=lambda row: row.start_ns)
    return rows


def predictions(
    run: Run,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    speedups: Sequence[tuple[str, float]] = (),
    bucket_mb: Sequence[float] = (),
) -> WhatIf:
    """What the step of a rank (the critical one unless one is asked for) would take under each scenario.

    `speedups` are pairs of a regular expression and a factor: the device work that matching names stand for becomes
    that many times faster; `bucket_mb` are sizes of gradient buckets. Raises EmptyRecordingError where the recording
    has no steps, launches or device work to replay.
    """
    m = measured(run, selection, knowledge).critical
    if m.replay is None:
        raise EmptyRecordingError(
            f"{m.trace.path}: nothing to replay: it needs steps, API calls and device work; "
            "record some steps with CPU and CUDA activities"
        )
    more = [*(one.offer.scenario for one in advise(m)), *(faster(name, factor) for name, factor in speedups)]
    return m.replay.what_if([*more, *(buckets_of(size) for size in bucket_mb)])
