"""The one model of a recording: what a process and its GPUs did, as columnar tables.

Every reader produces a `Trace` and nothing downstream knows which tool made the recording. A
`Trace` is what **one process** recorded (its host threads, its devices), because correlation ids
are only unique within a process; several ranks, or the processes of one nsys export, are a `Run`.

Conventions
- Times are int64 nanoseconds on the recording's own clock; `Trace.epoch_ns` added gives wall-clock time
  comparable between the traces of a run (0 where the recording has no epoch).
- Text is dictionary-coded: an int32 column marked `text=True` indexes `Trace.strings`; -1 is "not recorded".
- Unknown numbers are -1, unknown enumeration values 0. `Trace.collected` tells "not collected" from "none".
- Rows of every table are sorted by start time; `end >= start` always holds."""

# isort: off

from traceanalyzer.trace.circumstances import (
    AllocatorCalls,
    Ceilings,
    Collected,
    Condition,
    Device,
    Health,
    LightRecording,
    Load,
    LoggedPhase,
    PrintedMemory,
    Process,
    ProfilerRow,
    StepAmounts,
    Stopwatch,
    Thread,
    PastedText,
)
from traceanalyzer.trace.events import (
    ApiCalls,
    Collectives,
    CopyKind,
    DeviceOpKind,
    DeviceOps,
    DeviceRanges,
    GpuMetrics,
    GraphEdges,
    HostRanges,
    MemoryEvents,
    MemoryKind,
    OccupancyLimit,
    OverheadKind,
    Overheads,
    RangeDetails,
    RangeKind,
    StepTimings,
    WaitKind,
    Waits,
)
from traceanalyzer.trace.run import Failure, Run, Trace
from traceanalyzer.trace.serving import Percentiles, ServingSummary
from traceanalyzer.trace.table import (
    F64,
    I16,
    I32,
    I64,
    U8,
    Bool,
    Table,
    constant_column,
    column,
    distinct,
    is_constant,
    is_sorted,
    narrowed,
    near,
    order_of,
    ordered,
    distinct_places,
    reordered,
)

# isort: on

__all__ = [
    "F64",
    "I16",
    "I32",
    "I64",
    "U8",
    "AllocatorCalls",
    "ApiCalls",
    "Bool",
    "Ceilings",
    "Collected",
    "Collectives",
    "Condition",
    "CopyKind",
    "Device",
    "DeviceOpKind",
    "DeviceOps",
    "DeviceRanges",
    "Failure",
    "GpuMetrics",
    "GraphEdges",
    "Health",
    "HostRanges",
    "LightRecording",
    "Load",
    "LoggedPhase",
    "MemoryEvents",
    "MemoryKind",
    "OccupancyLimit",
    "OverheadKind",
    "Overheads",
    "PastedText",
    "Percentiles",
    "PrintedMemory",
    "Process",
    "ProfilerRow",
    "RangeDetails",
    "RangeKind",
    "Run",
    "ServingSummary",
    "StepAmounts",
    "StepTimings",
    "Stopwatch",
    "Table",
    "Thread",
    "Trace",
    "WaitKind",
    "Waits",
    "column",
    "constant_column",
    "distinct",
    "distinct_places",
    "is_constant",
    "is_sorted",
    "narrowed",
    "near",
    "order_of",
    "ordered",
    "reordered",
]
