"""What kind of host work is behind a gap: first use of kernels, allocation, graphs, page migration,
lost records.

Details live within the causes of `gaps`: totals by cause keep their meaning, and advice depends on
the detail."""

import enum
import re

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, at, isin_few, measure, texts_where, union
from traceanalyzer.analysis.joined.launched import building_time
from traceanalyzer.analysis.time.host_timeline import HostState, loading_calls
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import regex
from traceanalyzer.trace import I64, U8, Bool, CopyKind, OverheadKind, RangeKind, distinct


class IdleDetail(enum.IntEnum):
    """A cause of idle time with a remedy of its own."""

    NONE = 0
    ALLOCATION = 1  # allocating or freeing memory
    LOADING = 2  # the first use of kernels, modules and libraries, contexts, streams and events
    GRAPHS = 3  # capturing streams into graphs, instantiating and updating graphs
    COMPILATION = 4
    PAGE_MIGRATION = 5  # managed memory moves page by page when the other side touches it
    LOST = 6  # kernels were launched meanwhile that are not in the recording
    # the CPU works on managed memory, page after page, far longer than a page takes to move
    MANAGED_LOOP = 7
    MISSING = 8  # the host waits for work of the device that is not in the recording
    GRAPH_LAUNCH = 9  # one call that launches a graph takes far longer than such calls do
    NEIGHBOUR = 10  # another GPU of the process has its turn, and hands over what it computed

    @property
    def label(self) -> str:
        """The detail in words."""
        return _LABELS[self]


_LABELS = {
    IdleDetail.NONE: "",
    IdleDetail.ALLOCATION: "allocating or freeing memory",
    IdleDetail.LOADING: "first use: loading of kernels and libraries",
    IdleDetail.GRAPHS: "capturing, instantiating or updating CUDA graphs",
    IdleDetail.COMPILATION: "compiling",
    IdleDetail.PAGE_MIGRATION: "page migration of managed memory",
    IdleDetail.MANAGED_LOOP: "CPU work on managed memory between migrations",
    IdleDetail.LOST: "kernels launched meanwhile are not in the recording",
    IdleDetail.GRAPH_LAUNCH: "one long launch of a CUDA graph",
    IdleDetail.MISSING: "the CPU waits for GPU work that is not in the recording",
    IdleDetail.NEIGHBOUR: "another GPU of this process has its turn",
}

OF_NO_CALL = (
    int(IdleDetail.PAGE_MIGRATION),
    int(IdleDetail.MANAGED_LOOP),
    int(IdleDetail.LOST),
    int(IdleDetail.MISSING),
    int(IdleDetail.NEIGHBOUR),
)
"""Details that say all, whatever the host did."""

FAULT_NS = 50_000
"""What a fault on managed memory costs before its pages move: 9 to 36 us in a dozen programs on
Pascal and later."""
LOOP_NS = (
    4 * FAULT_NS
)  # a pause this long before a migration is the CPU's work on the pages that it had
DOMINANT = 0.5  # a detail owns a gap if it filled at least this share of it

_COMPILES = regex(
    r"compil(?!ed)|nvrtc|ptxas|autotun|torchdynamo(?! cache lookup)|torch_dynamo", re.IGNORECASE
)
"""Names of what compiles. A look-up in Dynamo's cache checks guards, in every call of what is
compiled already."""
_UNIFIED = (
    CopyKind.UNIFIED_HOST_TO_DEVICE,
    CopyKind.UNIFIED_DEVICE_TO_HOST,
    CopyKind.UNIFIED_DEVICE_TO_DEVICE,
)


def host_details(timed: Timed, start: I64, end: I64) -> U8:
    """For each of these stretches the detail of host work that filled most of it, where one did."""
    owner = np.full(len(start), IdleDetail.NONE, np.uint8)
    spent = np.zeros(len(start), np.int64)
    for kind, covered in timed.memo(host_work_times).items():
        time = measure(covered, start, end)
        more = time > spent
        owner[more] = kind
        spent[more] = time[more]
    owner[spent < DOMINANT * (end - start)] = IdleDetail.NONE
    return owner


def host_work_times(timed: Timed) -> dict[IdleDetail, IntervalSet]:
    """When the host was busy with each kind of work. Of two that hold a gap the first one
    counts."""
    ranges = timed.trace.host_ranges
    overheads = timed.trace.overheads
    strings = timed.trace.strings
    calls = timed.trace.api_calls
    loads = timed.linked.memo(loading_calls)
    named = texts_where(strings, _COMPILES.search)
    rows = named[ranges.name] & isin_few(
        ranges.kind, (RangeKind.OP, RangeKind.ANNOTATION, RangeKind.LIBRARY)
    )
    rows &= np.isin(ranges.thread, distinct(timed.trace.api_calls.thread))
    driver = overheads.kind == OverheadKind.DRIVER
    more = driver & named[overheads.name]
    other = driver & ~named[overheads.name]
    return {
        IdleDetail.COMPILATION: union(
            np.concatenate((ranges.start[rows], overheads.start[more])),
            np.concatenate((ranges.end[rows], overheads.end[more])),
        ),
        IdleDetail.GRAPHS: timed.linked.memo(building_time),
        IdleDetail.LOADING: union(
            np.concatenate((calls.start[loads], overheads.start[other])),
            np.concatenate((calls.end[loads], overheads.end[other])),
        ),
        IdleDetail.ALLOCATION: timed.timeline.states[HostState.ALLOCATE],
    }


def migrates(timed: Timed, next_op: I64) -> Bool:
    """Which gaps are ended by the migration of managed memory."""
    return isin_few(at(timed.trace.device_ops.copy_kind, next_op, 0), _UNIFIED)
