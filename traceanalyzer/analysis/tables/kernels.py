"""Kernels by name and device work by class, a steady step."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import Groups, blockwise, compact, flatnonzero32, weighted_mode
from traceanalyzer.analysis.algebra.lazy_rows import LazyRows, lazy_rows
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.joined.origins import places_of
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.rated import KernelMeasures, MeasuredRow, WithRoofline
from traceanalyzer.analysis.roofline.roofline_rows import (
    Columns,
    RatedRow,
    by_group,
    entry,
    rated_columns,
    without_nan,
)
from traceanalyzer.analysis.roofline.waves import occupancy_of, residence_of
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_US, dataclass, maybe, metric, ms
from traceanalyzer.trace import F64, I32, I64, DeviceOpKind, DeviceOps, OccupancyLimit


@dataclass(frozen=True)
class KernelTimes:
    """Times of the kernels of one name in a mean steady step."""

    rank: int | None = metric("rank of the process")
    name: str = metric("kernel name, shortened")
    full_name: str = metric("kernel name as recorded")
    cls: str = metric("class of work, from the name", text="own")
    calls: float = metric("kernels a step")
    total_ms: float = metric("sum of their durations a step (they may run side by side)")
    share_of_step: float | None = metric(
        "that sum as a share of the step, at most 1; null if it has no length", "share"
    )
    share_of_device: float = metric(
        "that sum as a share of the durations of all kernels and graphs", "share"
    )
    mean_us: float = metric("mean duration")
    p50_us: float = metric("median duration")
    p95_us: float = metric("95th percentile of the durations")
    min_us: float = metric("shortest")
    max_us: float = metric("longest")
    op: str | None = metric(
        "operator that launches most of them; null where launches were not recorded"
    )


@dataclass(frozen=True, kw_only=True)
class KernelStats(MeasuredRow, RatedRow, KernelTimes):
    """Kernels of one name in a mean steady step, compared with the roofline."""

    tensor_cores: bool | None = maybe(
        "whether matrix kernels use tensor cores; null for others and where the name does not tell"
    )
    waves: float | None = maybe(
        "mean over their time of blocks over the blocks that the GPU holds at a time: far below 1 it is not filled, "
        "just above a whole number the last wave runs nearly empty"
    )
    occupancy_share: float | None = maybe(
        "mean over their time of the share of the SMs' warps that are resident: as the recorder expected it, else from "
        "the launch configuration and the GPU's limits; null where neither tells"
    )
    module: str | None = maybe(
        "module of the model that most of their time is for, forward or backward, with the one around it; null where "
        "that is none, or no calls of modules were recorded"
    )
    python: str | None = maybe(
        "function of the program, with the line of its `def`, that most of their time comes from, the backward "
        "pass's by its forward operator; null where that is none, or stacks were not recorded"
    )
    occupancy_limit: str | None = maybe(
        "what keeps more blocks of most of them from an SM: warps (threads), registers, shared memory, blocks or "
        "barriers; null where it is not known"
    )
    graph_nodes: int | None = maybe(
        "distinct nodes of CUDA graphs that they are; null outside graphs, or where "
        "nodes were not recorded"
    )
    launch_options: str | None = maybe(
        "options with which a kernel generator (Triton) launches most of them; null "
        "where none are recorded"
    )
    launch_shape: str | None = maybe(
        (
            "grid, block, registers of a thread and shared memory of a block of the first of "
            "them; null where not recorded"
        ),
        text="own",
    )


@dataclass(frozen=True)
class ClassStats:
    """Device work of one class in a mean steady step."""

    rank: int | None = metric("rank of the process")
    cls: str = metric("class of work", text="own")
    title: str = metric("what the class holds", text="sentence")
    bound: str = metric("what usually limits its kernels: compute or memory", text="own")
    calls: float = metric("device ops a step")
    total_ms: float = metric("sum of their durations a step (they may run side by side)")
    share_of_step: float | None = metric(
        "that sum as a share of the step, at most 1; null if it has no length", "share"
    )
    share_of_device: float = metric(
        "that sum as a share of the durations of all device ops", "share"
    )


@dataclass(frozen=True, eq=False)
class KernelGroups:
    """Kernels and whole graphs of the steady state by name: what the columns are made of."""

    rated: WithRoofline
    rows: I32  # device ops
    length: I32 | I64  # of each, ns
    groups: Groups

    @classmethod
    def of(cls, rated: WithRoofline) -> "KernelGroups":
        """The steady kernels and graphs of a recording."""
        ops = rated.trace.device_ops
        named = rated.linked.is_kernel | (ops.kind == DeviceOpKind.GRAPH)
        rows = flatnonzero32(rated.timed.steady_ops & named)
        length = compact(ops.end[rows] - ops.start[rows])
        return cls(rated, rows, length, Groups.of(ops.name[rows]))

    @cached_property
    def total(self) -> F64:
        """Time of each group, ns."""
        return self.groups.sum(self.length)

    @cached_property
    def first(self) -> I32:
        """The first device op of each group."""
        return self.rows[self.groups.first]

    def each(self, make: Callable[[int], Any]) -> LazyRows[Any]:
        """What this makes of each group."""
        return LazyRows(range(len(self.groups)), make)

    def name(self, group: int) -> str:
        """The name of a group as recorded."""
        code = int(self.rated.trace.device_ops.name[self.first[group]])
        return self.rated.trace.text(code) or "(no name)"

    @cached_property
    def quantiles(self) -> list[F64]:
        """Shortest, median, 95th percentile and longest of each group, ns."""
        return self.groups.quantiles(self.length, 0, 0.5, 0.95, 1)

    @cached_property
    def origins(self) -> tuple[list[str | None], list[str | None]]:
        """Module and line of Python that most time of each group is for."""
        nodes = self.rated.joined.launch_node[self.rows]
        return origins_of(self.rated.joined, self.groups, nodes, self.length)


def _classes(kernels: KernelGroups) -> LazyRows[Any]:
    names = kernels.rated.linked.classes.names
    numbers = kernels.rated.linked.op_class[kernels.first]
    return kernels.each(lambda group: names[numbers[group]])


def _a_step(kernels: KernelGroups, values: I64 | F64) -> LazyRows[Any]:
    steps = kernels.rated.timed.steps.steady_count
    return kernels.each(lambda group: values[group].item() / steps)


def _total_ms(kernels: KernelGroups) -> LazyRows[Any]:
    steps = kernels.rated.timed.steps.steady_count
    total = kernels.total
    return kernels.each(lambda group: ms(total[group].item()) / steps)


def _share_of_device(kernels: KernelGroups) -> LazyRows[Any]:
    all_ns = max(float(kernels.length.sum()), 1.0)
    total = kernels.total
    return kernels.each(lambda group: total[group].item() / all_ns)


def _in_us(ns: F64) -> list[Any]:
    return (ns / NS_PER_US).tolist()


def _operators(kernels: KernelGroups) -> LazyRows[Any]:
    return _most_common_text(kernels, kernels.rated.trace.host_ranges.name)


def _launch_options(kernels: KernelGroups) -> LazyRows[Any]:
    return _most_common_text(kernels, kernels.rated.trace.host_ranges.launch)


def _most_common_text(kernels: KernelGroups, codes: I32) -> LazyRows[Any]:
    """The text that most of each group have in this column of the operators that launched them."""
    of_rows = _of_operators(kernels.rated.joined, kernels.rows, codes)
    text = kernels.rated.trace.text
    commonest = kernels.groups.most_common(of_rows)
    return kernels.each(lambda group: text(int(commonest[group])))


def _tensor_cores(kernels: KernelGroups) -> LazyRows[Any]:
    tensor = kernels.rated.roofline.tensor[kernels.first]
    return kernels.each(lambda group: None if tensor[group] < 0 else bool(tensor[group]))


def _waves(kernels: KernelGroups) -> list[Any]:
    return _mean(kernels, lambda rows: kernels.rated.roofline.waves[rows])


def _occupancy(kernels: KernelGroups) -> list[Any]:
    return _mean(kernels, partial(occupancy_of, kernels.rated.linked))


def _occupancy_limits(kernels: KernelGroups) -> LazyRows[Any]:
    limits = kernels.rated.linked.memo(residence_of).limits[kernels.rows]
    commonest = kernels.groups.most_common(limits)
    return kernels.each(lambda group: _limit(int(commonest[group])))


def _graph_nodes(kernels: KernelGroups) -> list[Any]:
    """How many distinct nodes of graphs each group's ops are."""
    ops = kernels.rated.trace.device_ops
    inside = np.flatnonzero(ops.graph_node[kernels.rows] >= 0)
    rows = kernels.rows[inside]
    group = kernels.groups.index[inside]
    nodes = Groups.of(group, ops.graph[rows], ops.graph_node[rows])
    count = np.bincount(group[nodes.first], minlength=len(kernels.groups))
    return [number or None for number in count.tolist()]


def _launch_shapes(kernels: KernelGroups) -> LazyRows[Any]:
    ops = kernels.rated.trace.device_ops
    first = kernels.first
    return kernels.each(lambda group: _launch_shape(ops, int(first[group])))


def _columns(kernels: KernelGroups) -> Columns:
    """The columns that are of the kernels themselves, an entry a group; `RatedRow` and
    `MeasuredRow` have the others."""
    shortest, median, p95, longest = kernels.quantiles
    module, line = kernels.origins
    return {
        "name": kernels.each(lambda group: short_name(kernels.name(group))),
        "full_name": kernels.each(kernels.name),
        "cls": _classes(kernels),
        "calls": _a_step(kernels, kernels.groups.count),
        "total_ms": _total_ms(kernels),
        "share_of_step": shares_of_step(kernels.rated.timed, kernels.total),
        "share_of_device": _share_of_device(kernels),
        "mean_us": _in_us(kernels.total / kernels.groups.count),
        "p50_us": _in_us(median),
        "p95_us": _in_us(p95),
        "min_us": _in_us(shortest),
        "max_us": _in_us(longest),
        "op": _operators(kernels),
        "tensor_cores": _tensor_cores(kernels),
        "waves": _waves(kernels),
        "occupancy_share": _occupancy(kernels),
        "module": module,
        "python": line,
        "occupancy_limit": _occupancy_limits(kernels),
        "graph_nodes": _graph_nodes(kernels),
        "launch_options": _launch_options(kernels),
        "launch_shape": _launch_shapes(kernels),
    }


def kernel_stats(rated: WithRoofline) -> Sequence[KernelStats]:
    """A row for each name of kernels and whole graphs in the steady state, by total time, made when
    it is asked for."""
    kernels = KernelGroups.of(rated)
    groups = kernels.groups
    columns = _columns(kernels) | rated_columns(
        rated, by_group(groups.index, kernels.rows, len(groups))
    )
    measures = KernelMeasures(rated, groups, kernels.rows)

    def row(group: int) -> KernelStats:
        return KernelStats(
            rank=rated.trace.rank, **entry(columns, group), **measures.columns(group)
        )

    return lazy_rows(np.argsort(-kernels.total, kind="stable").tolist(), row)


def class_stats(timed: Timed) -> list[ClassStats]:
    """A row for each class of device work in the steady state, by total time."""
    ops = timed.trace.device_ops
    classes = timed.linked.classes
    rows = np.flatnonzero(timed.steady_ops)
    length = ops.end[rows] - ops.start[rows]
    of_row = timed.linked.op_class[rows]
    count = np.bincount(of_row, None, len(classes.names))
    total = np.bincount(of_row, length, len(classes.names))
    shares = shares_of_step(timed, total)
    all_ns = max(float(length.sum()), 1.0)
    steps = timed.steps.steady_count
    return [
        ClassStats(
            rank=timed.trace.rank,
            cls=classes.names[c],
            title=classes.titles[c],
            bound=classes.bound[c],
            calls=float(count[c]) / steps,
            total_ms=ms(total[c]) / steps,
            share_of_step=shares[c],
            share_of_device=float(total[c]) / all_ns,
        )
        for c in np.argsort(-total, kind="stable")
        if count[c]
    ]


def origins_of(
    joined: HostAttribution, groups: Groups, node: I32 | I64, weights: I32 | I64
) -> tuple[list[str | None], list[str | None]]:
    """Where most of the weight of each group of nodes of the host tree comes from: the module, and
    the line of Python."""
    origins = joined.origins
    if not origins.known:
        return [None] * len(groups), [None] * len(groups)
    places = places_of(origins.calls)
    place = weighted_mode(groups, np.append(places.of_call, -1)[origins.call_of(node)], weights)
    line = weighted_mode(groups, origins.line_of(node), weights)
    modules = [places.shown(number) for number in place.tolist()]
    return modules, [joined.trace.text(code) for code in line.tolist()]


@cache
def _limit(flags: int) -> str | None:
    """`registers`, `warps and registers`; None for none."""
    named = (
        one.name.lower().replace("_", " ") for one in OccupancyLimit if one & flags and one.name
    )
    return " and ".join(named) or None


def _launch_shape(ops: DeviceOps, row: int) -> str | None:
    """How a kernel was launched, None where that was not recorded."""
    columns = (ops.blocks, ops.threads, ops.registers, ops.shared_bytes)
    blocks, threads, registers, shared = (int(column[row]) for column in columns)
    if blocks < 1 or threads < 1:
        return None
    more = [f"{registers} registers"] if registers > 0 else []
    more += [f"{shared:,} B shared"] if shared > 0 else []
    plural = "s" if blocks > 1 else ""
    return ", ".join([f"{blocks:,} block{plural} of {threads:,} threads", *more])


def _of_operators(joined: HostAttribution, rows: I32 | I64, codes: I32) -> I32:
    """Of codes of host ranges those of the operators that launched each of these device ops, -1
    where unknown."""

    def of(row: I32) -> I32:
        owner = owner_nodes(joined.linked, joined.launch_node[row])
        known = np.flatnonzero(owner >= 0)
        result = np.full(len(row), -1, np.int32)
        result[known] = codes[joined.linked.tree.row[owner[known]]]
        return result

    return blockwise(of, rows)


def _mean(kernels: KernelGroups, figure: Callable[[I32 | I64], F64]) -> list[float | None]:
    """Mean of the finite figures of each group's device ops by their lengths, None where it has
    none."""
    values = blockwise(figure, kernels.rows)
    weight = np.maximum(kernels.length, 1)
    known = np.isfinite(values)
    total = kernels.groups.sum(np.where(known, values, 0) * weight)
    time = kernels.groups.sum(known * weight)
    return without_nan(np.where(time > 0, total / np.maximum(time, 1), np.nan))


def shares_of_step(timed: Timed, total_ns: NDArray[Any]) -> list[float | None]:
    """Share of the steady steps' time that each of these times in them is, at most 1; None without
    any."""
    time = int(timed.steps.duration[timed.steps.steady].sum())
    return [min(ns / time, 1.0) if time > 0 else None for ns in total_ns.tolist()]
