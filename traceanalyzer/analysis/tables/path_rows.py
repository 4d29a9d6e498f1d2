"""The critical path as figures of a step: how long each kind of segment takes, and what carries most of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra.texts import texts_where
from traceanalyzer.analysis.causes.critical_path import Part, PathKind
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.figures import metric, ms
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.causes.critical_path import CriticalPath
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import F64, I32, I64, U8, Bool

_AT_ONCE = 1 << 18
"""Segments."""
PART_NAMES = {
    Part.LATENCY: "from launch to start",
    Part.PAUSE: "between queued ops",
    Part.UNKNOWN: "not recorded",
    Part.HOST: "outside operators and calls",
}
"""Names of segments that no kernel, operator or call gives one."""


@dataclass(frozen=True)
class PathTime:
    """The critical path of a mean steady step by kind; a partition, so the parts sum to the step."""

    compute: float = metric("kernels (no collectives), memsets and graphs that the step waited for", "ms")
    communication: float = metric("collectives on the path, and the host stuck in a communication operator", "ms")
    copy: float = metric("memory copies on the path", "ms")
    launch: float = metric(
        "the host dispatching operators and launching, from a launch to its op, and pauses between queued ops", "ms"
    )
    wait: float = metric(
        "from the end of the device work that the host waited for until it went on; operators that only read a value",
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
    kind: str = metric("compute, communication, copy, launch, wait, input, host, profiler or other")
    name: str = metric("kernel or copy that ran, operator or range the host was in, or call that waited")
    within: str | None = metric("outermost operator or annotation around the longest of them, or around its launch")
    segments: float = metric("segments a step")
    total_ms: float = metric("their time a step", "ms")
    share_of_step: float = metric("that time as a share of the step: the rows sum to 1", "share")


def path_time(timed: Timed, path: CriticalPath) -> PathTime:
    """Time of each kind of segment in a mean steady step."""
    spent = _totals(path, path.kind, len(PathKind))[1] / timed.steps.steady_count
    return PathTime(**{kind.label: ms(spent[kind]) for kind in PathKind})


def path_rows(timed: Timed, path: CriticalPath) -> list[PathRow]:
    """A row for each kind and name of segments, by time."""
    if not len(path):
        return []
    group, names = segment_names(timed, path)
    group *= len(PathKind)
    group += path.kind
    count, total, example = _totals(path, group, len(names) * len(PathKind))
    del group
    whole, outermost, steps = float(total.sum()), timed.tree.outermost(is_named(timed)), timed.steps.steady_count
    return [
        PathRow(
            rank=timed.trace.rank,
            kind=PathKind(g % len(PathKind)).label,
            name=names[g // len(PathKind)],
            within=within(timed, outermost, int(path.node[example[g]])),
            segments=float(count[g]) / steps,
            total_ms=ms(total[g] / steps),
            share_of_step=float(total[g] / whole),
        )
        for g in np.argsort(-total, kind="stable").tolist()
        if count[g]
    ]


def _totals(path: CriticalPath, group: I32 | U8, groups: int) -> tuple[I64, F64, I64]:
    """Of each group of segments their number, their time, and the last of its longest ones; some at a time, since there
    are more of them than of anything else."""
    count, longest, example = (np.zeros(groups, np.int64) for _ in range(3))
    total = np.zeros(groups)
    for begin in range(0, len(group), _AT_ONCE):
        here = slice(begin, begin + _AT_ONCE)
        of, duration = group[here], path.end[here] - path.start[here]
        count += np.bincount(of, minlength=groups)
        total += np.bincount(of, weights=duration, minlength=groups)
        np.maximum.at(longest, of, duration)
        largest = np.flatnonzero(duration == longest[of])
        example[of[largest]] = begin + largest
    return count, total, example


def segment_names(timed: Timed, path: CriticalPath) -> tuple[I32, list[str]]:
    """For each segment the index of its name, and the names: of the kernel or copy that runs (shortened), the operator
    or range that the host is in, the call that waits, or what lies between."""
    count = len(timed.trace.strings)
    of_node = node_names(timed, count + Part.HOST)
    code = np.empty(len(path), np.int32)
    used, kernels = np.zeros(count + len(Part), bool), np.zeros(count + len(Part), bool)
    for begin in range(0, len(path), _AT_ONCE):
        here = slice(begin, begin + _AT_ONCE)
        code[here] = _codes(timed, of_node, path, here)
        used[code[here]] = True
        kernels[code[here][path.part[here] == Part.OP]] = True
    texts: dict[str, int] = {}
    index = np.zeros(count + len(Part), np.int32)
    for one in np.flatnonzero(used).tolist():
        index[one] = texts.setdefault(_text(timed.trace.strings, one, kernels[one]), len(texts))
    for begin in range(0, len(path), _AT_ONCE):
        here = slice(begin, begin + _AT_ONCE)
        code[here] = index[code[here]]
    return code, list(texts)


def _codes(timed: Timed, of_node: I32, path: CriticalPath, here: slice) -> I32:
    """For each of these segments the code of its name, beyond the last string one for each `Part`."""
    trace, part, node = timed.trace, path.part[here], path.node[here]
    code: I32 = part.astype(np.int32)
    code += len(trace.strings)
    runs = part == Part.OP
    code[runs] = trace.device_ops.name[path.op[here][runs]]
    inside = (part == Part.HOST) & (node >= 0)
    code[inside] = of_node[node[inside]]
    waits = part == Part.RETURN
    code[waits] = trace.api_calls.name[timed.tree.row[node[waits]]]
    return code


def _text(strings: list[str], code: int, is_kernel: bool) -> str:
    if code >= len(strings):
        return f"({PART_NAMES[Part(code - len(strings))]})"
    return short_name(strings[code]) if is_kernel else strings[code]


def node_names(timed: Timed, outside: int) -> I32:
    """For each node of the host tree the name of the innermost operator or annotation around it (or itself), of the
    call where there is none, and `outside` where there is nothing but the step."""
    tree, trace = timed.tree, timed.trace
    result = np.full(len(tree.start), outside, np.int32)
    result[tree.is_call] = trace.api_calls.name[tree.row[tree.is_call]]
    around = tree.innermost(is_named(timed))
    inside = around >= 0
    result[inside] = tree.name[around[inside]]
    return result


def within(linked: Linked, outermost: I32, node: int) -> str | None:
    """The name of the outermost operator or annotation around a node."""
    around = int(outermost[node]) if node >= 0 else -1
    return linked.trace.strings[linked.trace.host_ranges.name[linked.tree.row[around]]] if around >= 0 else None


def is_named(timed: Timed) -> Bool:
    """Which nodes of the host tree name what the host does: operators and annotations but the steps'."""
    tree = timed.tree
    of_step = texts_where(timed.trace.strings, set(timed.steps.names).__contains__)
    result: Bool = (tree.kind == RangeKind.OP) | (tree.kind == RangeKind.ANNOTATION)
    result &= ~tree.named(of_step)
    return result
