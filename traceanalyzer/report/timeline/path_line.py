"""Where the critical path runs on a timeline, and what is known of an event beyond its name and
times."""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.causes.critical_path import SegmentPart, joined_path, path_parts
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.base import cut
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.format import figure
from traceanalyzer.report.timeline.lanes import extent_of, shown_steps
from traceanalyzer.trace import I32, I64, Bool

MAX_STRETCHES = 6_000
"""Longest stretches on one lane that are drawn; more than a screen has pixels to tell apart."""
_OF_OP = (
    SegmentPart.OP,
    SegmentPart.LATENCY,
    SegmentPart.PAUSE,
    SegmentPart.UNKNOWN,
)  # drawn where their device op is; others are the host's
MAX_LINE = 200  # characters: shapes of fused optimizers name hundreds of tensors
MAX_OUTER = 3  # operators and annotations around an event that are named
NOTHING_NS = 10.0  # a kernel that could be over in less is limited by nothing of the GPU


class ShownPath:
    """What pages show of the critical path. It has more segments than there is of anything else, so
    that those of other steps are freed at once."""

    def __init__(self, m: Measurements) -> None:
        self.of_op = np.zeros(len(m.trace.device_ops), np.int64)
        self.of_node = np.zeros(len(m.linked.tree.start), np.int64)
        extents = [extent_of(m.timed.steps, step) for step in shown_steps(m.timed.steps)]
        kept = []
        for part in path_parts(m.started):
            runs = part.part == SegmentPart.OP
            _add(self.of_op, part.op[runs], part.duration[runs])
            _add(self.of_node, part.node, part.duration)
            shown = [(part.end > begin) & (part.start < end) for begin, end in extents]
            kept.append(part.take(np.logical_or.reduce(shown)))
        self.segments = joined_path(kept)


def _add(sums: I64, rows: I32, durations: I64) -> None:
    """Add the durations of these rows, which lie near each other; those of -1 are left out."""
    known = rows >= 0
    if known.any():
        first = int(rows[known].min())
        added = np.bincount(rows[known] - first, durations[known])
        sums[first : first + len(added)] += added.astype(np.int64)


class OnPath:
    """What of the critical path each device op and host node is, and the lanes that these were
    given."""

    def __init__(self, m: Measurements) -> None:
        found = m.memo(ShownPath)
        self.m = m
        self.path = found.segments
        self.of_op = found.of_op
        self.of_node = found.of_node
        self.lane_of_op = np.full(len(found.of_op), -1, np.int64)
        self.lane_of_thread: dict[int, int] = {}  # the outermost lane of each thread that is drawn

    def ended_by(self, call: I64, is_call: Bool) -> I64:
        """The device op that each of these calls waited for, -1 where it waited for none."""
        result = np.full(len(call), -1, np.int64)
        if len(self.m.trace.device_ops):
            waits = self.m.started.host_waits
            of_call = np.full(len(self.m.trace.api_calls) + 1, -1, np.int64)
            of_call[waits.call] = waits.op
            result[is_call] = of_call[call[is_call]]
        return result


def path_line(on: OnPath, extent: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Start, end and lane of the stretches of the path on lanes within the extent (ns), in time
    order."""
    path = on.path
    inside = np.flatnonzero((path.end > extent[0]) & (path.start < extent[1]))
    on_device = np.isin(path.part[inside], _OF_OP) & (path.op[inside] >= 0)
    lane = np.where(
        on_device,
        np.append(on.lane_of_op, -1)[path.op[inside]],
        -1,
    )
    thread = np.append(on.m.linked.tree.thread, -1)[path.node[inside]]
    for thread_id, outermost in on.lane_of_thread.items():
        lane[~on_device & (thread == thread_id)] = outermost
    inside = inside[lane >= 0]
    lane = lane[lane >= 0]
    if not len(inside):
        return []
    start = path.start[inside]
    end = path.end[inside]
    other_lane = lane[1:] != lane[:-1]
    after_pause = start[1:] != end[:-1]
    first = np.flatnonzero(np.append(True, other_lane | after_pause))
    start = start[first]
    end = np.append(end[first[1:] - 1], end[-1])
    lane = lane[first]
    kept = np.sort(np.argsort(start - end, kind="stable")[:MAX_STRETCHES])
    return list(
        zip(
            start[kept].tolist(),
            end[kept].tolist(),
            lane[kept].tolist(),
            strict=True,
        )
    )


def device_facts(m: Measurements, rows: I64) -> list[list[str]]:
    """Of device ops (rows): who launched them, with which inputs, and how fast they could be."""
    operator = owner_nodes(m.linked, m.joined.launch_node[rows])
    parts = zip(
        _around(m, operator),
        _inputs(m, operator),
        _launched(m, rows),
        _work(m, rows),
        strict=True,
    )
    return [
        [*around, *(inputs if around else ()), *launched, *work]
        for around, inputs, launched, work in parts
    ]


def host_facts(m: Measurements, nodes: I64) -> list[list[str]]:
    """Of nodes of the host tree: their inputs, and the line of Python they come from."""
    lines: dict[int, list[str]] = {}
    if len(m.joined.python.start):
        # Of the longest ones: each costs a search.
        length = m.linked.tree.end[nodes] - m.linked.tree.start[nodes]
        for node in nodes[np.argsort(-length, kind="stable")[:1_000]].tolist():
            line = m.joined.python.source_line(
                int(m.linked.tree.thread[node]), int(m.linked.tree.start[node])
            )
            lines[node] = [f"at {cut(line, MAX_LINE)}"] if line else []
    return [
        [*inputs, *lines.get(node, ())]
        for inputs, node in zip(_inputs(m, nodes), nodes.tolist(), strict=True)
    ]


def _around(m: Measurements, nodes: I32 | I64) -> list[tuple[str, ...]]:
    """The operators and annotations around each node, innermost last."""

    @cache
    def line(codes: tuple[int, ...]) -> tuple[str, ...]:
        names = [m.trace.text(code) or "?" for code in codes]
        return (f"in {cut(' > '.join(reversed(names)), MAX_LINE)}",) if names else ()

    names: list[tuple[int, ...]] = [()] * len(nodes)
    left = np.flatnonzero(nodes >= 0)
    at_node = nodes[nodes >= 0]
    while len(left):
        is_range = ~m.linked.tree.is_call[at_node]
        codes = m.linked.tree.names(at_node[is_range])
        for i, code in zip(left[is_range].tolist(), codes.tolist(), strict=True):
            names[i] += (code,)
        at_node = m.linked.tree.parent[at_node]
        going_on = (at_node >= 0) & np.array(
            [len(names[i]) < MAX_OUTER for i in left.tolist()], bool
        )
        left = left[going_on]
        at_node = at_node[going_on]
    return list(map(line, names))


def _inputs(m: Measurements, nodes: I32 | I64) -> list[tuple[str, ...]]:
    """The inputs of each node that is an operator."""

    @cache
    def line(shapes: int, types: int) -> tuple[str, ...]:
        texts = (("shapes", m.trace.text(shapes)), ("types", m.trace.text(types)))
        return tuple(
            f"{what} {cut(text, MAX_LINE)}" for what, text in texts if text and text.strip("[]")
        )

    ranges = m.trace.host_ranges
    row = np.where(
        at(m.linked.tree.is_call, nodes, True),
        -1,
        at(m.linked.tree.row, nodes, -1),
    )
    return list(
        map(
            line,
            at(ranges.shapes, row, -1).tolist(),
            at(ranges.dtypes, row, -1).tolist(),
        )
    )


def _launched(m: Measurements, rows: I64) -> Iterator[tuple[str, ...]]:
    """How many threads each of these device ops has, or how many bytes it copies."""

    @cache
    def line(blocks: int, threads: int, registers: int, size: int) -> tuple[str, ...]:
        if blocks <= 0:
            return (figure(size, "bytes"),) if size > 0 else ()
        grid = f"{blocks:,} blocks of {threads} threads"
        return (grid + (f", {registers} registers each" if registers > 0 else ""),)

    ops = m.trace.device_ops
    columns = (ops.blocks, ops.threads, ops.registers, ops.bytes)
    return map(line, *(column[rows].tolist() for column in columns))


def _work(m: Measurements, rows: I64) -> Iterator[tuple[str, ...]]:
    """What limits each of these device ops, and the least time that the GPU needs for it."""

    @cache
    def line(is_kernel: bool, code: int, least: float) -> tuple[str, ...]:
        bound = Bound(code)
        found = [] if bound == Bound.UNKNOWN else [f"limited by {bound.name.lower()}"]
        if least < NOTHING_NS:
            found.append("too small for the GPU to be the limit")
        elif math.isfinite(least):
            found.append(f"could take {figure(least, 'ns')} at the GPU's limits")
        return (", ".join(found),) if found and is_kernel else ()

    columns = (m.linked.is_kernel, m.rated.roofline.bound, m.rated.roofline.attainable)
    return map(line, *(column[rows].tolist() for column in columns))
