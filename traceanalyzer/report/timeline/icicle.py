"""Boxes of an icicle: device time by who launched it, idle time by who is behind it, of the
representative step. Annotations and operators from the outside in; innermost kernels, or causes of
idle time. Of bounded size always."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.gap_rows import nodes_behind
from traceanalyzer.base import NS_PER_MS, OWN, cut
from traceanalyzer.report.timeline.lanes import representative
from traceanalyzer.trace import I32, I64

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.measurements import Measurements

DEEPEST = 5  # levels of operators and annotations of which the widest kernels' launches are shown
MAX_OPS = 20_000
"""Longest device ops and gaps that are counted: a recording without steps is one step of
millions."""
LEAST_SHARE = 0.004  # of a step's device (or idle) time: less is no wider than a line
MAX_NAME = 100
UNKNOWN = -2
NOWHERE = "(launch not recorded)"


@dataclass(frozen=True)
class IcicleBox:
    """A box of an icicle: time that lies below an annotation or an operator, or in a kernel, or has
    a cause."""

    name: str
    level: int
    begin_ms: float
    end_ms: float
    sort: str = field(
        metadata=OWN, default=""
    )  # of what is innermost its colour (`compute`, `idle-sync`), else empty


def device_time(m: "Measurements") -> list[IcicleBox]:
    """Device time of the representative step by who launched it."""
    ops = m.trace.device_ops
    (start, end) = _window(m)
    inside = (ops.start >= start) & (ops.start < end) & (m.joined.launch_node >= 0)
    rows = _longest(np.flatnonzero(inside), ops.end - ops.start)
    codes = ops.name[rows].tolist()
    names = [short_name(m.trace.text(code) or "?") for code in codes]
    sorts = np.where(
        m.linked.is_communication, "communication", np.where(m.linked.is_copy, "copy", "compute")
    )[rows]
    leaves = list(zip(names, sorts.tolist(), strict=True))
    return _boxes(m, m.joined.launch_node[rows], leaves, (ops.end - ops.start)[rows])


def idle_time(m: "Measurements") -> list[IcicleBox]:
    """Idle time of the representative step by the wait, or the launch of the op, that ended it."""
    gaps = m.causes.gaps
    (start, end) = _window(m)
    length = np.minimum(gaps.end, end) - np.maximum(gaps.start, start)
    device = -1 if m.timed.device is None else m.timed.device
    rows = _longest(np.flatnonzero((length > 0) & (gaps.device == device)), length)
    causes = [IdleCause(cause).label for cause in gaps.cause[rows].tolist()]
    return _boxes(
        m,
        nodes_behind(m.timed, gaps, rows),
        [(cause, f"idle-{cause}") for cause in causes],
        length[rows],
    )


def _window(m: "Measurements") -> tuple[int, int]:
    step = representative(m.timed.steps)
    return int(m.timed.steps.start[step]), int(m.timed.steps.end[step])


def _longest(rows: I64, length: I64) -> I64:
    return rows[np.argsort(-length[rows], kind="stable")[:MAX_OPS]]


def _boxes(
    m: "Measurements", nodes: I32 | I64, leaves: Sequence[tuple[str, str]], length: I64
) -> list[IcicleBox]:
    """Times of nodes of the host tree, each with name and sort of what is innermost."""
    root = _Branch()
    paths = _Paths(m)
    # The range that each node is or, of a call, that is around it; -1: none, `UNKNOWN` for a node
    # of -1.
    call = at(m.linked.tree.is_call, nodes, False)
    parent = at(m.linked.tree.parent, nodes, UNKNOWN)
    around = np.where(call | (nodes < 0), parent, nodes).tolist()
    for node, (name, sort), ns in zip(around, leaves, length.tolist(), strict=True):
        root.add([*paths.of(node), name], ns, sort)
    boxes: list[IcicleBox] = []
    root.boxes(boxes, 0, 0.0, root.ns * LEAST_SHARE)
    return boxes


class _Paths:
    """Names of the ranges around nodes, outermost first, without the step's own and without
    repetitions, at most `DEEPEST`. What lies around a node is asked for once, however many nodes
    lie in it: stacks are as deep as a program recurses."""

    def __init__(self, m: "Measurements") -> None:
        self._trace = m.trace
        self._names = m.trace.host_ranges.name
        self._tree = m.linked.tree
        self._known: dict[int, tuple[str, ...]] = {UNKNOWN: (NOWHERE,), -1: ()}

    def of(self, node: int) -> tuple[str, ...]:
        inside: list[int] = []
        while node not in self._known:
            inside.append(node)
            node = int(self._tree.parent[node])
        path = self._known[node]
        for within in reversed(inside):
            path = self._extended(path, within)
            self._known[within] = path
        return path

    def _extended(self, path: tuple[str, ...], node: int) -> tuple[str, ...]:
        if len(path) == DEEPEST or self._tree.is_call[node]:
            return path
        name = self._trace.text(int(self._names[self._tree.row[node]])) or "?"
        if name.startswith("ProfilerStep#") or path[-1:] == (name,):
            return path
        return (*path, name)


@dataclass
class _Branch:
    """Time below a name, by what is below it."""

    below: "dict[str, _Branch]" = field(default_factory=dict)
    ns: int = 0
    sort: str = ""

    def add(self, path: Sequence[str], ns: int, sort: str) -> None:
        branch = self
        branch.ns += ns
        for name in path:
            branch = branch.below.setdefault(name, _Branch())
            branch.ns += ns
        branch.sort = sort

    def boxes(self, drawn: list[IcicleBox], level: int, begin: float, least: float) -> None:
        """The boxes of what is below, widest first."""
        for name, branch in sorted(self.below.items(), key=lambda item: -item[1].ns):
            if branch.ns >= least:
                end = begin + branch.ns / NS_PER_MS
                drawn.append(
                    IcicleBox(
                        cut(name, MAX_NAME), level, begin, end, "" if branch.below else branch.sort
                    )
                )
                branch.boxes(drawn, level + 1, begin, least)
                begin = end
