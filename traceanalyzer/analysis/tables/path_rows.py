"""The critical path as figures of a step: how long each kind of segment takes, and what carries
most of it."""

from collections.abc import Iterable, Sequence

import numpy as np

from traceanalyzer.analysis.algebra import (
    Column,
    Groups,
    at,
    blockwise,
    isin_few,
    run_lengths,
    texts_where,
)
from traceanalyzer.analysis.algebra.lazy_rows import lazy_rows
from traceanalyzer.analysis.causes.critical_path import CriticalPath, PathKind, SegmentPart
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.time.host_timeline import LONG_STRETCH_NS, dominant_nodes, node_times
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric, ms
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind

PART_NAMES = {
    SegmentPart.LATENCY: "from launch to start",
    SegmentPart.PAUSE: "between queued ops",
    SegmentPart.UNKNOWN: "not recorded",
    SegmentPart.HOST: "outside operators and calls",
}
"""Names of segments that no kernel, operator or call gives one."""
LEAST_SPLIT_NS = LONG_STRETCH_NS
"""Shorter stretches are dispatch, and are whole."""
_KINDS = [kind.label for kind in PathKind]


@dataclass(frozen=True)
class PathTime:
    """The critical path of a mean steady step by kind; a partition, so the parts sum to the
    step."""

    compute: float = metric(
        "kernels (no collectives), memsets and graphs that the step waited for", "ms"
    )
    communication: float = metric(
        "collectives on the path, and the host stuck in a communication operator", "ms"
    )
    copy: float = metric("memory copies on the path", "ms")
    launch: float = metric(
        (
            "the host dispatching operators and launching, from a launch to its op, and "
            "pauses between queued ops"
        ),
        "ms",
    )
    wait: float = metric(
        (
            "from the end of the device work that the host waited for until it went on; "
            "operators that only read a value"
        ),
        "ms",
    )
    input: float = metric("the host loading or preparing input", "ms")
    host: float = metric("other work of the host", "ms")
    profiler: float = metric("the profiler's own work", "ms")
    other: float = metric("stretches before which the recording shows no cause", "ms")


@dataclass(frozen=True)
class PathRow:
    """Segments of the critical path of one kind and name in a mean steady step."""

    rank: int | None = metric("rank of the process")
    kind: str = metric(
        "compute, communication, copy, launch, wait, input, host, profiler or other", text="own"
    )
    name: str = metric(
        "kernel or copy that ran, operator or range the host was in, or call that waited"
    )
    within: str | None = metric(
        "outermost operator or annotation around the longest of them, or around its launch"
    )
    segments: float = metric("segments a step")
    total_ms: float = metric("their time a step")
    share_of_step: float = metric("that time as a share of the step: the rows sum to 1", "share")


def path_tables(
    timed: Timed, parts: Iterable[CriticalPath]
) -> tuple[PathTime | None, Sequence[PathRow]]:
    """The time of each kind of segment in a mean steady step (None without segments), and a row for
    each kind and name of segments, by time, made when it is asked for."""
    sums = _Sums(len(timed.trace.strings) + len(SegmentPart))
    names = NodeNames.of(timed)
    for part in parts:
        sums.add(_segment_codes(names, part), part)
    if not sums.segments:
        return None, []
    spent = sums.total.sum(axis=0) / timed.steps.steady_count
    return PathTime(**{kind.label: ms(spent[kind]) for kind in PathKind}), _rows(timed, sums)


class _Sums:
    """Figures of the segments of each code (row) and kind (column)."""

    def __init__(self, codes: int) -> None:
        shape = (codes, len(PathKind))
        self.count = np.zeros(shape, np.int64)
        self.total = np.zeros(shape)
        # Length and node of the last of the longest segments, and which of all segments it is.
        self.longest, self.node, self.place = (
            np.full(shape, fill, np.int64) for fill in (0, -1, -1)
        )
        self.running = np.zeros(codes, bool)  # codes of what ran, and how many segments there were
        self.segments = 0

    def add(self, code: I32, path: CriticalPath) -> None:
        """Count these segments, which follow those before."""
        group = code * len(PathKind) + path.kind
        duration = path.duration
        self.count += np.bincount(group, minlength=self.count.size).reshape(self.count.shape)
        self.total += np.bincount(group, weights=duration, minlength=self.count.size).reshape(
            self.count.shape
        )
        np.maximum.at(self.longest.reshape(-1), group, duration)
        largest = np.flatnonzero(duration == self.longest.reshape(-1)[group])
        self.node.reshape(-1)[group[largest]] = path.node[largest]
        self.place.reshape(-1)[group[largest]] = largest + self.segments
        self.running[code[path.part == SegmentPart.OP]] = True
        self.segments += len(path)


def _rows(timed: Timed, sums: _Sums) -> Sequence[PathRow]:
    names, index = _names(timed.trace.strings, sums.count.sum(axis=1), sums.running)
    kinds = len(PathKind)
    used = np.flatnonzero(sums.count.sum(axis=1))
    totals = np.zeros((len(names), kinds))
    np.add.at(totals, index[used], sums.total[used])
    counts = np.zeros((len(names), kinds), np.int64)
    np.add.at(counts, index[used], sums.count[used])
    node = _longest_nodes(sums, used, index[used], len(names)).ravel()
    outermost = timed.linked.tree.outermost(is_named(timed))
    total = totals.ravel()
    count = counts.ravel()
    all_ns = totals.sum()
    steps = timed.steps.steady_count

    def row(cell: int) -> PathRow:
        return PathRow(
            rank=timed.trace.rank,
            kind=_KINDS[cell % kinds],
            name=names[cell // kinds],
            within=within(timed.linked, outermost, int(node[cell])),
            segments=float(count[cell] / steps),
            total_ms=ms(float(total[cell] / steps)),
            share_of_step=float(total[cell] / all_ns),
        )

    cells = np.argsort(-total, kind="stable")
    return lazy_rows(cells[count[cells] > 0].tolist(), row)


def _longest_nodes(sums: _Sums, codes: I64, name: I32, names: int) -> I64:
    """The node of the longest segment of each name (row) and kind (column): of several codes of one
    name the longest, of several of these the last."""
    kinds = len(PathKind)
    cell = (name[:, None] * kinds + np.arange(kinds)).ravel()
    place = sums.place[codes].ravel()
    order = np.lexsort((place, sums.longest[codes].ravel()))
    node = np.full(names * kinds, -1, np.int64)
    longest = sums.node[codes].ravel()
    node[cell[order]] = longest[order]  # of several the last one written stays
    return node.reshape(names, kinds)


def segment_names(timed: Timed, path: CriticalPath) -> tuple[I32, list[str]]:
    """For each segment the index of its name, and the names: of the kernel or copy that runs
    (shortened), the operator or range that the host is in, the call that waits, or what lies
    between."""
    code = _segment_codes(NodeNames.of(timed), path)
    codes = len(timed.trace.strings) + len(SegmentPart)
    running = np.bincount(code[path.part == SegmentPart.OP], minlength=codes) > 0
    names, index = _names(timed.trace.strings, np.bincount(code), running)
    return index[code], names


def _names(strings: list[str], count: I64, running: Bool) -> tuple[list[str], I32]:
    """The distinct names of the codes that occur, and of each code the index of its name."""
    texts: dict[str, int] = {}
    index = np.zeros(len(strings) + len(SegmentPart), np.int32)
    for used in np.flatnonzero(count).tolist():
        text = (
            f"({PART_NAMES[SegmentPart(used - len(strings))]})"
            if used >= len(strings)
            else strings[used]
        )
        index[used] = texts.setdefault(short_name(text) if running[used] else text, len(texts))
    return list(texts), index


def _segment_codes(names: "NodeNames", path: CriticalPath) -> I32:
    """For each segment the code of its name among the trace's strings, beyond them its part."""
    trace = names.timed.trace
    tree = names.timed.linked.tree
    code = path.part.astype(np.int32)
    code += len(trace.strings)
    runs = path.part == SegmentPart.OP
    waits = path.part == SegmentPart.RETURN
    code[runs] = trace.device_ops.name[path.op[runs]]
    inside = (path.part == SegmentPart.HOST) & (path.node >= 0)
    code[inside] = names.at(path.node[inside], len(trace.strings) + SegmentPart.HOST)
    code[waits] = trace.api_calls.name[tree.row[path.node[waits]]]
    return code


@dataclass(frozen=True, eq=False)
class NodeNames:
    """How nodes of the host tree are called. Made once a table and not kept: it goes through the
    whole tree, and is as long."""

    timed: Timed
    innermost: Column  # for each node the innermost operator or annotation around it, or itself

    @classmethod
    def of(cls, timed: Timed) -> "NodeNames":
        """The names that a recording's operators and annotations give."""
        return cls(timed, run_lengths(timed.linked.tree.innermost(is_named(timed))))

    def at(self, node: I32 | I64, outside: int) -> I32:
        """For each of these nodes the name of the innermost operator or annotation around it (or
        itself), of the call where there is none, and `outside` where there is nothing but the step,
        and for -1."""
        return blockwise(lambda nodes: self._at(nodes, outside), node)

    def places(self, node: I32 | I64) -> I32:
        """The code of the place of each of these nodes."""
        return self.at(node.astype(np.int32), outside(self.timed))

    def _at(self, node: I32 | I64, outside: int) -> I32:
        tree = self.timed.linked.tree
        around = at(self.innermost, node, -1)
        result = np.full(len(node), outside, np.int32)
        inside = np.flatnonzero(around >= 0)
        result[inside] = tree.names(around[inside])
        calls = np.flatnonzero((around < 0) & at(tree.is_call, node, False))
        result[calls] = self.timed.trace.api_calls.name[tree.row[node[calls]]]
        return result


def within(linked: TraceJoins, outermost: I32 | I64, node: int) -> str | None:
    """The name of the outermost operator or annotation around a node."""
    around = int(outermost[node]) if node >= 0 else -1
    return (
        linked.trace.strings[linked.trace.host_ranges.name[linked.tree.row[around]]]
        if around >= 0
        else None
    )


def is_named(timed: Timed) -> Bool:
    """Which nodes of the host tree name what the host does: operators and annotations but the
    steps'."""
    tree = timed.linked.tree
    ranges = timed.trace.host_ranges
    of_step = texts_where(timed.trace.strings, set(timed.steps.names).__contains__)
    result = isin_few(tree.kind, (RangeKind.OP, RangeKind.ANNOTATION))
    result[result] = ~of_step[ranges.name[tree.row[result]]]
    return result


@dataclass(frozen=True, eq=False)
class PlaceTimes:
    """Time of stretches in places, a row each."""

    stretch: I64
    name: I32  # code of the place's name, `outside` of none
    node: I32  # node of the host tree in which it was longest, -1: none
    spent: F64  # ns


def outside(timed: Timed) -> int:
    """The code of what lies outside operators, ranges and calls."""
    return len(timed.trace.strings)


def place_times(names: NodeNames, start: I64, end: I64, thread: I64) -> PlaceTimes:
    """Where a thread was in each stretch [start, end), for how long."""
    times = node_times(names.timed.timeline, start, end, thread)
    longest_first = np.argsort(-times.spent, kind="stable")
    stretch = times.stretch[longest_first]
    node = times.node[longest_first].astype(np.int32)
    name = names.places(node)
    alike = Groups.of(stretch, name)
    first = alike.first
    spent = alike.sum(times.spent[longest_first])
    return PlaceTimes(stretch[first], name[first], node[first], spent)


def main_nodes(names: NodeNames, start: I64, end: I64, thread: I64) -> tuple[I64, I64]:
    """For each stretch the node in which the host was longest, -1 outside all, and its thread
    (`dominant_nodes`). Of a long stretch it is the longest node of the place that has most of it:
    many short calls of a name are one place."""
    nodes, threads = dominant_nodes(names.timed.timeline, start, end, thread)
    nodes = nodes.copy()
    long = np.flatnonzero((end - start >= LEAST_SPLIT_NS) & (threads >= 0))
    places = place_times(names, start[long], end[long], threads[long])
    order = np.lexsort((places.spent, places.stretch))
    is_last = np.append(np.diff(places.stretch[order]) > 0, True)[: len(order)]
    best = order[is_last]
    nodes[long[places.stretch[best]]] = places.node[best]
    return nodes, threads
