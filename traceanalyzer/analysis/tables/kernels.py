"""Kernels by name and device work by class, a steady step."""

from collections.abc import Callable
from functools import partial

import numpy as np

from traceanalyzer.analysis.algebra import Groups, blockwise, compact, flatnonzero32, weighted_mode
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import TraceJoins, owner_nodes
from traceanalyzer.analysis.joined.origins import places_of
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.roofline.rated import KernelMeasures, MeasuredRow, WithRoofline
from traceanalyzer.analysis.roofline.waves import occupancy_of, residence_of
from traceanalyzer.analysis.tables.roofline_rows import (
    RatedRow,
    by_group,
    entry,
    listed,
    rated_columns,
)
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
        "line of the program that most of their time comes from, the backward pass's by its forward operator; null "
        "where that is none, or stacks were not recorded"
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


def kernel_stats(rated: WithRoofline) -> list[KernelStats]:
    """A row for each name of kernels and whole graphs in the steady state, by total time."""
    ops = rated.trace.device_ops
    rows = flatnonzero32(
        rated.timed.steady_ops & (rated.linked.is_kernel | (ops.kind == DeviceOpKind.GRAPH))
    )
    length = compact(ops.end[rows] - ops.start[rows])
    groups = Groups.of(ops.name[rows])
    total = groups.sum(length)
    op = groups.most_common(_of_operators(rated.joined, rows, rated.trace.host_ranges.name))
    low, middle, high, top = groups.quantiles(length, 0, 0.5, 0.95, 1)
    all_ns = max(float(length.sum()), 1.0)
    steps = rated.timed.steps.steady_count
    classes = rated.linked.op_class[rows][groups.first]
    rated_ones = rated_columns(rated, by_group(groups.index, rows, len(groups)))
    waves = _mean(groups, rows, length, lambda of: rated.roofline.waves[of])
    occupancy = _mean(groups, rows, length, partial(occupancy_of, rated.linked))
    limits = groups.most_common(rated.linked.memo(residence_of).limits[rows])
    nodes = _graph_nodes(rated.linked, rows, groups)
    tensor = rated.roofline.tensor[rows][groups.first]
    options = groups.most_common(_of_operators(rated.joined, rows, rated.trace.host_ranges.launch))
    measures = KernelMeasures(rated, groups, rows)
    module, line = origins_of(rated.joined, groups, rated.joined.launch_node[rows], length)
    return [
        KernelStats(
            rank=rated.trace.rank,
            name=short_name(name),
            full_name=name,
            cls=rated.linked.classes.names[classes[g]],
            calls=float(groups.count[g]) / steps,
            total_ms=ms(total[g]) / steps,
            share_of_step=share_of_step(rated.timed, total[g]),
            share_of_device=float(total[g]) / all_ns,
            mean_us=float(total[g] / groups.count[g]) / NS_PER_US,
            p50_us=float(middle[g]) / NS_PER_US,
            p95_us=float(high[g]) / NS_PER_US,
            min_us=float(low[g]) / NS_PER_US,
            max_us=float(top[g]) / NS_PER_US,
            op=rated.trace.text(int(op[g])),
            tensor_cores=None if tensor[g] < 0 else bool(tensor[g]),
            waves=waves[g],
            occupancy_share=occupancy[g],
            module=module[g],
            python=line[g],
            occupancy_limit=_limit(int(limits[g])),
            graph_nodes=int(nodes[g]) or None,
            launch_options=rated.trace.text(int(options[g])),
            launch_shape=_launch_shape(ops, int(rows[groups.first[g]])),
            **entry(rated_ones, int(g)),
            **measures.columns(int(g)),
        )
        for g in np.argsort(-total, kind="stable")
        for name in [rated.trace.text(int(ops.name[rows[groups.first[g]]])) or "(no name)"]
    ]


def class_stats(timed: Timed) -> list[ClassStats]:
    """A row for each class of device work in the steady state, by total time."""
    ops = timed.trace.device_ops
    classes = timed.linked.classes
    rows = np.flatnonzero(timed.steady_ops)
    length = ops.end[rows] - ops.start[rows]
    of_row = timed.linked.op_class[rows]
    count, total = (np.bincount(of_row, weights, len(classes.names)) for weights in (None, length))
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
            share_of_step=share_of_step(timed, total[c]),
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
    return [places.shown(p) for p in place.tolist()], [
        joined.trace.text(code) for code in line.tolist()
    ]


def _limit(flags: int) -> str | None:
    """`registers`, `warps and registers`; None for none."""
    named = (
        one.name.lower().replace("_", " ") for one in OccupancyLimit if one & flags and one.name
    )
    return " and ".join(named) or None


def _graph_nodes(linked: TraceJoins, rows: I32 | I64, groups: Groups) -> I64:
    """How many distinct nodes of graphs each group's ops are."""
    ops = linked.trace.device_ops
    inside = np.flatnonzero(ops.graph_node[rows] >= 0)
    group = groups.index[inside]
    nodes = Groups.of(group, ops.graph[rows[inside]], ops.graph_node[rows[inside]])
    return np.bincount(group[nodes.first], minlength=len(groups)).astype(np.int64)


def _launch_shape(ops: DeviceOps, row: int) -> str | None:
    """How a kernel was launched, None where that was not recorded."""
    columns = (ops.blocks, ops.threads, ops.registers, ops.shared_bytes)
    blocks, threads, registers, shared = (int(column[row]) for column in columns)
    if blocks < 1 or threads < 1:
        return None
    more = [f"{registers} registers"] if registers > 0 else []
    more += [f"{shared:,} B shared"] if shared > 0 else []
    return ", ".join([f"{blocks:,} block{'s' * (blocks > 1)} of {threads:,} threads", *more])


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


def _mean(
    groups: Groups, rows: I32 | I64, length: I32 | I64, figure: Callable[[I32 | I64], F64]
) -> list[float | None]:
    """Mean of the finite figures of each group's device ops by their lengths, None where it has
    none."""
    values = blockwise(figure, rows)
    weight = np.maximum(length, 1)
    known = np.isfinite(values)
    total = groups.sum(np.where(known, values, 0) * weight)
    time = groups.sum(known * weight)
    return listed(np.where(time > 0, total / np.maximum(time, 1), np.nan))


def share_of_step(timed: Timed, total_ns: float) -> float | None:
    """Share of the steady steps' time that this much time in them is, at most 1; None without
    any."""
    time = int(timed.steps.duration[timed.steps.steady].sum())
    return min(float(total_ns) / time, 1.0) if time > 0 else None
