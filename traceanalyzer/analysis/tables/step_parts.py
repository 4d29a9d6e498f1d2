"""The steady step's wall-clock time in its smallest named parts: a partition, so parts of two runs can be subtracted.

Every nanosecond of a step's window on its device belongs to one row: to the operator, input shapes and kernel that
ran (compute before exposed communication before exposed copies, as in the budget; a moment with several of the
same part is split evenly between them), or to a cause of idle time and the place it is charged to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.lookup import at, places
from traceanalyzer.analysis.algebra.ordering import where_changed
from traceanalyzer.analysis.algebra.sharing import shared_time
from traceanalyzer.analysis.causes.gaps import IdleCause
from traceanalyzer.analysis.joined.attribution import owner_nodes
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.cut import cut
from traceanalyzer.figures import NS_PER_MS, metric, ms
from traceanalyzer.trace import RangeKind, alike, is_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.analysis.algebra.intervals import IntervalSet
    from traceanalyzer.analysis.causes.gaps import Gaps
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.time.timed import Timed
    from traceanalyzer.trace import F64, I32, I64, U8, Bool

BUDGET = ("compute", "exposed_communication", "exposed_copy", "idle")
"""The parts of the budget, in the order of `Budget`."""
IDLE = BUDGET.index("idle")
MAX_ROWS = 1000
"""Programs with changing shapes have tens of thousands of rows; those after the longest thousand are one a part."""
SMALLER = "(smaller ones)"
MAX_BATCHES = 16
"""Means of this many groups of successive steps tell the spread as well as all steps do; see `StepPart.batch_ms`."""
NO_TENSOR = re.compile(r"Scalar|List|^$")
"""Types of inputs that are no tensors, and of lists, whose elements' types are not recorded."""
SHAPES_LENGTH = 200
"""Characters of the shapes: those of fused optimizers name hundreds of tensors."""


@dataclass(frozen=True)
class StepPart:
    """One part of the mean steady step. The `ms` of all parts sum to the mean step time."""

    part: str = metric("part of the budget: `compute`, `exposed_communication`, `exposed_copy` or `idle`")
    cls: str = metric("class of work; of idle time its cause")
    op: str | None = metric("operator that launched the work; of idle time the one that ended it, or that waited")
    shapes: str | None = metric("input shapes of the operator; null where they were not recorded, and of idle time")
    dtypes: str | None = metric("types of its input tensors, each once; null where they were not recorded")
    kernel: str | None = metric("kernel or copy, shortened; of idle time the API call that waited")
    calls: float = metric("device ops a step; of idle time gaps")
    ms: float = metric("wall-clock time of the step that is theirs", "ms")
    batch_ms: list[float] = metric(
        "that time in each of up to 16 groups of successive steps (each step where there are fewer), for the spread "
        "of the mean: the method of batch means",
        "ms",
    )


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Stretches of time that do not cross the boundary of a step."""

    row: I32
    """Index of what was cut."""
    step: I32
    """Steady step, from 0."""
    start: I64
    end: I64


@dataclass(frozen=True, eq=False)
class _Spent:
    """Time and what it was spent on; texts are codes of the trace's strings, -1: none."""

    part: U8
    """Index into `BUDGET`."""
    step: I32
    start: I64
    begins: Bool
    """Whether a device op or gap begins here (it was not cut before)."""
    ns: F64
    label: I32
    """Index of the class of work; of idle time the cause."""
    op: I32
    shapes: I32
    dtypes: I32
    kernel: I32

    @classmethod
    def of(cls, part: int, pieces: _Pieces, ns: F64, **what: I32) -> _Spent:
        """The time of the pieces, all of one part of the budget."""
        return cls(alike(part, len(ns), np.uint8), pieces.step, pieces.start, where_changed(pieces.row), ns, **what)

    @classmethod
    def join(cls, several: list[_Spent]) -> _Spent:
        """All of it."""
        return cls(*(_joined([getattr(one, f.name) for one in several if len(one.step)]) for f in fields(cls)))


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The parts one after the other; what is the same in all takes no memory."""
    if parts and all(is_constant(part) and part[0] == parts[0][0] for part in parts):
        return alike(parts[0][0], sum(map(len, parts)), parts[0].dtype)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def step_parts(timed: Timed, gaps: Gaps) -> list[StepPart]:
    """The parts of the mean steady step on its device: what ran in order of the step, then idle time.

    Empty without device work.
    """
    if timed.device is None:
        return []
    spent = _Spent.join([*_on_device(timed, timed.device), _idle(timed, gaps, timed.device)])
    steps = timed.steps.steady_count
    inputs = Groups.of(spent.op, spent.shapes, spent.dtypes).index
    groups = _largest(Groups.of(inputs, spent.kernel, spent.part, spent.label), spent)
    merged = _merged(groups, spent)
    time, calls, by_batch = groups.sum(spent.ns), groups.sum(spent.begins), _by_batch(groups, spent, steps)
    return [
        StepPart(
            part=BUDGET[spent.part[i]],
            cls=_class_name(timed, int(spent.part[i]), int(spent.label[i])),
            op=None if merged[g] else timed.trace.text(int(spent.op[i])),
            shapes=None if merged[g] else _shown(timed.trace.text(int(spent.shapes[i]))),
            dtypes=None if merged[g] else _tensor_types(timed.trace.text(int(spent.dtypes[i]))),
            kernel=SMALLER if merged[g] else _kernel_name(timed, int(spent.part[i]), int(spent.kernel[i])),
            calls=float(calls[g]) / steps,
            ms=ms(time[g]) / steps,
            batch_ms=(by_batch[g] / NS_PER_MS).tolist(),
        )
        for g in _in_order(timed, groups, spent)
        for i in [groups.first[g]]
    ]


def _on_device(timed: Timed, device: int) -> list[_Spent]:
    ops, activity = timed.trace.device_ops, timed.activity[device]
    parts = (
        (timed.is_compute, activity.compute),
        (timed.is_communication, activity.exposed_communication),
        (timed.is_copy, activity.exposed_copy),
    )
    return [_running(timed, i, np.flatnonzero(which & (ops.device == device)), s) for i, (which, s) in enumerate(parts)]


def _running(timed: Timed, part: int, rows: I64, within: IntervalSet) -> _Spent:
    """What each of these device ops has of the time in the set."""
    ops = timed.trace.device_ops
    pieces = _cut(timed, ops.start[rows], ops.end[rows])
    rows = rows[pieces.row]
    op, shapes, dtypes = _operators(timed, timed.launch_node[rows])
    return _Spent.of(
        part,
        pieces,
        shared_time(pieces.start, pieces.end, within),
        label=timed.op_class[rows],
        op=op,
        shapes=shapes,
        dtypes=dtypes,
        kernel=ops.name[rows],
    )


def _idle(timed: Timed, gaps: Gaps, device: int) -> _Spent:
    rows = np.flatnonzero(gaps.device == device)
    pieces = _cut(timed, gaps.start[rows], gaps.end[rows])
    rows = rows[pieces.row]
    next_op, sync = gaps.next_op[rows], gaps.sync[rows]
    waited = sync >= 0
    node = at(timed.launch_node, next_op, -1)
    node[waited] = timed.tree.node_of_call[sync[waited]]
    call = at(timed.trace.api_calls.name, sync, -1)
    op, *_ = _operators(timed, node)
    none = alike(-1, len(op), np.int32)
    return _Spent.of(
        IDLE,
        pieces,
        (pieces.end - pieces.start).astype(np.float64),
        label=gaps.cause[rows].astype(np.int32),
        op=op,
        shapes=none,
        dtypes=none,
        kernel=call,
    )


def _cut(timed: Timed, start: I64, end: I64) -> _Pieces:
    """Intervals cut at the boundaries of the steady steps; what lies outside of these is left out."""
    steps = timed.steps
    bounds = np.append(steps.start[steps.steady], steps.end[-1])
    inside = np.flatnonzero((end > bounds[0]) & (start < bounds[-1]) & (end > start)).astype(np.int32)
    first = np.maximum(places(bounds, start[inside], side="right") - 1, 0).astype(np.int32)
    last = np.minimum(places(bounds, end[inside], side="left") - 1, len(bounds) - 2).astype(np.int32)
    count = last - first + 1
    row, step = np.repeat(inside, count), np.repeat(first - (np.cumsum(count, dtype=np.int32) - count), count)
    step += np.arange(len(step), dtype=np.int32)
    start, end = start[row], end[row]
    return _Pieces(row, step, np.maximum(start, bounds[step], out=start), np.minimum(end, bounds[step + 1], out=end))


def _operators(linked: Linked, launched_at: I32) -> tuple[I32, I32, I32]:
    """Codes of name, shapes and types of the operator around each of these nodes of the host tree, -1 where unknown."""
    owner = owner_nodes(linked, launched_at)
    known = np.flatnonzero(owner >= 0)
    known = known[linked.tree.kind[owner[known]] == RangeKind.OP]
    if not len(known):
        none = alike(-1, len(owner), np.int32)
        return none, none, none
    name, shapes, dtypes = (np.full(len(owner), -1, np.int32) for _ in range(3))
    ranges, rows = linked.trace.host_ranges, linked.tree.row[owner[known]]
    name[known], shapes[known], dtypes[known] = ranges.name[rows], ranges.shapes[rows], ranges.dtypes[rows]
    return name, shapes, dtypes


def _largest(groups: Groups, spent: _Spent) -> Groups:
    """The groups with the most time; the others put together, one a part of the budget."""
    if len(groups) <= MAX_ROWS:
        return groups
    kept = np.zeros(len(groups), bool)
    kept[np.argsort(-groups.sum(spent.ns), kind="stable")[:MAX_ROWS]] = True
    of_kept = kept[groups.index]
    return Groups.of(np.where(of_kept, groups.index, -1), np.where(of_kept, -1, spent.part.astype(np.int64)))


def _merged(groups: Groups, spent: _Spent) -> list[bool]:
    """Which groups hold different things."""
    differs = np.zeros(len(groups), bool)
    for key in (spent.op, spent.shapes, spent.dtypes, spent.kernel):
        if is_constant(key):
            continue
        differs[groups.index[key != key[groups.first][groups.index]]] = True
    return differs.tolist()


def _in_order(timed: Timed, groups: Groups, spent: _Spent) -> I64:
    """The groups by when they first run in a step; idle time last."""
    since = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(since, groups.index, spent.start - timed.steps.start[timed.steps.steady][spent.step])
    result: I64 = np.lexsort((since, spent.part[groups.first] == IDLE))
    return result


def _by_batch(groups: Groups, spent: _Spent, steps: int) -> F64:
    """Mean time a step of each group (row) in each batch of successive steps (column), ns."""
    batches = min(steps, MAX_BATCHES)
    batch_of_step = np.arange(steps) * batches // steps
    cell = groups.index * batches + batch_of_step[spent.step]
    total = np.bincount(cell, weights=spent.ns, minlength=len(groups) * batches).reshape(len(groups), batches)
    result: F64 = total / np.bincount(batch_of_step)
    return result


def _class_name(linked: Linked, part: int, label: int) -> str:
    return IdleCause(label).label if part == IDLE else linked.classes.names[label]


def _shown(text: str | None) -> str | None:
    return None if text is None else cut(text, SHAPES_LENGTH)


def _tensor_types(text: str | None) -> str | None:
    """`float, BFloat16` of `["float", "c10::BFloat16", "Scalar", "float"]`."""
    named = [name.removeprefix("c10::") for name in re.findall(r'"([^"]+)"', text or "")]
    return ", ".join(dict.fromkeys(name for name in named if not NO_TENSOR.search(name))) or None


def _kernel_name(linked: Linked, part: int, code: int) -> str | None:
    """Shortened, but of copies in full: what stands in brackets there is the kind of memory."""
    name = linked.trace.text(code)
    return name if name is None or BUDGET[part] == "exposed_copy" else short_name(name)
