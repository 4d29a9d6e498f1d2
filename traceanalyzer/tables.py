"""The tables there are: one list, which the report, the commands, the schemas, the page and the documentation read.

A new table is a measurement in a file of `analysis/tables/`, a line here, and its help in `cli/table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.algebra.ordering import largest
from traceanalyzer.analysis.causes.gaps import GapSide
from traceanalyzer.analysis.memory.site import Site
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.ranks.point_to_point import TrafficRow, traffic
from traceanalyzer.analysis.ranks.skew import CollectiveSkew
from traceanalyzer.analysis.tables.budget import StepRow
from traceanalyzer.analysis.tables.collectives import CollectiveStats
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.analysis.tables.counter_rows import CounterStats
from traceanalyzer.analysis.tables.gap_places import GapPlaceRow
from traceanalyzer.analysis.tables.gap_rows import GapHistogramRow, GapRow, gap_rows
from traceanalyzer.analysis.tables.kernels import ClassStats, KernelStats
from traceanalyzer.analysis.tables.modules import ModuleStats
from traceanalyzer.analysis.tables.op_memory import OpMemory
from traceanalyzer.analysis.tables.ops import OpStats
from traceanalyzer.analysis.tables.path_rows import PathRow
from traceanalyzer.analysis.tables.phases import PhaseStats
from traceanalyzer.analysis.tables.profiled import ProfiledRow
from traceanalyzer.analysis.tables.range_rows import RangeRow
from traceanalyzer.analysis.tables.shape_rows import ShapeRow
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.frozen import dataclass
from traceanalyzer.selection import Measured, measured
from traceanalyzer.trace import Condition, Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.selection import Knowledge, Selection
    from traceanalyzer.trace import Run


@dataclass(frozen=True)
class Wanted:
    """Which rows of a table are wanted."""

    top: int | None = None
    """The first rows, of single events the longest; None: all."""
    min_us: float = 0.0
    """Gaps of at least this length."""
    by_shape: bool = False
    """Operators by name and input shapes, instead of by name."""


ALL = Wanted()


@dataclass(frozen=True)
class Table:
    """A table of measurements."""

    name: str
    """Its key in the report's `tables` and in documents."""
    title: str
    row: type[Any]
    """The dataclass of its rows: its columns, also where there are no rows."""
    rows: Callable[[Measured, Measurements, Wanted], list[Any]]
    """Its rows for one rank of a measured run; more than are wanted do no harm."""
    none: str
    """What is said where it has no rows."""
    command: str | None = None
    """The command that prints all of it."""
    long: bool = False
    """Whether a report has its first rows only."""
    of_every_rank: bool = False
    """Whether the command shows all ranks unless one is asked for; else the critical rank's."""
    totals: str | None = None
    """The table that sums it up, which people are shown below its rows."""
    events: str | None = None
    """The column by which its rows, single events in time order, are longest; None: rows are in order of worth."""


def _gaps(_: Measured, m: Measurements, wanted: Wanted) -> list[GapRow]:
    gaps, steps = m.gaps, m.steps
    # Of the longest ones those are listed, too, that a step begins or ends with: they are part of its idle time.
    listed = (gaps.side == GapSide.INSIDE) | ((wanted.top is not None) & steps.found & (gaps.step >= 0))
    chosen = listed & (gaps.duration >= wanted.min_us * 1e3)
    if m.only_step is not None:
        chosen &= (gaps.end > steps.start[0]) & (gaps.start < steps.end[-1])
    index = np.flatnonzero(chosen)
    if wanted.top is not None:
        index = np.sort(index[largest(gaps.duration[index], wanted.top)])
    return gap_rows(m, gaps, index)


TABLES = (
    Table("ranks", "Ranks", RankRow, lambda of, _, __: list(of.ranks.rows) if len(of.ranks.rows) > 1 else [],
          "One rank was recorded."),
    Table("steps", "Steps", StepRow, lambda _, m, __: m.step_rows if m.steps.found else [],
          "No steps in this recording.", "steps", of_every_rank=True, events="duration_ms"),
    Table("critical_path", "What carries the critical path", PathRow, lambda _, m, __: m.path,
          "No device work in this recording: it has no critical path.", "path", long=True),
    Table("phases", "Phases of the step", PhaseStats, lambda _, m, __: m.phase_rows,
          "No phases in this recording: neither annotations nor autograd tell them.", "phases"),
    Table("modules", "Modules of the model", ModuleStats, lambda _, m, __: m.modules,
          "No calls of modules in this recording: record stacks (collect torch --stacks), or annotate the modules.",
          "modules", long=True),
    Table("gaps", "Longest idle gaps", GapRow, _gaps, "The GPU has no idle gap of that length in this recording.",
          "gaps", long=True, of_every_rank=True, events="duration_ns", totals="gap_places"),
    Table("gap_places", "Idle time by place", GapPlaceRow, lambda _, m, __: m.gap_places,
          "The GPU has no idle gap in the steps of this recording.", long=True),
    Table("gap_histogram", "Idle gaps by length", GapHistogramRow, lambda _, m, __: m.gap_histogram,
          "The GPU has no idle gap in this recording."),
    Table("syncs", "Waits for the device", SyncRow, lambda _, m, __: m.syncs,
          "The CPU never blocks on the GPU in this recording.", "syncs", long=True, of_every_rank=True),
    Table("kernel_classes", "Device time by kind of work", ClassStats, lambda _, m, __: m.class_rows,
          "No kernels in this recording."),
    Table("kernels", "Kernels by device time", KernelStats, lambda _, m, __: m.kernels,
          "No kernels in this recording.", "kernels", long=True),
    Table("ops", "Operators", OpStats, lambda _, m, wanted: m.ops_by_shape if wanted.by_shape else m.ops,
          "No operators in this recording.", "ops", long=True),
    Table("shapes", "Operators whose shapes change from step to step", ShapeRow, lambda _, m, __: m.shape_rows,
          "Every step has the same shapes, or none were recorded (record_shapes=True).", "shapes", long=True),
    Table("counters", "Sampled counters of the GPU", CounterStats, lambda _, m, __: m.counter_rows,
          "No counters were sampled (nsys profile --gpu-metrics-devices=all does).", "counters"),
    Table("profiled", "The profiler's table", ProfiledRow, lambda _, m, __: m.profiled.rows if m.profiled else [],
          "The recording is no printed table of sums.", long=True),
    Table("copies", "Memory copies", CopyStats, lambda _, m, __: m.copies,
          "No memory copies in this recording.", "copies"),
    Table("memory", "GPU memory at its peak, by line", Site,
          lambda _, m, __: [site for device in m.memory_of_devices for site in device.sites],
          "No memory snapshot in this recording.", long=True),
    Table("op_memory", "Operators by GPU memory", OpMemory, lambda _, m, __: m.op_memory,
          "No allocator events in this recording.", long=True),
    Table("collectives", "Collectives", CollectiveStats, lambda _, m, __: m.collectives,
          "No collectives in this recording.", "comm"),
    Table("skew", "Collectives across ranks: transfer and waiting", CollectiveSkew,
          lambda of, _, __: list(of.ranks.collectives), "No collectives that several recorded ranks share."),
    Table("traffic", "Traffic between ranks", TrafficRow, lambda of, _, __: traffic(of.each),
          "No send or receive that says its peer in this recording."),
    Table("nvtx", "NVTX ranges by domain and category", RangeRow, lambda _, m, __: m.range_rows,
          "No NVTX range has a domain, a category or a payload.", long=True),
    Table("load", "Load while the program ran", Load, lambda _, m, __: list(m.trace.loads),
          "No load was sampled (collect --nvml SECONDS does)."),
    Table("conditions", "Conditions of the recording", Condition, lambda _, m, __: m.conditions,
          "No conditions were recorded."),
)  # fmt: skip
"""Every table, in the report's order."""

BY_NAME = {table.name: table for table in TABLES}
BY_COMMAND = {table.command: table for table in TABLES if table.command}


def named(name: str) -> Table:
    """The table of that name, or that the command of that name prints. Raises ValueError, naming what there is."""
    table = BY_COMMAND.get(name) or BY_NAME.get(name)
    if table is None:
        raise ValueError(
            f"there is no table {name!r}; tables: {', '.join([*BY_COMMAND, *(set(BY_NAME) - _COMMANDED)])}"
        )
    return table


_COMMANDED = {table.name for table in BY_COMMAND.values()}


def table(
    run: Run,
    name: str,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    wanted: Wanted = ALL,
) -> list[Any]:
    """Rows of a table, given by its name or its command's. Single events come in time order.

    Raises EmptyRecordingError, naming what there is, for a rank, device or step that the recording does not have;
    ValueError for a table that there is not.
    """
    return rows_of(measured(run, selection, knowledge), name, wanted)


def rows_of(of: Measured, name: str, wanted: Wanted) -> list[Any]:
    """Rows of a table of what was measured, as `table` has them."""
    made = named(name)
    speaking = of.each if made.of_every_rank else [of.critical]
    rows = [row for m in speaking for row in made.rows(of, m, wanted)]
    if made.name == "gaps":
        rows.sort(key=lambda row: row.start_ns)
    return longest(rows, made.events, wanted.top) if made.events else rows[: wanted.top]


def longest(rows: list[Any], column: str, top: int | None) -> list[Any]:
    """The `top` rows that are largest in a column, in the order in which they come."""
    if top is None or len(rows) <= top:
        return rows
    kept = sorted(range(len(rows)), key=lambda i: -getattr(rows[i], column))[:top]
    return [rows[i] for i in sorted(kept)]


def report_tables(of: Measured, top: int) -> dict[str, list[Any]]:
    """The tables of a report, of the critical rank: of long ones the first `top` rows, of gaps the longest first."""
    tables = {one.name: one.rows(of, of.critical, Wanted(top)) for one in TABLES}
    tables["gaps"].sort(key=lambda row: -row.duration_ns)
    return first_rows(tables, top)


def first_rows(tables: dict[str, list[Any]], top: int) -> dict[str, list[Any]]:
    """The tables of a report with `top` rows of the long ones."""
    return {name: rows[:top] if BY_NAME[name].long else rows for name, rows in tables.items()}


def __getattr__(name: str) -> Any:
    """`predictions`, for programs that import it from here; it needs the advice, which no table does."""
    if name != "predictions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from traceanalyzer.diagnosis.predictions import predictions

    return predictions
