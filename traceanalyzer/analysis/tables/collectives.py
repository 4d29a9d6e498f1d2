"""Communication between ranks as one rank saw it: which collectives, how long, how much of it was
hidden.

A collective's time is that of its kernels, from start to end; it includes waiting for the other
ranks to arrive, which only the recordings of several ranks can tell apart (`ranks`)."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    Groups,
    IntervalSet,
    clip,
    isin_few,
    measure,
    shared_time,
    texts_where,
    union,
)
from traceanalyzer.analysis.names.collectives import BARRIER, KINDS, POINT_TO_POINT, bus_factor
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.phases.roles import Phases
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, inputs_of
from traceanalyzer.analysis.time.collective_calls import CollectiveCalls
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_US, dataclass, maybe, metric, ms, ratio
from traceanalyzer.trace import F64, I32, I64, U8, Trace

AFTER = (
    Role.FORWARD,
    Role.OPTIMIZER,
)  # what ends a tail. Other work (copies out of buckets, clipping) runs in it.


def tail_time(timed: Timed, role_of_op: U8, device: int) -> int | None:
    """Exposed communication in steady steps after the last backward kernel before the optimizer,
    the next forward pass, or the end of the recording, ns; None where no backward pass is known."""
    ops = timed.trace.device_ops
    known = (
        timed.linked.is_compute
        & (ops.device == device)
        & isin_few(role_of_op, (Role.BACKWARD, *AFTER))
    )
    rows = np.flatnonzero(known)
    backward = role_of_op[rows] == Role.BACKWARD
    if not backward.any():
        return None
    ends = np.flatnonzero(backward & ~np.append(backward[1:], False))
    begin = np.maximum.accumulate(np.where(backward, ops.end[rows], 0))[ends]
    until = np.append(ops.start[rows], np.iinfo(np.int64).max)[ends + 1]
    kept = until > begin
    exposed = timed.activity[device].exposed_communication
    window = (
        int(timed.steps.start[timed.steps.steady][0]),
        int(timed.steps.end[timed.steps.steady][-1]),
    )
    tails = clip(IntervalSet(begin[kept], until[kept]), window)
    return int(measure(exposed, tails.start, tails.end).sum())


@dataclass(frozen=True)
class CommunicationTime:
    """Communication of a step on the critical device."""

    total_ms: float = metric("time with at least one collective on the device (union of intervals)")
    exposed_ms: float = metric("part of it without compute beside it")
    overlap_share: float | None = metric(
        "share of communication time hidden by compute; null without any"
    )
    transfer_ms: float | None = maybe(
        "part of `total_ms` at which all ranks had arrived; null where the ranks were not compared"
    )
    waiting_ms: float | None = maybe(
        "part of `total_ms` in which another rank had not arrived yet; null where the "
        "ranks were not compared"
    )
    tail_ms: float | None = maybe(
        "part of `exposed_ms` behind the backward pass: after its last kernel, before the optimizer or the next "
        "forward pass begins; null where no backward pass is known"
    )
    between_ms: float | None = maybe(
        "the rest of `exposed_ms`: between kernels of the forward and backward pass, and around the optimizer; null "
        "where no backward pass is known"
    )
    send_recv_ms: float | None = maybe(
        "part of `exposed_ms` in sends and receives, waiting for the peer included: in pipeline parallelism the "
        "bubbles; null where none were recorded as such"
    )
    volume_bytes: float | None = maybe(
        "messages of a step's collectives together, each as `message_bytes` counts it; null where the recording does "
        "not say it of all of them",
        "bytes",
    )
    gradient_bytes: float | None = maybe(
        "gradients that one backward pass adds to the parameters; null without recorded shapes, or where passes of a "
        "step are not known (`micro_steps`)",
        "bytes",
    )


@dataclass(frozen=True)
class CollectiveStats:
    """Collectives of one kind, process group, message size and type on one device, in the steady
    state."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device")
    collective: str = metric("what the collective does")
    group: str | None = metric("process group; null where the recording does not say")
    group_ranks: str | None = metric("ranks of the group as recorded")
    group_size: int | None = metric("number of ranks in the group")
    dtype: str | None = metric("type of the elements")
    message_bytes: int | None = metric(
        (
            "size of a message: the whole buffer over all ranks where it gathers or "
            "scatters, else one rank's"
        ),
        "bytes",
    )
    count: float = metric("collectives a step (the kernels of one call are one)")
    total_ms: float = metric("time of their kernels a step, waiting for other ranks included")
    exposed_ms: float = metric(
        "part of it without compute on the device; time that n collectives share counts "
        "1/n for each"
    )
    transfer_ms: float | None = maybe(
        "part of `total_ms` at which all ranks had arrived; null where the ranks were not compared",
        kw_only=True,
    )
    waiting_ms: float | None = maybe(
        "part of it in which another rank had not arrived yet; null as `transfer_ms`", kw_only=True
    )
    overlap_share: float | None = metric("share of their time with compute on the device beside it")
    mean_us: float = metric("mean time of a collective")
    p50_us: float = metric("median time of a collective")
    p95_us: float = metric("95th percentile of the times, linearly interpolated")
    algorithm_gbs: float | None = metric(
        "message bytes over time (1 GB is 1e9 bytes); too low where ranks wait for each other"
    )
    bus_gbs: float | None = metric(
        "algorithm bandwidth times NCCL's factor for n ranks (2(n-1)/n for all_reduce, (n-1)/n for all_gather, "
        "reduce_scatter, all_to_all, 1 for the others): comparable with a link's bandwidth"
    )
    streams: str | None = metric("streams they ran on")
    on_compute_stream: bool | None = metric("whether one of those streams also runs compute")


def communication_time(
    timed: Timed, device: int, phases: Phases, micro_steps: float | None = None
) -> CommunicationTime:
    """Communication of a mean steady step on the device (CUDA ordinal). `micro_steps`: its backward
    passes, where they are known."""
    activity = timed.activity[device]
    steps = timed.steps
    calls = timed.collective_calls
    ops = timed.trace.device_ops
    start = steps.start[steps.steady]
    end = steps.end[steps.steady]
    total = int(measure(activity.communication, start, end).sum())
    exposed = int(measure(activity.exposed_communication, start, end).sum())
    tail = tail_time(timed, phases.of_op, device) if total else None
    # The name of a kernel that sends is that of an all-to-all made of sends, too: the recording has
    # to say which it is.
    sends = (
        isin_few(calls.kind, map(KINDS.index, POINT_TO_POINT))
        & (calls.metadata >= 0)
        & (calls.step >= steps.warmup)
    )
    rows = calls.kernels[sends[calls.of_kernel] & (ops.device[calls.kernels] == device)]
    sending = union(ops.start[rows], ops.end[rows])
    sent = int(measure(activity.exposed_communication, sending.start, sending.end).sum())
    return CommunicationTime(
        total_ms=ms(total / steps.steady_count),
        exposed_ms=ms(exposed / steps.steady_count),
        overlap_share=1 - exposed / total if total else None,
        tail_ms=None if tail is None else ms(tail / steps.steady_count),
        between_ms=None if tail is None else ms((exposed - tail) / steps.steady_count),
        send_recv_ms=ms(sent / steps.steady_count) if len(rows) else None,
        volume_bytes=_volume(timed, device),
        gradient_bytes=ratio(_gradients(timed), micro_steps),
    )


def _volume(timed: Timed, device: int) -> float | None:
    """Bytes of the messages of a step; None without any, or where one is not known. A barrier has
    none."""
    calls = timed.collective_calls
    steps = timed.steps
    chosen = (calls.device == device) & (calls.step >= steps.warmup)
    sizes = calls.bytes[chosen & (calls.kind != KINDS.index(BARRIER))]
    if not len(sizes) or sizes.min() < 0:
        return None
    return float(sizes.sum()) / steps.steady_count


def _gradients(timed: Timed) -> float | None:
    """Bytes of the gradients that a step adds to its parameters; None where one is not known."""
    trace = timed.trace
    ranges = trace.host_ranges
    added = texts_where(trace.strings, ACCUMULATE.__eq__)[ranges.name]
    rows = np.flatnonzero(added & timed.steady_host(ranges.start))
    kinds = Groups.of(ranges.shapes[rows], ranges.dtypes[rows])
    each = [_first_bytes(trace, int(rows[place])) for place in kinds.first]
    total = sum(size * count for size, count in zip(each, kinds.count.tolist(), strict=True))
    return total / timed.steps.steady_count if total and math.isfinite(total) else None


def _first_bytes(trace: Trace, row: int) -> float:
    """Bytes of the first tensor that an operator takes; NaN where they are not known."""
    ranges = trace.host_ranges
    inputs = inputs_of(trace.text(int(ranges.shapes[row])), trace.text(int(ranges.dtypes[row])))
    first = inputs[0] if inputs else None
    return first.dense_bytes if isinstance(first, Tensor) else math.nan


def collective_stats(timed: Timed, arrived: tuple[I64, I64] | None = None) -> list[CollectiveStats]:
    """A row for each sort of collective in the steady state, by exposed, then total time. `arrived`
    has the rows of the first kernels of those that other ranks recorded too, and when the last rank
    came to each, ns."""
    sorts = _Sorts.of(timed, arrived)
    rows = [_row(sorts, sort) for sort in range(len(sorts.groups))]
    return sorted(rows, key=lambda row: (-row.exposed_ms, -row.total_ms))


class _Times:
    """Time of each collective, ns: all of it, without compute beside it, with compute beside it,
    and from when all ranks had arrived (NaN where that is not known)."""

    def __init__(
        self, timed: Timed, calls: CollectiveCalls, arrived: tuple[I64, I64] | None
    ) -> None:
        ops = timed.trace.device_ops
        rows = calls.kernels
        exposed = np.zeros(len(rows))
        hidden = np.zeros(len(rows))
        for device, activity in timed.activity.items():
            of_device = ops.device[rows] == device
            start = ops.start[rows[of_device]]
            end = ops.end[rows[of_device]]
            exposed[of_device] = shared_time(start, end, activity.exposed_communication)
            hidden[of_device] = measure(activity.compute, start, end)
        times = (ops.end[rows] - ops.start[rows], exposed, hidden)
        self.total, self.exposed, self.hidden = (
            np.bincount(calls.of_kernel, time, len(calls)) for time in times
        )
        self.transfer = np.full(len(calls), np.nan)
        if arrived is not None:
            _, own, theirs = np.intersect1d(calls.row, arrived[0], return_indices=True)
            moving = calls.end[own] - np.maximum(arrived[1][theirs], calls.start[own])
            self.transfer[own] = np.clip(moving, 0, self.total[own])


@dataclass(frozen=True, eq=False)
class _Sorts:
    """The collectives of the steady state by sort (kind, process group, message size and type),
    and the figures of each sort; columns have an entry a sort."""

    timed: Timed
    calls: CollectiveCalls
    groups: Groups
    rows: I64  # the collectives that are grouped
    times: _Times

    @classmethod
    def of(cls, timed: Timed, arrived: tuple[I64, I64] | None) -> "_Sorts":
        """The sorts of a recording; `arrived` as in `collective_stats`."""
        calls = timed.collective_calls
        table = timed.trace.collectives
        rows = np.flatnonzero(calls.step >= timed.steps.warmup)
        columns = (table.group, table.ranks, table.group_size, table.dtype)
        metadata = [np.append(column, -1).astype(np.int64)[calls.metadata] for column in columns]
        keys: list[I32 | I64] = [calls.device, calls.kind, calls.bytes, *metadata]
        groups = Groups.of(*(key[rows] for key in keys))
        return cls(timed, calls, groups, rows, _Times(timed, calls, arrived))

    @cached_property
    def first(self) -> I64:
        """The first collective of each sort."""
        return self.rows[self.groups.first]

    def sum(self, ns: NDArray[Any]) -> F64:
        """Sum of a time of every collective over each sort."""
        return self.groups.sum(ns[self.rows])

    @cached_property
    def total(self) -> F64:
        """Time of each sort, ns."""
        return self.sum(self.times.total)

    @cached_property
    def exposed(self) -> F64:
        """Exposed time of each sort: without compute beside it, ns."""
        return self.sum(self.times.exposed)

    @cached_property
    def hidden(self) -> F64:
        """Overlapped time of each sort: with compute beside it, ns."""
        return self.sum(self.times.hidden)

    @cached_property
    def transfer(self) -> F64:
        """Transfer time of each sort: since the last rank arrived, ns; NaN where one of its
        collectives was not compared with other ranks."""
        return self.sum(self.times.transfer)

    @cached_property
    def quantiles(self) -> list[F64]:
        """Median and 95th percentile of the times of each sort, ns."""
        return self.groups.quantiles(self.times.total[self.rows].astype(np.int64), 0.5, 0.95)

    @cached_property
    def streams(self) -> list[list[int]]:
        """The streams of each sort, ascending."""
        pairs = Groups.of(self.groups.index, self.calls.stream[self.rows])
        sorts = self.groups.index[pairs.first].tolist()
        found: list[list[int]] = [[] for _ in range(len(self.groups))]
        for sort, row in zip(sorts, self.rows[pairs.first].tolist(), strict=True):
            found[sort].append(int(self.calls.stream[row]))
        return found

    @cached_property
    def compute_streams(self) -> set[tuple[int, int]]:
        """Devices and streams on which kernels compute."""
        ops = self.timed.trace.device_ops
        rows = np.flatnonzero(self.timed.linked.is_kernel & self.timed.linked.is_compute)
        pairs = rows[Groups.of(ops.device[rows], ops.stream[rows]).first]
        devices = ops.device[pairs].tolist()
        return set(zip(devices, ops.stream[pairs].tolist(), strict=True))


def _row(sorts: _Sorts, sort: int) -> CollectiveStats:
    """The row of a sort of collective."""
    calls = sorts.calls
    table = sorts.timed.trace.collectives
    steps = sorts.timed.steps.steady_count
    first = int(sorts.first[sort])
    metadata = int(calls.metadata[first])
    size = int(calls.bytes[first])
    device = int(calls.device[first])
    group_size = int(table.group_size[metadata]) if metadata >= 0 else -1
    count = int(sorts.groups.count[sort])
    total = float(sorts.total[sort])
    transfer = float(sorts.transfer[sort])
    is_compared = math.isfinite(transfer)  # with the recordings of other ranks
    kind = KINDS[calls.kind[first]]
    bandwidth = ratio(size * count, total) if size > 0 else None

    def text(codes: I32) -> str | None:
        return sorts.timed.trace.text(int(codes[metadata])) if metadata >= 0 else None

    return CollectiveStats(
        rank=sorts.timed.trace.rank,
        device=device,
        collective=kind,
        group=text(table.group),
        group_ranks=text(table.ranks),
        group_size=group_size if group_size > 0 else None,
        dtype=text(table.dtype),
        message_bytes=size if size >= 0 else None,
        count=count / steps,
        total_ms=ms(total / steps),
        exposed_ms=ms(sorts.exposed[sort] / steps),
        transfer_ms=ms(transfer / steps) if is_compared else None,
        waiting_ms=ms((total - transfer) / steps) if is_compared else None,
        overlap_share=ratio(float(sorts.hidden[sort]), total),
        mean_us=total / count / NS_PER_US,
        p50_us=float(sorts.quantiles[0][sort]) / NS_PER_US,
        p95_us=float(sorts.quantiles[1][sort]) / NS_PER_US,
        algorithm_gbs=bandwidth,
        bus_gbs=_bus_bandwidth(bandwidth, kind, group_size),
        streams=_listed_streams(sorts.streams[sort]),
        on_compute_stream=_on_compute_stream(sorts, device, sorts.streams[sort]),
    )


def _bus_bandwidth(algorithm_gbs: float | None, kind: str, group_size: int) -> float | None:
    """NCCL's bus bandwidth, GB/s; None where the message or the group is not known."""
    factor = bus_factor(kind, group_size)
    return None if algorithm_gbs is None or factor is None else algorithm_gbs * factor


def _listed_streams(streams: list[int]) -> str | None:
    """The streams in words; None where they were not recorded."""
    return ", ".join(map(str, streams)) if streams[0] >= 0 else None


def _on_compute_stream(sorts: _Sorts, device: int, streams: list[int]) -> bool | None:
    if streams[0] < 0:
        return None
    return any((device, stream) in sorts.compute_streams for stream in streams)
