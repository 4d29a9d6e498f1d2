"""Traffic that kernels are expected to cause with the device memory, where it is more than their
operator needs, and what copies, memsets and collectives move between memories, with the rate of
what carries them.

An operator's least traffic (`op_models`) says what an ideal kernel moves; these say what known
kernels move:

- **Operators of several kernels** (`PASSES`): each goes over the operator's tensors as often as its algorithm tells.
  What a block reads a second time comes from the last cache if the rows of all blocks that run at a time fit it.
- **Matrix products** calculate a wave of tiles at a time. While it runs its tiles share what they read through the
  cache; the next wave reads its operands anew unless the cache holds both whole. A wave that covers an area with sides
  s and t reads (s + t)·k elements for s·t results. (Lam, Rothberg, Wolf: The Cache Performance and Optimizations of
  Blocked Algorithms, ASPLOS 1991, here with the whole GPU as processor.)
- **Look-ups** find rows of a table again in the cache as far as it holds the table."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import Groups, at, first_alike, isin_few
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.collectives import KINDS, bus_factor
from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables
from traceanalyzer.analysis.roofline.op_models import OpWork, WorkColumn
from traceanalyzer.analysis.roofline.op_models.tensors import FLOAT
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.trace import F64, I32, I64, Bool, CopyKind, DeviceOpKind, distinct

# Time that kernels need to issue their instructions, where that is not the arithmetic that FLOPs
# count.  Conversions, indices, special functions and random numbers take instructions too. An SM
# issues four a cycle, each for 32 threads, so elements times instructions is a least time as much
# as FLOPs over the peak are. How many instructions a kernel takes for an element is a property of
# its code: they were counted by Nsight Compute (`sm__inst_executed`; `kernel_tables.toml` says on
# which PyTorch and GPU; HELD_OUT of benchmarks/ncu_cases.py had no part). Kernels that are not
# listed have none, and are never called bound by them.  Counted are issue slots: the greater of all
# instructions, twice those of the integer and comparison pipe (64 lanes an SM) and eight times
# those of the special function unit (16 lanes). Source of the rates: CUDA C++ programming guide,
# "throughput of native arithmetic instructions".

SLOTS = kernel_tables().slots  # the first that fits counts


PASSES = (
    kernel_tables().passes
)  # the first that fits counts. Checked against `dram__bytes` (docs/roofline.md)
PREPARING = tuple(i for i, p in enumerate(PASSES) if not p.calculates)
"""Places of those that do no matrix products, though they may be of such an operator."""
_SIZE = r"([1-9]\d{0,4})x([1-9]\d{0,4})"
TILE = regex(
    rf"nvjet_\w{{0,200}}?_{_SIZE}_\d+x\d+|tilesize{_SIZE}x|gemm(?:_[a-z]\w{{0,200}}?)?_{_SIZE}(?=_)"
)
"""Rows and columns of the tiles of a matrix kernel: nvjet, xmma, CUTLASS and the older cuBLAS."""
STRIP = 8
"""Tiles beside each other that the blocks of a kernel that schedules its tiles itself take in turn,
so that a wave is neither a row nor a column of tiles (CUTLASS, `GemmIdentityThreadblockSwizzle`: up
to eight). Where the GPU schedules them, there are more blocks than it holds at a time, and they
start row by row."""
FITS = 0.4
FAILS = 0.8
"""Parts of the cache up to which what blocks read a second time is found there, and from which it
is not: they do not run in step, other data passes through, and some of it is held twice (Hopper's
cache has two parts)."""
LOOK_UPS = regex(r"gather_kernel|indexSelect|index_select")
NODE_GPUS = 8
"""Larger groups do not share one node's links (GB200 racks aside), and no datasheet has the
network's rate."""
HOST_COPIES = (
    CopyKind.HOST_TO_DEVICE,
    CopyKind.DEVICE_TO_HOST,
    CopyKind.UNIFIED_HOST_TO_DEVICE,
    CopyKind.UNIFIED_DEVICE_TO_HOST,
)


def by_name(
    linked: TraceJoins,
    figure: Callable[[str], Any],
    rows: Bool | slice = slice(None),
    *,
    numbers: bool = True,
) -> NDArray[Any]:
    """What this function says of the name of each of these device ops; `numbers`: whether it may say something
    else of a name that differs in nothing but its numbers."""
    name = linked.trace.device_ops.name[rows]
    groups = Groups.of(name)
    names = name[groups.first]
    if not numbers:
        names = first_alike(linked.trace.strings)[names]
    kinds = distinct(names).tolist()
    known = {code: figure(linked.trace.text(code) or "") for code in kinds}
    figures = [known[code] for code in names.tolist()]
    return np.array(figures)[groups.index]


def issue_time(linked: TraceJoins, work: OpWork, row: I64) -> F64:
    """Least time, ns, that each device op needs to issue its instructions; NaN where they are not
    known, or would need more than it took: it does not go over the operator's largest tensor.
    `row`: the host range it works for."""
    ops = linked.trace.device_ops
    if not (row >= 0).any():
        return np.broadcast_to(np.nan, len(ops))

    def slots(kernel: str) -> tuple[float, ...]:
        found = (entry for entry in SLOTS if entry.kernel.search(kernel))
        entry = next(found, None)
        return (np.nan,) * 4 if entry is None else entry[1:]

    element, block, thread, operation = by_name(linked, slots, numbers=False).T
    blocks = np.maximum(ops.blocks, 0).astype(np.float64)
    threads = np.maximum(ops.threads, 0)
    elements, operations = (
        work.of(column, row) for column in (WorkColumn.ELEMENTS, WorkColumn.FLOPS)
    )
    needed = elements * element + blocks * (block + threads * thread) + operations * operation
    time = needed / linked.limit("issue_rate") * NS_PER_S
    return np.where(linked.is_kernel & (time <= ops.end - ops.start), time, np.nan)


def passes_of(linked: TraceJoins, row: I64) -> I64:
    """For each device op its place in `PASSES`, -1 for most; `row` is the host range whose work it
    is part of."""
    kernels = linked.trace.device_ops.name
    names = at(linked.trace.host_ranges.name, row, -1)
    groups = Groups.of(kernels, names)
    alike = first_alike(linked.trace.strings)
    columns = (alike[column[groups.first]].tolist() for column in (kernels, names))
    pairs = list(zip(*columns, strict=True))
    known = {pair: _pass_of(*map(linked.trace.text, pair)) for pair in set(pairs)}
    place = np.array([known[pair] for pair in pairs], np.int64)[groups.index]
    return np.where(linked.is_kernel & (row >= 0), place, -1)


def _pass_of(kernel: str | None, operator: str | None) -> int:
    """The place in `PASSES` of a kernel that works for this operator, -1 for most."""
    fits = (
        i
        for i, p in enumerate(PASSES)
        if p.operator in (None, operator) and p.kernel.search(kernel or "")
    )
    return next(fits, -1)


class OperatorFigures(NamedTuple):
    """What traffic depends on of each device op's operator, as `Figure` has it; NaN where it has
    none."""

    flops: F64
    bytes: F64
    inputs: F64
    entries: F64
    elements: F64
    width: F64

    @property
    def written(self) -> F64:
        """Bytes of the results."""
        return np.maximum(self.bytes - self.inputs, 0)


def expected_traffic(
    linked: TraceJoins,
    work: OpWork,
    row: I64,
    share: tuple[F64, F64],
    passes: I64,
    resident: F64,
) -> F64:
    """Bytes that each device op is expected to read and write, NaN where nothing is known.

    `row` is the host range whose work it is part of, `share` its shares of that work's FLOPs and
    least traffic, `passes` what `passes_of` says, `resident` how many of its blocks the GPU holds
    at a time."""
    flops, least = share
    if not (row >= 0).any():
        return least
    figures = (work.of(column, row) for column in WorkColumn if column is not WorkColumn.PRECISION)
    operators = OperatorFigures(*figures)
    result = np.where(passes >= 0, _passes(linked, operators, passes, resident), least)
    _leave_to_matrix_kernels(linked, operators, row, passes >= 0, result)
    cache = linked.limit("cache_bytes")
    beyond = operators.inputs / operators.entries > cache
    missed = 1 - cache / np.where(operators.inputs > 0, operators.inputs, np.nan)
    gemm = linked.op_class == linked.classes.index("gemm")
    looking_up = by_name(linked, lambda name: LOOK_UPS.search(name) is not None, numbers=False)
    for rows, reads in (
        (gemm, _wave_reads(linked, operators, flops, resident)),
        (looking_up, operators.written * missed),
    ):
        result = np.where(rows & beyond, np.fmax(result, reads + operators.written), result)
    # no memory moves more in the time; where even the least is more, that is for a finding to say
    ops = linked.trace.device_ops
    most = np.fmax(linked.limit("bandwidth") * (ops.end - ops.start) / NS_PER_S, least)
    return np.where(result > most, most, result)


def _leave_to_matrix_kernels(
    linked: TraceJoins, figures: OperatorFigures, row: I64, described: Bool, traffic: F64
) -> None:
    """Of operators with described kernels the matrix kernels have the operator's traffic, the
    others (which clear counters and the like) none; written into `traffic`."""
    rest = (row >= 0) & ~described & np.isin(row, row[described])
    main = rest & linked.is_matrix
    traffic[rest] = 0.0
    if main.any():
        kernels = np.bincount(row[main])[row[main]]
        traffic[main] = figures.bytes[main] / kernels


def _passes(linked: TraceJoins, figures: OperatorFigures, passes: I64, resident: F64) -> F64:
    """Bytes by passes over tensors."""
    tensors, again, times, in_fp32, each, inputs = (
        np.array([getattr(p, name) for p in PASSES])[passes]
        for name in ("tensors", "again", "times", "in_fp32", "each", "inputs")
    )
    blocks = linked.trace.device_ops.blocks
    launched = each * blocks * np.maximum(linked.trace.device_ops.threads, 0).astype(np.float64)
    largest = np.fmax(figures.elements, figures.written / figures.width)
    size = np.where(launched > 0, np.fmin(launched, largest), figures.elements) * figures.width
    running = size * again / np.maximum(blocks, 1) * resident / linked.limit("cache_bytes")
    missed = np.nan_to_num(np.clip((running - FITS) / (FAILS - FITS), 0, 1))
    return (
        size * (tensors + again * times * missed)
        + figures.elements * in_fp32 * FLOAT.bytes
        + figures.inputs * inputs
    )


def _wave_reads(linked: TraceJoins, figures: OperatorFigures, flops: F64, resident: F64) -> F64:
    """Bytes that each product reads wave by wave, were its operands larger than the cache.

    Rows and columns of its result (which is which is not told) follow from its operations and its
    traffic: with m·n results, k = FLOPs / 2mn and (m + n)·k elements of the operands."""
    high, wide = by_name(linked, tile).astype(np.float64).T
    area = resident * high * wide
    strips = (
        (STRIP + resident / STRIP) * (high + wide) / 2
    )  # the mean of strips along rows and along columns
    with np.errstate(divide="ignore", invalid="ignore"):
        results = figures.written / figures.width
        total = figures.inputs / figures.width / (figures.flops / 2 / results)
        half = np.sqrt(np.maximum(total * total / 4 - results, 0))
        extents = total / 2 + half, np.maximum(total / 2 - half, 1)
        rows = np.mean([extent + area / extent for extent in extents], axis=0)
    scheduled = (linked.trace.device_ops.blocks > resident) & np.isfinite(rows)
    return flops / 2 * np.where(scheduled, np.fmax(rows, strips), strips) / area * figures.width


def tile(kernel: str) -> tuple[int, int]:
    """Rows and columns of the tile that a block of a matrix kernel calculates, by its name; those
    of a usual one."""
    found = TILE.search(kernel)
    rows, columns = [int(size) for size in found.groups() if size] if found else (128, 128)
    return rows, columns


def copy_traffic(linked: TraceJoins) -> tuple[F64, F64]:
    """For each device op the bytes it moves (a copy within the device reads and writes them, a
    memset writes) and the bandwidth of what carries them, bytes/s; NaN for kernels and where size
    or rate is not known."""
    ops = linked.trace.device_ops
    traffic = np.full(len(ops), np.nan)
    rate = np.full(len(ops), np.nan)
    moved = np.where(ops.bytes >= 0, ops.bytes, np.nan)
    copied = ops.kind == DeviceOpKind.MEMCPY
    for rows, factor, limit in (
        (copied & (ops.copy_kind == CopyKind.DEVICE_TO_DEVICE), 2, "bandwidth"),
        (ops.kind == DeviceOpKind.MEMSET, 1, "bandwidth"),
        (copied & isin_few(ops.copy_kind, HOST_COPIES), 1, "host"),
        (copied & (ops.copy_kind == CopyKind.PEER_TO_PEER), 1, "link"),
    ):
        traffic[rows] = factor * moved[rows]
        rate[rows] = linked.limit(limit)[rows]
    return traffic, rate


def collective_traffic(timed: Timed) -> tuple[F64, F64]:
    """For each kernel of a collective the bytes that its GPU has to send over its links, and their
    bandwidth.

    Message times NCCL's bus factor (2(n-1)/n for all_reduce, ...); the kernels of one call share it
    by time. NaN where message, group or link is not known, or the group spans more than a node."""
    ops = timed.trace.device_ops
    calls = timed.collective_calls
    if not len(calls):
        return np.broadcast_to(np.nan, len(ops)), np.broadcast_to(np.nan, len(ops))
    traffic = np.full(len(ops), np.nan)
    rate = np.full(len(ops), np.nan)
    size = np.append(timed.trace.collectives.group_size, np.int32(-1))[calls.metadata]
    factors = [
        bus_factor(KINDS[kind], int(ranks)) for kind, ranks in zip(calls.kind, size, strict=True)
    ]
    bus = np.array(factors, np.float64)
    known = (calls.bytes > 0) & (size > 1) & (size <= NODE_GPUS)
    sent = np.where(known, calls.bytes * bus, np.nan)
    share = share_of_group(ops.end - ops.start, calls.kernels, calls.of_kernel)
    traffic[calls.kernels] = sent[calls.of_kernel] * share
    rate[calls.kernels] = timed.linked.limit("link")[calls.kernels]
    return traffic, rate


def share_of_group(duration: I64, rows: I64, group: I32 | I64) -> F64:
    """Share of each of these device ops in the time of its group (equal shares where that is
    none)."""
    time = duration[rows].astype(np.float64)
    total = np.bincount(group, weights=time, minlength=int(group.max(initial=-1)) + 1)
    count = np.bincount(group, minlength=len(total))
    by_time = time / np.maximum(total[group], 1)
    even = 1 / np.maximum(count[group], 1)
    return np.where(total[group] > 0, by_time, even)
