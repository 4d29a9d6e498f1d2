"""Which API calls made the host wait for the device, by what happened and not by name alone."""

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, at, isin, isin_few, texts_where, union
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import regex
from traceanalyzer.trace import I64, Bool, CopyKind, MemoryKind, RangeKind, distinct
from traceanalyzer.trace.run import TORCH_PROFILER

READS = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
"""Without the read these operators are gone, too."""


HELD_SHARE = 0.5
"""A copy call that lasts through this much of its copy fed it from pageable memory, or waited for
it."""
EVENT_WAIT = regex(r"EventSynchronize")
DEVICE_WAIT = regex(r"(Device|Ctx)Synchronize")
CONVOLVES = regex(
    r"^(aten::\w*conv(?!ert)|torch\.\S*conv(?!ert)|autograd::\S* \w*Convolution|Convolution\w*Backward)"
)
"""Ranges around convolutions."""
RETURN_LATENCY_NS = 50_000
"""A call that ends this soon after the work it waited for has ended returned because of it."""
FREES_AFTER_SHARE = 0.1
"""... and so does one that frees memory and spends at most this share of it afterwards: 25 ms of
waiting before `cudaFree` unmapped a large segment in 0.18 to 0.26 ms, twelve times of twelve."""


def read_ranges(linked: TraceJoins) -> IntervalSet:
    """When the host is in operators that exist only to bring a value to it."""
    ranges = linked.trace.host_ranges
    rows = texts_where(linked.trace.strings, READS.__contains__)[ranges.name] & (
        ranges.kind == RangeKind.OP
    )
    return union(ranges.start[rows], ranges.end[rows])


def blocking_calls(linked: TraceJoins) -> Bool:
    """For each API call whether it waits for device work.

    Synchronising calls always do. Copies do when the call lasts as long as its own copy (pageable
    memory, `cudaMemcpy`), frees and allocations when they begin while earlier work still runs and
    end just after all of it has (a free also where a tenth of it is left then). What the profiler
    itself adds at the end of its window does not count."""
    calls = linked.trace.api_calls
    ops = linked.trace.device_ops
    kind = linked.api_kind
    blocks: Bool = kind == ApiKind.SYNC
    copying = np.flatnonzero(linked.is_copy & (linked.launch >= 0))
    launcher = linked.launch[copying]
    is_copy_call = kind[launcher] == ApiKind.COPY
    beside = np.minimum(calls.end[launcher], ops.end[copying]) - np.maximum(
        calls.start[launcher], ops.start[copying]
    )
    held = (calls.end[launcher] >= ops.end[copying]) | (
        beside >= HELD_SHARE * (ops.end - ops.start)[copying]
    )
    blocks[launcher[is_copy_call & held]] = True
    memory = np.flatnonzero((kind == ApiKind.FREE) | (kind == ApiKind.ALLOCATE))
    drained = linked.drained_at(calls.end[memory])
    after = calls.end[memory] - drained
    spent = (calls.end - calls.start)[memory]
    freed = (kind[memory] == ApiKind.FREE) & (after <= FREES_AFTER_SHARE * spent)
    blocks[memory] = (drained > calls.start[memory]) & ((after < RETURN_LATENCY_NS) | freed)
    blocks[memory] &= drained <= calls.end[memory]
    closing = np.flatnonzero(
        (kind == ApiKind.SYNC) & closing_waits(linked)
    )  # torch.profiler's own: in no range
    blocks[closing[linked.tree.parent[linked.tree.node_of_call[closing]] < 0]] = False
    return blocks


def feeding_calls(linked: TraceJoins) -> Bool:
    """For each API call whether it copies from the host's pageable memory, or stands beside such a
    copy in an operator: what waits there waits until that memory can be written to again, not for
    a result."""
    calls = linked.trace.api_calls
    ops = linked.trace.device_ops
    from_host = ops.copy_kind == CopyKind.HOST_TO_DEVICE
    pageable = from_host & (ops.source_memory == MemoryKind.PAGEABLE) & (linked.launch >= 0)
    result = np.zeros(len(calls), bool)
    result[linked.launch[pageable]] = True
    tree = linked.tree
    parent = tree.parent[tree.node_of_call]
    in_operator = at(tree.kind, parent, RangeKind.ANNOTATION) == RangeKind.OP
    copying = distinct(parent[result & in_operator])
    return result | (in_operator & isin(parent, copying))


def searching_calls(linked: TraceJoins) -> I64:
    """Rows of waits for events inside convolutions: cuDNN and MIOpen time their algorithms so when
    they first meet a shape; a convolution itself waits for nothing."""
    tree = linked.tree
    strings = linked.trace.strings
    rows = np.flatnonzero(texts_where(strings, EVENT_WAIT.search)[linked.trace.api_calls.name])
    return rows[
        texts_where(strings, CONVOLVES.search)[tree.names(tree.parent[tree.node_of_call[rows]])]
    ]


def device_waits(linked: TraceJoins) -> Bool:
    """Which API calls wait for all work of the device, by their names."""
    return texts_where(linked.trace.strings, DEVICE_WAIT.search)[linked.trace.api_calls.name]


def closing_waits(linked: TraceJoins) -> Bool:
    """Which API calls wait for the whole device after the last launch, as torch.profiler does when
    its window closes. Other recorders wait for nothing: there it is the program's own."""
    calls = linked.trace.api_calls
    if linked.trace.source not in TORCH_PROFILER:
        return np.zeros(len(calls), bool)
    launching = isin_few(
        linked.api_kind, (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.COPY, ApiKind.SET)
    )
    return device_waits(linked) & (calls.start > int(calls.start[launching].max(initial=0)))
