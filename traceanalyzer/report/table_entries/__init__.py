"""The tables there are: one list, which the report, the commands, the schemas, the page and the
documentation read.

An entry names the class of its rows, so that `--help` lists the commands before anything that
measures is loaded."""

from collections.abc import Sequence
from typing import Any

from traceanalyzer.report.table_entries import rows
from traceanalyzer.report.table_entries.kinds import TableEntry

TABLES = (
    TableEntry(
        "ranks",
        "Ranks",
        "analysis.ranks.compare.RankRow",
        lambda of, _, __: rows.ranks(of),
        "One rank was recorded.",
        of_the_run=True,
    ),
    TableEntry(
        "steps",
        "Steps",
        "analysis.tables.budget.StepRow",
        lambda _, m, __: m.step_rows if m.timed.steps.found else [],
        "No steps in this recording.",
        of_every_rank=True,
        events="duration_ms",
        is_origin=True,
        command="steps",
    ),
    TableEntry(
        "iterations",
        "Iterations of the serving engine",
        "analysis.serving.rows.IterationRow",
        lambda _, m, __: m.iterations,
        "Nothing marks the iterations of a serving engine here: their unit is unknown. --iteration-name REGEX names "
        "the ranges that are one iteration each.",
        long=True,
        summary=rows.serving,
        command="iterations",
    ),
    TableEntry(
        "serving",
        "The server under load",
        "analysis.serving.figures.ServingFigure",
        rows.load_of_server,
        "Neither the summary of a benchmark nor a server's log that says its load (how many requests run and wait). "
        "`show iterations` has the iterations of a log.",
        command="serving",
        only_with_rows=True,
        comes_whole=True,
    ),
    TableEntry(
        "critical_path",
        "What carries the critical path",
        "analysis.tables.path_rows.PathRow",
        lambda _, m, __: m.path,
        "No device work in this recording: it has no critical path.",
        long=True,
        command="path",
    ),
    TableEntry(
        "phases",
        "Phases of the step",
        "analysis.tables.phases.PhaseStats",
        lambda _, m, __: m.phase_rows,
        "No phases in this recording: neither annotations nor autograd tell them.",
        command="phases",
    ),
    TableEntry(
        "modules",
        "Modules of the model",
        "analysis.tables.modules.ModuleStats",
        lambda _, m, __: m.modules,
        (
            "No calls of modules in this recording: collect torch names them; so do stacks "
            "and annotations."
        ),
        long=True,
        command="modules",
    ),
    TableEntry(
        "gaps",
        "Longest idle gaps",
        "analysis.tables.gap_rows.GapRow",
        rows.gaps,
        "The GPU has no idle gap of that length in this recording.",
        long=True,
        of_every_rank=True,
        events="duration_ns",
        totals="gap_places",
        command="gaps",
    ),
    TableEntry(
        "gap_places",
        "Idle time by place",
        "analysis.tables.gap_rows.GapPlaceRow",
        rows.places_of_gaps,
        "The GPU has no idle gap in the steps of this recording.",
        long=True,
        of_every_rank=True,
    ),
    TableEntry(
        "gap_histogram",
        "Idle gaps by length",
        "analysis.tables.gap_rows.GapHistogramRow",
        lambda _, m, __: m.gap_histogram,
        "The GPU has no idle gap in this recording.",
    ),
    TableEntry(
        "syncs",
        "Waits for the device",
        "analysis.tables.syncs.SyncRow",
        lambda _, m, __: m.syncs,
        "The CPU never blocks on the GPU in this recording.",
        long=True,
        of_every_rank=True,
        summary=rows.allocating,
        command="syncs",
    ),
    TableEntry(
        "kernel_classes",
        "Device time by kind of work",
        "analysis.tables.kernels.ClassStats",
        lambda _, m, __: m.class_rows,
        "No kernels in this recording.",
    ),
    TableEntry(
        "kernels",
        "Kernels by device time",
        "analysis.tables.kernels.KernelStats",
        lambda _, m, __: m.kernels,
        "No kernels in this recording.",
        long=True,
        command="kernels",
    ),
    TableEntry(
        "ops",
        "Operators",
        "analysis.tables.ops.OpStats",
        lambda _, m, wanted: m.ops_by_shape if wanted.by_shape else m.ops,
        "No operators in this recording.",
        long=True,
        command="ops",
        people_by="device_self_ms",
        remark="device self adds up to all device time; rows of device total overlap.",
    ),
    TableEntry(
        "shapes",
        "Operators whose shapes change from step to step",
        "analysis.tables.shape_rows.ShapeRow",
        lambda _, m, __: m.shape_rows,
        "Every step has the same shapes, or none were recorded (record_shapes=True).",
        long=True,
        command="shapes",
    ),
    TableEntry(
        "counters",
        "Sampled counters of the GPU",
        "analysis.tables.devices.CounterStats",
        lambda _, m, __: m.counter_rows,
        "No counters were sampled (nsys profile --gpu-metrics-devices=all does).",
        command="counters",
    ),
    TableEntry(
        "profiled",
        "The profiler's table",
        "analysis.tables.profiled.ProfiledRow",
        lambda _, m, __: m.profiled.rows if m.profiled else [],
        "The recording is no printed table of sums.",
        long=True,
    ),
    TableEntry(
        "copies",
        "Memory copies",
        "analysis.tables.copies.CopyStats",
        lambda _, m, __: m.copies,
        "No memory copies in this recording.",
        command="copies",
    ),
    TableEntry(
        "memory",
        "GPU memory at its peak, by line",
        "analysis.memory.measure.Site",
        lambda _, m, __: [site for device in m.memory_of_devices for site in device.sites],
        "No memory snapshot in this recording.",
        long=True,
    ),
    TableEntry(
        "op_memory",
        "Operators by GPU memory",
        "analysis.tables.op_memory.OpMemory",
        lambda _, m, __: m.op_memory,
        "No allocator events in this recording.",
        long=True,
    ),
    TableEntry(
        "collectives",
        "Collectives",
        "analysis.tables.collectives.CollectiveStats",
        lambda _, m, __: m.collectives,
        "No collectives in this recording.",
        of_every_rank=True,
        command="comm",
    ),
    TableEntry(
        "skew",
        "Collectives across ranks: transfer and waiting",
        "analysis.ranks.skew.CollectiveSkew",
        lambda of, _, __: list(of.ranks.collectives),
        "No collectives that several recorded ranks share.",
        of_the_run=True,
    ),
    TableEntry(
        "traffic",
        "Traffic between ranks",
        "analysis.ranks.skew.TrafficRow",
        rows.traffic_rows,
        "No send or receive that says its peer in this recording.",
        of_the_run=True,
    ),
    TableEntry(
        "nvtx",
        "NVTX ranges by domain and category",
        "analysis.tables.modules.RangeRow",
        lambda _, m, __: m.range_rows,
        "No NVTX range has a domain, a category or a payload.",
        long=True,
    ),
    TableEntry(
        "load",
        "Load while the program ran",
        "trace.circumstances.Load",
        lambda _, m, __: list(m.trace.loads),
        "No load was sampled (collect --nvml SECONDS does).",
    ),
    TableEntry(
        "conditions",
        "Conditions of the recording",
        "trace.circumstances.Condition",
        lambda _, m, __: m.conditions,
        "No conditions were recorded.",
    ),
)
"""Every table, in the report's order; those with a command in the order of `--help`."""

BY_NAME = {table.name: table for table in TABLES}
BY_COMMAND = {table.command: table for table in TABLES if table.command}


def table_named(name: str) -> TableEntry:
    """The table of that name, or that the command of that name prints. Raises ValueError, naming
    what there is."""
    table = BY_COMMAND.get(name) or BY_NAME.get(name)
    if table:
        return table
    without_command = [one.name for one in TABLES if one.command is None]
    raise ValueError(
        f"there is no table {name!r}; tables: {', '.join([*BY_COMMAND, *without_command])}"
    )


def places_of_largest(values: Sequence[float], count: int) -> list[int]:
    """Where so many of the largest values stand, in the order in which they come."""
    largest = sorted(range(len(values)), key=lambda i: -values[i])
    return sorted(largest[:count])


def largest_first(rows: Sequence[Any], column: str) -> list[Any]:
    """The rows, largest in a column first; what was not recorded comes last."""

    def key(row: Any) -> tuple[bool, Any]:
        value = getattr(row, column)
        return value is None, -value if isinstance(value, int | float) else str(value)

    return sorted(rows, key=key)
