"""The steady step's wall-clock time in its smallest named parts: a partition, so parts of two runs
can be subtracted.

Every nanosecond of a step's window on its device belongs to one row: to the operator, input shapes
and kernel that ran (compute before exposed communication before exposed copies, as in the budget; a
moment with several of the same part is split evenly between them), or to a cause of idle time and
the place it is charged to."""

import re
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    Groups,
    IntervalSet,
    at,
    blockwise,
    flatnonzero32,
    local_searchsorted,
    shared_time,
    where_changed,
)
from traceanalyzer.analysis.algebra.blocks import in_blocks
from traceanalyzer.analysis.causes.gaps import Gaps
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.linked import TraceJoins, owner_nodes
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, cut, dataclass, metric, ms, regex
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind, constant_column, narrowed

BUDGET = ("compute", "exposed_communication", "exposed_copy", "idle")
"""The parts of the budget, in the order of `Budget`."""
IDLE = BUDGET.index("idle")
MAX_ROWS = 1000
"""Programs with changing shapes have tens of thousands of rows; those after the longest thousand
are one a part."""
SMALLER = "(smaller ones)"
MAX_BATCHES = 16
"""Means of this many groups of successive steps tell the spread as well as all steps do; see
`StepPart.batch_ms`."""
NO_TENSOR = regex(r"Scalar|List|^$")
"""Types of inputs that are no tensors, and of lists, whose elements' types are not recorded."""
SHAPES_LENGTH = 200  # characters of the shapes: those of fused optimizers name hundreds of tensors


@dataclass(frozen=True)
class StepPart:
    """One part of the mean steady step. The `ms` of all parts sum to the mean step time."""

    part: str = metric(
        "part of the budget: `compute`, `exposed_communication`, `exposed_copy` or `idle`",
        text="own",
    )
    cls: str = metric("class of work; of idle time its cause", text="own")
    op: str | None = metric(
        "operator that launched the work; of idle time the one that ended it, or that waited"
    )
    shapes: str | None = metric(
        "input shapes of the operator; null where they were not recorded, and of idle time"
    )
    dtypes: str | None = metric(
        "types of its input tensors, each once; null where they were not recorded"
    )
    kernel: str | None = metric("kernel or copy, shortened; of idle time the API call that waited")
    calls: float = metric("device ops a step; of idle time gaps")
    ms: float = metric("wall-clock time of the step that is theirs")
    batch_ms: list[float] = metric(
        "that time in each of up to 16 groups of successive steps (each step where there are fewer), for the spread "
        "of the mean: the method of batch means"
    )


class _Pieces(NamedTuple):
    """Stretches of time that do not cross the boundary of a step."""

    row: I32  # index of what was cut
    step: I32  # steady step, from 0
    start: I64
    end: I64


class _Keys(NamedTuple):
    """What time was spent on, of each stretch or of each kind of them; texts are codes of the
    trace's strings, -1: none."""

    op: I32
    shapes: I32
    dtypes: I32
    kernel: I32
    label: I32  # index of the class of work; of idle time the cause

    def take(self, rows: I64) -> "_Keys":
        return _Keys(*(key[rows] for key in self))


@dataclass(frozen=True, eq=False)
class _Spent:
    """The time of one part of the budget by what it was spent on: kinds of stretches, and the
    stretches."""

    part: int  # index into `BUDGET`
    keys: _Keys  # of each kind
    calls: F64  # for each kind how many device ops or gaps begin (what was cut counts once)
    since: I64  # for each kind how long after the beginning of a step it is first met
    first: I64  # for each kind its first stretch
    kind: NDArray[Any]  # of each stretch; of as few bytes as the columns need
    step: NDArray[Any]
    ns: NDArray[Any]

    @classmethod
    def of(
        cls,
        timed: Timed,
        part: int,
        pieces: _Pieces,
        ns: F64 | I64,
        keys: _Keys,
    ) -> "_Spent":
        """The time of the pieces, all of one part of the budget, each with what it was spent on."""
        kinds = Groups.of(*keys)
        begun = timed.steps.start[timed.steps.steady]
        rounded = ns.astype(np.int64)
        return cls(
            part=part,
            keys=keys.take(kinds.first),
            calls=kinds.sum(where_changed(pieces.row)),
            since=_least(kinds, pieces.start - begun[pieces.step]),
            first=kinds.first,
            kind=kinds.index,
            step=narrowed(pieces.step),
            ns=narrowed(rounded) if ns.dtype.kind == "i" or (rounded == ns).all() else ns,
        )

    @classmethod
    def joined(cls, parts: "list[_Spent]") -> "_Spent":
        """The time of several stretches of one part of the budget, which follow each other."""
        keys = _keys_of(parts)
        kinds = Groups.of(*keys)
        stretches = [len(part.ns) for part in parts]
        before = np.cumsum([0, *stretches])[:-1]
        first = [part.first + count for part, count in zip(parts, before, strict=True)]
        of_kind = _parted(narrowed(kinds.index), [len(part.since) for part in parts])
        kind = [joined[part.kind] for part, joined in zip(parts, of_kind, strict=True)]
        return cls(
            part=parts[0].part,
            keys=keys.take(kinds.first),
            calls=kinds.sum(_of_all(parts, "calls")),
            since=_least(kinds, _of_all(parts, "since")),
            first=np.concatenate(first)[kinds.first],
            kind=np.concatenate(kind),
            step=_of_all(parts, "step"),
            ns=_of_all(parts, "ns"),
        )

    def by_kind(self) -> F64:
        """Time of each kind, ns."""
        return self.time(np.arange(len(self.calls)), len(self.calls))

    def time(self, row: I64, rows: int) -> F64:
        """Time of each of so many rows, ns; `row`: the row of each kind."""
        return np.bincount(row[self.kind], self.ns, rows).astype(np.float64)

    def time_by_batch(self, row: I64, rows: int, batch_of_step: I64, batches: int) -> F64:
        """Time of each of so many rows in each of so many batches of steps (column), ns."""
        cell = row[self.kind]
        cell *= batches
        cell += batch_of_step[self.step]
        return np.bincount(cell, self.ns, rows * batches).astype(np.float64).reshape(rows, batches)


def _of_all(parts: list[_Spent], column: str) -> NDArray[Any]:
    return np.concatenate([getattr(one, column) for one in parts])


def _keys_of(parts: list[_Spent]) -> _Keys:
    keys = zip(*(part.keys for part in parts), strict=True)
    return _Keys(*map(np.concatenate, keys))


def _small(spent: list[_Spent], ordered: I64) -> Bool:
    """Which kinds are none of the `MAX_ROWS` with most time, of those with equal time the first in
    this order."""
    time = np.concatenate([one.by_kind() for one in spent])
    longest_first = ordered[np.argsort(-time[ordered], kind="stable")]
    small = np.zeros(len(time), bool)
    small[longest_first[MAX_ROWS:]] = True
    return small


def _parted(values: NDArray[Any], counts: list[int]) -> list[NDArray[Any]]:
    """So many values each, one after the other."""
    return np.split(values, np.cumsum(counts)[:-1])


def _least(groups: Groups, values: I64) -> I64:
    """The least value of each group."""
    least = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(least, groups.index, values)
    return least


class _Rows(NamedTuple):
    """The rows that are shown, in the order of their keys: each kind with much time, and the others
    of each part of the budget put together."""

    of_kind: list[I64]  # for each part of the budget the row of each of its kinds
    part: I64  # index into `BUDGET` of each row
    keys: _Keys  # what the first stretch of each row was spent on
    mixed: Bool  # which rows hold different things
    calls: F64
    since: I64

    @classmethod
    def of(cls, spent: list[_Spent]) -> "_Rows":
        """The rows of these parts of the budget."""
        kinds_of = [len(one.calls) for one in spent]
        part = np.repeat([one.part for one in spent], kinds_of)
        keys = _keys_of(spent)
        last_first = (keys.label, part, keys.kernel, keys.dtypes, keys.shapes, keys.op)
        ordered = np.lexsort(last_first)
        place = np.empty(len(part), np.int64)
        place[ordered] = np.arange(len(part))
        small = _small(spent, ordered)
        shown = np.where(small, -1, place)
        rows = Groups.of(shown, np.where(small, part, -1))
        met = np.lexsort((_of_all(spent, "first"), part))
        lead = met[Groups.of(rows.index[met]).first]
        mixed = np.zeros(len(rows), bool)
        for key in (keys.op, keys.shapes, keys.dtypes, keys.kernel):
            mixed[rows.index[key != key[lead][rows.index]]] = True
        return cls(
            of_kind=_parted(rows.index, kinds_of),
            part=part[lead],
            keys=keys.take(lead),
            mixed=mixed,
            calls=rows.sum(_of_all(spent, "calls")),
            since=_least(rows, _of_all(spent, "since")),
        )


def step_parts(timed: Timed, gaps: Gaps) -> list[StepPart]:
    """The parts of the mean steady step on its device: what ran in order of the step, then idle
    time.

    Empty without device work."""
    if timed.device is None:
        return []
    spent = _all_spent(timed, gaps, timed.device)
    rows = _Rows.of(spent)
    steps = timed.steps.steady_count
    batches = min(steps, MAX_BATCHES)
    batch = np.arange(steps) * batches // steps
    count = len(rows.part)
    time = np.zeros(count)
    by_batch = np.zeros((count, batches))
    for part, row in zip(spent, rows.of_kind, strict=True):
        time = time + part.time(row, count)
        by_batch = by_batch + part.time_by_batch(row, count, batch, batches)
    by_batch = by_batch / np.bincount(batch) / NS_PER_MS
    calls = rows.calls / steps
    return [
        StepPart(
            **_named(timed, rows, i),
            calls=float(calls[i]),
            ms=ms(time[i]) / steps,
            batch_ms=by_batch[i].tolist(),
        )
        for i in np.lexsort((rows.since, rows.part == IDLE)).tolist()
    ]


def _all_spent(timed: Timed, gaps: Gaps, device: int) -> list[_Spent]:
    """The time of each part of the budget."""
    idle = flatnonzero32(gaps.device == device)
    waiting = in_blocks(partial(_idle_here, timed, gaps), idle)
    on_device = timed.trace.device_ops.device == device
    activity = timed.activity[device]
    running = (
        (timed.linked.is_compute, activity.compute),
        (timed.linked.is_communication, activity.exposed_communication),
        (timed.linked.is_copy, activity.exposed_copy),
    )
    spent = [
        _running(timed, part, flatnonzero32(chosen & on_device), within)
        for part, (chosen, within) in enumerate(running)
    ]
    return [*spent, _Spent.joined(waiting)]


def _named(timed: Timed, rows: _Rows, row: int) -> dict[str, Any]:
    """What a row was spent on, in words: the fields of `StepPart` but its figures."""
    mixed = bool(rows.mixed[row])
    keys = rows.keys

    def text(codes: I32) -> str | None:
        return None if mixed else timed.trace.text(int(codes[row]))

    part = BUDGET[rows.part[row]]
    label = keys.label[row]
    kernel = text(keys.kernel)
    # Copies in full: brackets name the kind of memory.
    if kernel is not None and part != "exposed_copy":
        kernel = short_name(kernel)
    shapes = text(keys.shapes)
    return {
        "part": part,
        "cls": IdleCause(label).label if part == "idle" else timed.linked.classes.names[label],
        "op": text(keys.op),
        "shapes": None if shapes is None else cut(shapes, SHAPES_LENGTH),
        "dtypes": _tensor_types(text(keys.dtypes)),
        "kernel": SMALLER if mixed else kernel,
    }


def _tensor_types(dtypes: str | None) -> str | None:
    """The types of tensors in a text of input types, each once."""
    named = [name.removeprefix("c10::") for name in re.findall(r'"([^"]+)"', dtypes or "")]
    types = dict.fromkeys(name for name in named if not NO_TENSOR.search(name))
    return ", ".join(types) or None


def _running(timed: Timed, part: int, rows: I32, within: IntervalSet) -> _Spent:
    """What each of these device ops has of the time in the set."""
    ops = timed.trace.device_ops
    make = partial(_running_here, timed, part, within)

    def is_apart(row: I32, after: I32) -> Bool:
        return ops.start[after] >= ops.end[row]

    apart = blockwise(is_apart, rows[:-1], rows[1:])
    return _Spent.joined(in_blocks(make, rows) if apart.all() else [make(rows)])


def _running_here(timed: Timed, part: int, within: IntervalSet, rows: I32) -> _Spent:
    """What each of these device ops, beside which no others run, has of the time in the set."""
    ops = timed.trace.device_ops
    pieces = _cut(timed, ops.start[rows], ops.end[rows])
    ns = shared_time(pieces.start, pieces.end, within)
    rows = rows[pieces.row]
    op, shapes, dtypes = _operators(timed.linked, timed.joined.launch_node[rows])
    return _Spent.of(
        timed,
        part,
        pieces,
        ns,
        _Keys(op, shapes, dtypes, ops.name[rows], timed.linked.op_class[rows]),
    )


def _idle_here(timed: Timed, gaps: Gaps, rows: I32) -> _Spent:
    """What these gaps wait for."""
    pieces = _cut(timed, gaps.start[rows], gaps.end[rows])
    ns = pieces.end - pieces.start
    rows = rows[pieces.row]
    next_op = gaps.next_op[rows]
    sync = gaps.sync[rows]
    waited = sync >= 0
    node = at(timed.joined.launch_node, next_op, -1)
    node[waited] = timed.linked.tree.node_of_call[sync[waited]]
    call = at(timed.trace.api_calls.name, sync, -1)
    op = _operators(timed.linked, node)[0]
    none = constant_column(-1, len(op), np.int32)
    cause = gaps.cause[rows].astype(np.int32)
    return _Spent.of(timed, IDLE, pieces, ns, _Keys(op, none, none, call, cause))


def _cut(timed: Timed, start: I64, end: I64) -> _Pieces:
    """Intervals cut at the boundaries of the steady steps; what lies outside of these is left
    out."""
    steps = timed.steps
    bounds = np.append(steps.start[steps.steady], steps.end[-1])
    in_steps = (end > bounds[0]) & (start < bounds[-1])
    inside = flatnonzero32(in_steps & (end > start))
    begun = local_searchsorted(bounds, start[inside], side="right") - 1
    first = np.maximum(begun, 0).astype(np.int32)
    last = local_searchsorted(bounds, end[inside], side="left") - 1
    last = np.minimum(last, len(bounds) - 2).astype(np.int32)
    row = inside
    step = first
    if (last > first).any():
        count = last - first + 1
        row = np.repeat(inside, count)
        step = np.repeat(first - (np.cumsum(count, dtype=np.int32) - count), count)
        step += np.arange(len(step), dtype=np.int32)
    begin = np.maximum(start[row], bounds[step])
    return _Pieces(row, step, begin, np.minimum(end[row], bounds[step + 1]))


def _operators(linked: TraceJoins, launched_at: I32) -> tuple[I32, I32, I32]:
    """Codes of name, shapes and types of the operator around each of these nodes of the host tree,
    -1 where unknown."""
    owner = owner_nodes(linked, launched_at)
    known = np.flatnonzero(owner >= 0)
    known = known[linked.tree.kind[owner[known]] == RangeKind.OP]
    if not len(known):
        none = constant_column(-1, len(owner), np.int32)
        return none, none, none
    name = np.full(len(owner), -1, np.int32)
    shapes = np.full(len(owner), -1, np.int32)
    dtypes = np.full(len(owner), -1, np.int32)
    ranges = linked.trace.host_ranges
    rows = linked.tree.row[owner[known]]
    name[known] = ranges.name[rows]
    shapes[known] = ranges.shapes[rows]
    dtypes[known] = ranges.dtypes[rows]
    return name, shapes, dtypes
