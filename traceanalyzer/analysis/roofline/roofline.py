"""What each device op could reach at most, and what keeps it from more: the roofline.

Work W (FLOPs) and traffic Q (bytes) of an operation come from its model (`op_models`), the ceilings
from the hardware table. Attainable time is `max(W / peak, Q / bandwidth)`, the speed of light (SOL)
is attainable over recorded time, arithmetic intensity W / Q. (Williams, Waterman, Patterson:
Roofline, CACM 52(4), 2009.)

The kernels of one modelled operator share its work by their time, FLOPs of matrix products among
the matrix kernels alone; so each has the operator's SOL. Copies and memsets move the bytes that
were recorded. Everything is NaN or UNKNOWN where no model describes the operation or the GPU is not
in the table, and nothing is spread over the rest."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import (
    Coded,
    Rows,
    blockwise,
    compact,
    dedup_constant,
    dictionary_encoded,
    isin_few,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.roofline import traffic as flow
from traceanalyzer.analysis.roofline.bounds import (
    NO,
    UNKNOWN,
    YES,
    Bound,
    Reached,
    bounds,
    tensor_cores,
)
from traceanalyzer.analysis.roofline.op_models import OpWork, Precision, WorkColumn, model_ops
from traceanalyzer.analysis.roofline.waves import resident_blocks, waves_of
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.trace import (
    F64,
    I32,
    I64,
    U8,
    Bool,
    CopyKind,
    DeviceOpKind,
    constant_column,
    distinct,
    distinct_places,
)

SHORT_NS = 2_000
"""Attainable time under which start-up, the first DRAM round trips (0.5-1 us each on current GPUs)
and the drain of the last blocks take most of any kernel, whatever it does."""
LOW_SOL = 0.5
"""A small kernel that still reaches half of its roofline is limited by that, not by its size."""
KEPT = 0.5
"""Part of the last cache that data written by one kernel and read by a later one may take to be
still there: the other half goes to results, and to what is cached twice where the cache has two
parts."""


@dataclass(frozen=True, eq=False)
class Roofline:
    """Figures of each device op; NaN where not known. Whole columns are asked for as `flops[:]`."""

    flops: F64 | Coded
    bytes: F64 | Coded  # least traffic with the memory (or link, see `bound`) that its data needs
    expected: F64 | Coded  # traffic with the memory that such a kernel causes (`kernel_traffic`)
    attainable: F64 | Coded  # least time that work and traffic need on this GPU, ns
    reachable: F64 | Coded
    """The same at the rates that were measured on the machine (`collect --ceilings`), ns; NaN where
    none were."""
    bound: U8  # `Bound` of each
    arithmetic: (
        Bool  # whether arithmetic, not traffic, takes the greater part of the attainable time
    )
    small: Bool  # which are too small to fill the GPU, and slow for it
    precision: NDArray[np.int8]  # `Precision` in which it calculates
    tensor: NDArray[
        np.int8
    ]  # whether a matrix kernel uses tensor cores: 1, 0, -1 unknown or no matrix kernel
    waves: F64 | Coded  # blocks over the blocks that the GPU holds at a time
    row: I32 | I64  # host range whose model describes it, -1 none
    extra: Bool
    """Copies and memsets of an operator whose kernels have all that its data needs (padding before
    a convolution)."""
    counted: Bool  # whether a kernel profiler measured it

    @property
    def modelled(self) -> Bool:
        """Which device ops have work or traffic known."""
        return np.isfinite(self.flops) | np.isfinite(self.bytes)

    @property
    def rated(self) -> Bool:
        """Which have an attainable time: modelled, on a known GPU."""
        return np.isfinite(self.attainable)


def build_roofline(timed: Timed) -> Roofline:
    """The roofline of every device op."""
    linked = timed.linked
    work = model_ops(timed.joined)
    computing = linked.is_kernel & ~linked.is_communication
    row = compact(np.where(computing, work.of_device_op, -1))
    needs = _needs(timed, work, row)
    times = _times(linked, needs, row)
    bound, slow = _limits(linked, needs, times, flow.issue_time(linked, work, row))
    greater = np.nan_to_num(times.arithmetic) > np.nan_to_num(times.transfer)
    small = _small(linked, times.attainable) & slow & ~_on_links(linked)
    least = dictionary_encoded(needs.traffic)
    alike_traffic = needs.expected is needs.traffic
    return Roofline(
        flops=dictionary_encoded(needs.flops),
        bytes=least,
        expected=least if alike_traffic else dictionary_encoded(needs.expected),
        attainable=dictionary_encoded(times.attainable),
        reachable=dictionary_encoded(times.reachable),
        bound=bound,
        arithmetic=dedup_constant(greater),
        small=dedup_constant(small),
        precision=dedup_constant(needs.precision),
        tensor=dedup_constant(needs.tensor),
        waves=dictionary_encoded(needs.waves),
        row=row,
        extra=_extra(linked, work, row),
        counted=constant_column(0, len(row), np.bool_),
    )


class _Needs(NamedTuple):
    """What each device op has to do."""

    flops: F64
    traffic: F64  # bytes
    expected: F64  # bytes; the array of `traffic` itself where nothing else is expected
    rate: F64  # bandwidth of what carries them, bytes/s
    precision: NDArray[np.int8]
    tensor: NDArray[np.int8]
    waves: F64


def _needs(timed: Timed, work: OpWork, row: I64) -> _Needs:
    linked = timed.linked
    passes = compact(flow.passes_of(linked, row))
    flops, traffic, precision = _share_out(linked, work, row, passes)
    tensor = np.full(len(linked.trace.device_ops), UNKNOWN, np.int8)
    tensor[linked.is_matrix] = flow.by_name(linked, tensor_cores, linked.is_matrix)
    # fp32 operands on tensor cores are rounded to TF32
    precision[(precision == Precision.FP32) & (tensor == YES)] = Precision.TF32
    waves = waves_of(linked)
    resident = resident_blocks(linked, waves)
    expected = flow.expected_traffic(linked, work, row, (flops, traffic), passes, resident)
    rate = linked.limit("bandwidth").copy()
    for carried, carrier in (flow.copy_traffic(linked), flow.collective_traffic(timed)):
        moved = np.isfinite(carried)
        traffic[moved] = carried[moved]
        rate[moved] = carrier[moved]
        flops[moved] = 0.0
    if expected is not traffic:
        expected = np.where(np.isfinite(expected), expected, traffic)
    return _Needs(flops, traffic, expected, rate, precision, tensor, waves)


class _Times(NamedTuple):
    """Least times of each device op, ns."""

    arithmetic: F64
    transfer: F64
    attainable: F64
    reachable: F64


def _times(linked: TraceJoins, needs: _Needs, row: I64) -> _Times:
    flops = needs.flops
    rows = Rows(len(flops))
    peak = blockwise(partial(_peaks_of, linked), rows, needs.precision, needs.tensor, flops)
    arithmetic = flops / peak * NS_PER_S
    transfer = needs.traffic / needs.rate * NS_PER_S
    return _Times(
        arithmetic,
        transfer,
        attainable=_together(arithmetic, transfer, flops, row),
        reachable=_reachable(linked, needs, peak, row),
    )


def _limits(linked: TraceJoins, needs: _Needs, times: _Times, issue: F64) -> tuple[U8, Bool]:
    """What limits each device op, and whether it is slow for its work; `issue`: the time to issue
    its instructions, ns."""
    ops = linked.trace.device_ops
    cores = linked.is_matrix & (needs.tensor != NO)
    cache = linked.limit("cache_bytes")
    on_links = _on_links(linked)

    def bound_of(rows: slice) -> tuple[U8, Bool]:
        time = np.maximum(ops.end[rows] - ops.start[rows], 1)
        expected = needs.expected[rows]
        cached = expected <= KEPT * cache[rows]
        attainable = times.attainable[rows]
        slow = attainable < LOW_SOL * time
        only_moves = on_links[rows] | ~linked.is_kernel[rows]
        reached = Reached(
            arithmetic=times.arithmetic[rows] / time,
            tensor=cores[rows],
            instructions=issue[rows] / time,
            memory=np.where(cached, 0.0, expected / needs.rate[rows] * NS_PER_S / time),
        )
        return _bound(reached, attainable, slow, (on_links[rows], only_moves)), slow

    bound, slow = blockwise(bound_of, Rows(len(times.attainable)))
    return bound, slow


def _share_out(
    linked: TraceJoins, work: OpWork, row: I64, passes: I64
) -> tuple[F64, F64, NDArray[np.int8]]:
    """FLOPs, bytes and precision of each kernel from the operator that it is part of. Kernels that
    only prepare or finish a product (`PREPARING` of `passes`) have no FLOPs; unknown is the work of
    those whose data could not have been moved in their time even with all that fits in the cache:
    the model does not fit (one tensor given twice)."""
    ops = linked.trace.device_ops
    count = len(row)
    flops = np.full(count, np.nan)
    traffic = np.full(count, np.nan)
    precision = np.zeros(count, np.int8)
    rows = np.flatnonzero(row >= 0)
    if not len(rows):
        return flops, traffic, precision
    duration = ops.end - ops.start
    matrix = linked.is_matrix & ~isin_few(passes, flow.PREPARING)
    _, group = distinct_places(row[rows])
    has_matrix = np.bincount(group, weights=matrix[rows]) > 0
    by_time = np.zeros(count, np.int64)
    by_time[rows] = np.where(has_matrix[group] & ~matrix[rows], 0, duration[rows])
    flops[rows] = work.of(WorkColumn.FLOPS, row[rows]) * flow.share_of_group(by_time, rows, group)
    traffic[rows] = work.of(WorkColumn.BYTES, row[rows]) * flow.share_of_group(
        duration, rows, group
    )
    precision[rows] = work.of(WorkColumn.PRECISION, row[rows])
    moved = (
        (traffic - np.nan_to_num(linked.limit("cache_bytes")))
        / linked.limit("bandwidth")
        * NS_PER_S
    )
    wrong = moved > np.maximum(duration, 1)
    flops[wrong] = traffic[wrong] = np.nan
    return flops, traffic, precision


def _extra(linked: TraceJoins, work: OpWork, row: I64) -> Bool:
    """`Roofline.extra`; `row`: the operator that each kernel is part of."""
    of_kernels = np.zeros(len(work.kind) + 1, np.bool_)
    of_kernels[row] = True
    of_kernels[-1] = False
    return dedup_constant(~linked.is_kernel & of_kernels[work.of_device_op])


def _peaks_of(
    linked: TraceJoins,
    rows: slice,
    precision: NDArray[np.int8],
    tensor: NDArray[np.int8],
    flops: F64,
) -> F64:
    """FLOP/s that each of these kernels can reach: matrix kernels in their unit and format, others
    on the ordinary cores (in fp32 whatever the tensors' type, fp64 aside); NaN where the GPU is not
    known."""
    ops = linked.trace.device_ops
    result = np.full(len(flops), np.nan)
    seconds = np.maximum(ops.end[rows] - ops.start[rows], 1) / NS_PER_S
    matrix = linked.is_matrix[rows]
    for device, gpu in linked.gpus.items():
        of_device = ops.device[rows] == device
        if gpu is None:
            continue
        for code in distinct(precision[of_device]):
            chosen = of_device & (precision == code)
            plain = gpu.vector.get("fp64" if code == Precision.FP64 else "fp32", np.nan)
            peak = gpu.matrix_peak(Precision(code).name.lower())
            fast = flops[chosen] > plain * seconds[chosen]
            result[chosen] = np.where(matrix[chosen] | fast, peak or np.nan, plain)
            if code in (Precision.FP16, Precision.BF16):
                result[chosen & (tensor == NO)] = plain
    return result


def _together(arithmetic: F64, transfer: F64, flops: F64, row: I64) -> F64:
    """Attainable time of each op, ns: of the kernels of one operator the greater of their sums,
    shared alike."""
    counted = np.where(np.isfinite(flops) & (flops == 0), 0.0, arithmetic)
    result: F64 = np.fmax(counted, transfer)
    rows = np.flatnonzero(row >= 0)
    if not len(rows):
        return result
    _, group = distinct_places(row[rows])
    parts = counted[rows], transfer[rows]
    calculating, moving = (np.bincount(group, weights=np.nan_to_num(part)) for part in parts)
    known, told = (np.bincount(group, weights=np.isfinite(part)) > 0 for part in parts)
    total = np.where(
        known & told, np.maximum(calculating, moving), np.where(known, calculating, moving)
    )
    total[~(known | told)] = np.nan
    divisor = np.where(moving[group] > 0, moving[group], 1)
    share = np.nan_to_num(parts[1]) / divisor
    even = 1 / np.bincount(group)[group]
    result[rows] = total[group] * np.where(moving[group] > 0, share, even)
    return result


def _reachable(linked: TraceJoins, needs: _Needs, peak: F64, row: I64) -> F64:
    """Attainable time where the measured rates take the place of those that are stated (and
    higher), ns."""
    ceilings = linked.trace.ceilings
    if ceilings is None:
        return np.broadcast_to(np.nan, len(row))
    names = [precision.name.lower() for precision in Precision]
    measured = np.array([ceilings.matmul.get(name, np.inf) for name in names])
    in_memory = needs.rate == linked.limit("bandwidth")
    rate = np.where(in_memory, np.minimum(needs.rate, ceilings.bandwidth), needs.rate)
    return _together(
        needs.flops / np.minimum(peak, measured[needs.precision]) * NS_PER_S,
        needs.traffic / rate * NS_PER_S,
        needs.flops,
        row,
    )


def _bound(reached: Reached, attainable: F64, slow: Bool, moves: tuple[Bool, Bool]) -> U8:
    """What limits each device op; `moves`: what links carry, and all that only moves data, which
    has one ceiling."""
    on_links, only_moves = moves
    carrier = np.where(on_links, np.uint8(Bound.LINK), np.uint8(Bound.MEMORY))
    moved = np.where(slow & (attainable < SHORT_NS), np.uint8(Bound.LATENCY), carrier)
    bound = np.where(only_moves, moved, bounds(reached))
    return np.where(np.isfinite(attainable), bound, np.uint8(Bound.UNKNOWN))


def _on_links(linked: TraceJoins) -> Bool:
    """Which device ops a link carries: collectives, and copies that do not stay within the
    device."""
    ops = linked.trace.device_ops
    within = isin_few(ops.copy_kind, (CopyKind.DEVICE_TO_DEVICE, CopyKind.UNKNOWN))
    return linked.is_communication | ((ops.kind == DeviceOpKind.MEMCPY) & ~within)


def _small(linked: TraceJoins, attainable: F64) -> Bool:
    """Which device ops have too few blocks or too little to do to fill the GPU."""
    blocks = linked.trace.device_ops.blocks
    return (attainable < SHORT_NS) | ((blocks > 0) & (blocks < linked.limit("sms")))
