"""Operators and annotations by name: host time, and device time of what they launched, a steady
step.

Host time and counts are those of `torch.profiler`'s `key_averages()`: total is an instance's
duration, self is total without what runs directly inside it (API calls too), an operator whose only
child has its own name is one call, `ProfilerStep#N` is one row. A device op belongs to the operator
around its launch call."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    Groups,
    Rows,
    at,
    blockwise_found,
    isin_few,
    scatter,
    stable_order,
)
from traceanalyzer.analysis.algebra.lazy_rows import LazyRows, lazy_rows
from traceanalyzer.analysis.joined.backward import backward_time
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.names.pytorch import BOOKKEEPING, STEP_PREFIX
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.roofline.roofline_rows import (
    Columns,
    RatedRow,
    by_subtree,
    entry,
    rated_columns,
    without_nan,
)
from traceanalyzer.analysis.tables.kernels import origins_of, shares_of_step
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, NS_PER_US, dataclass, maybe, metric, ms
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind, constant_column, narrowed

STEP_NAME = "ProfilerStep*"
BOOKKEEPING_CODE = -2
UNATTRIBUTED = "(launched by no recorded operator)"


@dataclass(frozen=True)
class OpTimes:
    """Times of the operators of one name (and input shapes, where asked for) in a mean steady
    step."""

    rank: int | None = metric("rank of the process")
    name: str = metric("operator or annotation")
    kind: str = metric(
        "`op`, `annotation`, or `none` for device work without a recorded operator", text="own"
    )
    shapes: str | None = metric("most common input shapes; null where they were not recorded")
    calls: float = metric("calls a step")
    host_total_ms: float = metric(
        "host time a step inside them (a nested call of the same name counts again)"
    )
    host_self_ms: float = metric(
        "host time a step inside them without the operators and API calls they make"
    )
    device_total_ms: float = metric(
        "sum of the durations a step of device ops launched anywhere inside them; a call inside one of its own name "
        "does not count again"
    )
    device_self_ms: float = metric(
        "sum of the durations a step of device ops they launch themselves"
    )
    share_of_step: float | None = metric(
        "device total as a share of the step; null if it has no length", "share"
    )
    device_mean_us: float | None = metric(
        "mean device total of a call; null for calls without device work"
    )
    device_p50_us: float | None = metric("median device total of a call")
    device_p95_us: float | None = metric("95th percentile of the device totals of the calls")
    kernels_per_call: float = metric("kernels launched anywhere inside a call")
    backward_share: float = metric("share of the calls made in the backward pass")
    backward_device_ms: float | None = metric(
        "device total a step, nested calls once, of the autograd nodes they gave rise "
        "to; null without any"
    )


@dataclass(frozen=True, kw_only=True)
class OpStats(RatedRow, OpTimes):
    """Operators of one name in a mean steady step; what they launched anywhere inside compared with
    the roofline."""

    module: str | None = maybe(
        "module of the model that most of them run for, forward or backward, with the one around it; null where that "
        "is none, or no calls of modules were recorded"
    )
    python: str | None = maybe(
        "function of the program, with the line of its `def`, that most of them come from, those of the backward "
        "pass by their forward operator; null where that is none, or stacks were not recorded"
    )
    recomputed_ms: float | None = maybe(
        "device total a step, nested calls once, of forward calls that run again in the backward pass; null "
        "where none does"
    )


class _Calls(NamedTuple):
    """The calls in the steady state, one entry each. What is summed over them is made column by
    column: of a recording of gigabytes there are millions."""

    node: I32
    name: I32  # code of the name they are grouped under
    host_self: I64  # time of the call that lies in no call inside it, ns
    around: I32  # for each node of the host tree the innermost call around it, -1 without


def op_stats(rated: WithRoofline, *, by_shape: bool = False) -> Sequence[OpStats]:
    """A row for each operator name (and input shapes), by device total, then host self time, made
    when it is asked for.

    Device ops of the steady state that no row's operator launched are in a row of their own, so the
    column `device_self_ms` sums to all device time."""
    calls = _calls(rated.timed)
    ranges = rated.trace.host_ranges
    rows = rated.linked.tree.row[calls.node]
    keys = (calls.name, ranges.kind[rows], ranges.shapes[rows])
    groups = Groups.of(*keys if by_shape else keys[:2])
    del keys, rows
    outer = _outermost(groups, calls.node, rated.linked.tree)
    times, device_self = _times(rated.timed, calls, groups, outer)
    columns = _columns(rated, calls, groups, outer) | times
    left = _unattributed(rated, int(device_self.sum()))

    def row(group: int) -> OpStats:
        if group == len(device_self) and left is not None:
            return left
        return OpStats(rank=rated.trace.rank, **entry(columns, group))

    device_ms = [*times["device_total_ms"], *([left.device_total_ms] if left else [])]
    host_ms = [*times["host_self_ms"], *([left.host_self_ms] if left else [])]
    by_time = np.lexsort((-np.array(host_ms), -np.array(device_ms)))
    return lazy_rows(by_time.tolist(), row)


def _unattributed(rated: WithRoofline, device_self_ns: int) -> OpStats | None:
    """The row of the steady device ops that no row's operator launched; None where there are none."""
    ops = rated.trace.device_ops
    steady = rated.timed.steady_ops
    left = int((ops.end - ops.start)[steady].sum()) - device_self_ns
    if not left:
        return None
    time = ms(left) / rated.timed.steps.steady_count
    return OpStats(
        rank=rated.trace.rank,
        name=UNATTRIBUTED,
        kind="none",
        shapes=None,
        calls=0.0,
        host_total_ms=0.0,
        host_self_ms=0.0,
        device_total_ms=time,
        device_self_ms=time,
        device_mean_us=None,
        device_p50_us=None,
        device_p95_us=None,
        kernels_per_call=0.0,
        backward_share=0.0,
        backward_device_ms=None,
        share_of_step=shares_of_step(rated.timed, np.array([float(left)]))[0],
    )


def _calls(timed: Timed) -> _Calls:
    tree = timed.linked.tree
    strings = timed.trace.strings
    # Profiler steps go together, API calls have -1. Marks of a server's iterations hold everything
    # and tell nothing.
    code = np.arange(len(strings), dtype=np.int32)
    steps = [i for i, text in enumerate(strings) if text.startswith(STEP_PREFIX)]
    code[steps] = steps[:1] * len(steps)
    code[[i for i, text in enumerate(strings) if text in BOOKKEEPING or iteration(text)]] = (
        BOOKKEEPING_CODE
    )
    name = tree.of_ranges(narrowed(code)[timed.trace.host_ranges.name], -1)
    counted = (name != BOOKKEEPING_CODE) & (tree.kind != RangeKind.LIBRARY)
    inner = _Inner(tree, counted, tree.innermost(counted))
    outer = _whole(inner, name)
    call = inner.nearest if outer is counted else tree.innermost(outer)
    shown = isin_few(tree.kind, (RangeKind.OP, RangeKind.ANNOTATION))
    node = np.flatnonzero(outer & shown & timed.steady_host(tree.start)).astype(np.int32)
    return _Calls(node, name[node], _self_time(inner, node, call), call)


def _times(timed: Timed, calls: _Calls, groups: Groups, outer: Bool) -> tuple[Columns, F64]:
    """The columns of `OpTimes` that are of the calls, and the device time that each group launches
    itself, ns. `outer`: which calls run inside none of their own group."""
    tree = timed.linked.tree
    steps = timed.steps.steady_count
    node = calls.node
    device = _DeviceTimes.of(timed, calls, groups, outer)
    a_step = {
        "host_total_ms": groups.sum(tree.end[node] - tree.start[node]),
        "host_self_ms": groups.sum(calls.host_self),
        "device_total_ms": device.total,
        "device_self_ms": device.own,
        "backward_device_ms": device.backward,
        "recomputed_ms": device.again,
    }
    of_a_call = {
        "device_mean_us": device.of_calls / groups.count,
        "device_p50_us": device.median,
        "device_p95_us": device.p95,
    }
    unit = np.where(device.total > 0, NS_PER_US, np.nan)  # of what has no device work no figure
    us_a_call = {name: ns / unit for name, ns in of_a_call.items()}
    columns: Columns = {
        "calls": without_nan(groups.count / steps),
        **{name: without_nan(ns / NS_PER_MS / steps) for name, ns in a_step.items()},
        "share_of_step": shares_of_step(timed, device.total),
        **{name: without_nan(us) for name, us in us_a_call.items()},
        "kernels_per_call": without_nan(device.kernels / groups.count),
        "backward_share": without_nan(groups.sum(timed.joined.in_backward[node]) / groups.count),
    }
    return columns, device.own


class _DeviceTimes(NamedTuple):
    """Time on the device that groups of calls make, ns; a number a group."""

    of_calls: F64  # of each call all that is launched anywhere inside it
    total: F64  # the same without calls inside one of their own group
    median: F64  # of a call
    p95: F64
    again: F64  # of forward calls that run again; NaN where none does
    backward: F64  # of the autograd nodes that they gave rise to; NaN without any
    own: F64  # what they launch themselves
    kernels: F64  # kernels launched anywhere inside of each call

    @classmethod
    def of(cls, timed: Timed, calls: _Calls, groups: Groups, outer: Bool) -> "_DeviceTimes":
        """The device times of calls in these groups. Columns as long as all calls are let go of one
        by one."""
        tree = timed.linked.tree
        node = calls.node
        size = len(tree.start)
        launched_at = np.where(timed.steady_ops, timed.joined.launch_node, -1)
        owner = at(calls.around, owner_nodes(timed.linked, launched_at), -1)
        length = timed.trace.device_ops.end - timed.trace.device_ops.start
        launched = _sum_at(launched_at, length, size)
        time = tree.subtree_sum(launched, node)
        median, p95 = groups.quantiles(time, 0.5, 0.95)
        of_calls = groups.sum(time)
        total = groups.sum(time * outer)
        again = groups.sum(time * (outer & timed.joined.run_again[node]))
        del time
        kernels = tree.subtree_sum(_sum_at(launched_at, timed.linked.is_kernel, size), node)
        return cls(
            of_calls=of_calls,
            total=total,
            median=median,
            p95=p95,
            again=np.where(again > 0, again, np.nan),
            backward=_backward(timed, launched, node, groups, outer),
            own=groups.sum(_sum_at(owner, length, size)[node]),
            kernels=groups.sum(kernels),
        )


def _backward(timed: Timed, launched: I64, node: I32, groups: Groups, outer: Bool) -> F64:
    """Device time of the autograd nodes that each group of calls gave rise to, ns; NaN without
    any."""
    time = backward_time(timed.linked, launched, timed.joined.in_backward, node)
    known = groups.sum(time >= 0)
    total = groups.sum(np.maximum(time, 0, out=time) * outer)
    return np.where(known > 0, total, np.nan)


class _Inner(NamedTuple):
    """Nodes that are `counted`: calls, or part of one of the same name."""

    tree: HostTree
    counted: Bool
    nearest: (
        I32  # for each node the innermost counted one among itself and those around it, -1 without
    )

    def within(self, part: slice) -> tuple[I64, I32]:
        """The counted ones of these nodes, and the counted one around each, -1 without."""
        rows = part.start + np.flatnonzero(self.counted[part])
        return rows, at(self.nearest, self.tree.parent[rows], -1)


def _whole(inner: _Inner, name: I32) -> Bool:
    """Which nodes are calls. An operator that does nothing but call one of its own name is one call
    with it."""

    def same(part: slice) -> tuple[I64, I32]:
        rows, above = inner.within(part)
        alike_ = (above >= 0) & (name[rows] == name[above])
        return rows[alike_], above[alike_]

    def around(part: slice) -> tuple[I32, np.int32]:
        above = inner.within(part)[1]
        return above[above >= 0], np.int32(1)

    size = len(name)
    rows, above = blockwise_found(same, Rows(size))
    if not len(rows):
        return inner.counted
    within = scatter(np.add, np.zeros(size, np.int32), around, Rows(size))
    outer = inner.counted.copy()
    outer[rows[within[above] <= 1]] = False
    return outer


def _self_time(inner: _Inner, node: I32, call: I32) -> I64:
    """For each of these calls (ascending) its time that lies in no call inside it, ns; of nodes
    that are not counted it is their parent's. `call`: the innermost call around each node, -1
    without."""
    tree = inner.tree
    result = np.zeros(len(node), np.int64)
    place = np.full(len(call) + 1, -1, np.int32)
    place[node] = np.arange(len(node), dtype=np.int32)

    def spent(part: slice) -> tuple[I32, I64]:
        rows, above = inner.within(part)
        caller = place.take(call[rows])
        around = place.take(at(call, above, -1))
        owned = np.flatnonzero(caller >= 0)
        its = np.flatnonzero(around >= 0)
        own = tree.end[rows[owned]] - tree.start[rows[owned]]
        # What sticks out of the range around it is no time of that range.
        end = np.minimum(tree.end[rows[its]], tree.end[above[its]])
        return np.concatenate((caller[owned], around[its])), np.concatenate(
            (own, tree.start[rows[its]] - end)
        )

    return scatter(np.add, result, spent, Rows(len(call)))


def _outermost(groups: Groups, node: I32, tree: HostTree) -> Bool:
    """Which calls (nodes, ascending) run inside none of their own group."""
    result = np.ones(len(node), bool)
    if not len(result):
        return result
    order = stable_order(groups.index)
    subtree_end = tree.subtree_end[node]
    block = groups.index[order].astype(np.int64) * (int(subtree_end.max()) + 1)
    reach = np.maximum.accumulate(block + subtree_end[order])
    begins = block + node[order]
    result[order[1:]] = reach[:-1] <= begins[1:]
    return result


def _sum_at(node: I32 | I64, values: I64 | Bool, size: int) -> I64:
    """For each of `size` nodes the sum of the values that belong to it (-1: to none)."""

    def known(node: I32 | I64, values: I64 | Bool) -> tuple[I32 | I64, I64 | Bool]:
        belongs = node >= 0
        return node[belongs], values[belongs]

    return scatter(np.add, np.zeros(size, np.int64), known, node, values)


def _columns(rated: WithRoofline, calls: _Calls, groups: Groups, outer: Bool) -> Columns:
    """The columns that say what the groups are, and those of `RatedRow`."""
    trace = rated.trace
    tree = rated.linked.tree
    name = calls.name[groups.first]
    is_operator = trace.host_ranges.kind[tree.row[calls.node[groups.first]]] == RangeKind.OP
    shapes = groups.most_common(trace.host_ranges.shapes[tree.row[calls.node]])
    alike_calls = constant_column(1, len(calls.node), np.int64)
    module, line = origins_of(rated.joined, groups, calls.node, alike_calls)
    every = range(len(groups))
    return {
        "name": LazyRows(every, lambda group: _shown_name(trace.strings[name[group]])),
        "kind": LazyRows(every, lambda group: "op" if is_operator[group] else "annotation"),
        "shapes": LazyRows(every, lambda group: trace.text(int(shapes[group]))),
        "module": module,
        "python": line,
        **_against_roofline(rated, calls, groups, outer),
    }


def _shown_name(name: str) -> str:
    """Steps of the profiler go together."""
    return STEP_NAME if name.startswith(STEP_PREFIX) else name


def _against_roofline(rated: WithRoofline, calls: _Calls, groups: Groups, outer: Bool) -> Columns:
    """The columns of `RatedRow`: of what is launched inside the calls, nested ones once."""
    tree = rated.linked.tree
    node = calls.node[outer]
    launched_at = np.where(rated.timed.steady_ops, rated.joined.launch_node, -1)
    end = tree.subtree_end[node]
    of_calls = by_subtree(launched_at, node, end, groups.index[outer], len(groups))
    return rated_columns(rated, of_calls)
