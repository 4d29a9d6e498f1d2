"""Traffic with the device memory that kernels are expected to cause, where it is more than their operator needs.

An operator's least traffic (`op_models`) says what an ideal kernel moves; these say what known kernels move:

- **Operators of several kernels** (`PASSES`): each goes over the operator's tensors as often as its algorithm tells.
  What a block reads a second time comes from the last cache if the rows of all blocks that run at a time fit it.
- **Matrix products** calculate a wave of tiles at a time. While it runs its tiles share what they read through the
  cache; the next wave reads its operands anew unless the cache holds both whole. A wave that covers an area with sides
  s and t reads (s + t)·k elements for s·t results. (Lam, Rothberg, Wolf: The Cache Performance and Optimizations of
  Blocked Algorithms, ASPLOS 1991, here with the whole GPU as processor.)
- **Look-ups** find rows of a table again in the cache as far as it holds the table.
"""

import re

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables
from traceanalyzer.analysis.roofline.op_models import Figure, OpWork
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.trace import F64, I64, Bool

# Time that kernels need to issue their instructions, where that is not the arithmetic that FLOPs count.
#
# Conversions, indices, special functions and random numbers take instructions too. An SM issues four a cycle, each for
# 32 threads, so elements times instructions is a least time as much as FLOPs over the peak are. How many instructions a
# kernel takes for an element is a property of its code: they were counted by Nsight Compute (`sm__inst_executed`;
# `kernel_tables.toml` says on which PyTorch and GPU; HELD_OUT of benchmarks/ncu_cases.py had no part). Kernels that are
# not listed have none, and are never called bound by them.
#
# Counted are issue slots: the greater of all instructions, twice those of the integer and comparison pipe (64 lanes an
# SM) and eight times those of the special function unit (16 lanes). Source of the rates: CUDA C++ programming guide,
# "throughput of native arithmetic instructions".

LANES = 32
"""Threads of an instruction."""


SLOTS = kernel_tables().slots
"""The first that fits counts."""


def issue_time(linked: Linked, work: OpWork, row: I64) -> F64:
    """Least time, ns, that each device op needs to issue its instructions; NaN where they are not known, or would need
    more than it took: it does not go over the operator's largest tensor. `row` is the host range whose work it is part
    of."""
    ops = linked.trace.device_ops
    if not (row >= 0).any():
        return np.broadcast_to(np.nan, len(ops))
    groups = Groups.of(ops.name)
    slots = np.array([_slots(linked.trace.text(int(c)) or "") for c in ops.name[groups.first]]).reshape(-1, 4)
    element, block, thread, operation = slots[groups.index].T
    blocks, threads = np.maximum(ops.blocks, 0).astype(np.float64), np.maximum(ops.threads, 0)
    elements, operations = (work.of(column, row) for column in (Figure.ELEMENTS, Figure.FLOPS))
    needed = elements * element + blocks * (block + threads * thread) + operations * operation
    time = needed / linked.limit("issue_rate") * NS_PER_S
    return np.where(linked.is_kernel & (time <= ops.end - ops.start), time, np.nan)


def _slots(kernel: str) -> tuple[float, ...]:
    found = next((s for s in SLOTS if s.kernel.search(kernel)), None)
    return tuple(found[1:]) if found else (np.nan,) * 4


FP32_BYTES = 4


PASSES = kernel_tables().passes
"""The first that fits counts. Checked against `dram__bytes` (docs/roofline.md)."""

PREPARING = tuple(i for i, p in enumerate(PASSES) if not p.calculates)
"""Places of those that do no matrix products, though they may be of such an operator."""

_SIZE = r"([1-9]\d{0,4})x([1-9]\d{0,4})"
TILE = re.compile(rf"nvjet_\w*?_{_SIZE}_\d+x\d+|tilesize{_SIZE}x|gemm(?:_[a-z]\w*?)?_{_SIZE}(?=_)")
"""Rows and columns of the tiles of a matrix kernel: nvjet, xmma, CUTLASS and the older cuBLAS."""
USUAL_TILE = (128, 128)
STRIP = 8
"""Tiles beside each other that the blocks of a kernel that schedules its tiles itself take in turn, so that a wave is
neither a row nor a column of tiles (CUTLASS, `GemmIdentityThreadblockSwizzle`: up to eight). Where the GPU schedules
them, there are more blocks than it holds at a time, and they start row by row."""
FITS, FAILS = 0.4, 0.8
"""Parts of the cache up to which what blocks read a second time is found there, and from which it is not: they do not
run in step, other data passes through, and some of it is held twice (Hopper's cache has two parts)."""
LOOK_UPS = re.compile(r"gather_kernel|indexSelect|index_select")


def passes_of(linked: Linked, row: I64) -> I64:
    """For each device op its place in `PASSES`, -1 for most; `row` is the host range whose work it is part of."""
    names = at(linked.trace.host_ranges.name, row, -1)
    groups = Groups.of(linked.trace.device_ops.name, names)
    pairs = zip(linked.trace.device_ops.name[groups.first].tolist(), names[groups.first].tolist(), strict=True)
    places = [_place(linked.trace.text(kernel) or "", linked.trace.text(operator)) for kernel, operator in pairs]
    return np.where(linked.is_kernel & (row >= 0), np.array(places, np.int64)[groups.index], -1)


def _place(kernel: str, operator: str | None) -> int:
    fits = (p.operator in (None, operator) and p.kernel.search(kernel) for p in PASSES)
    return next((i for i, fit in enumerate(fits) if fit), -1)


@dataclass(frozen=True, eq=False)
class Operators:
    """Of each device op's operator what traffic depends on; NaN where it has none."""

    flops: F64
    bytes: F64
    """Least traffic."""
    inputs: F64
    entries: F64
    elements: F64
    width: F64
    """As `Figure` has them."""

    @classmethod
    def of(cls, work: OpWork, row: I64) -> "Operators":
        """Those of these host ranges, -1 for none."""
        columns = (Figure.FLOPS, Figure.BYTES, Figure.INPUTS, Figure.ENTRIES, Figure.ELEMENTS, Figure.WIDTH)
        return cls(*(work.of(column, row) for column in columns))

    @property
    def written(self) -> F64:
        """Bytes of the results."""
        return np.maximum(self.bytes - self.inputs, 0)


def expected_traffic(linked: Linked, work: OpWork, row: I64, share: tuple[F64, F64], passes: I64, resident: F64) -> F64:
    """Bytes that each device op is expected to read and write, NaN where nothing is known.

    `row` is the host range whose work it is part of, `share` its shares of that work's FLOPs and least traffic,
    `passes` what `passes_of` says, `resident` how many of its blocks the GPU holds at a time.
    """
    (flops, least), cache, ops = share, linked.limit("cache_bytes"), linked.trace.device_ops
    if not (row >= 0).any():
        return least
    of = Operators.of(work, row)
    result = np.where(passes >= 0, _passes(linked, of, passes, resident), least)
    _leave_the_rest(result, of, row, passes >= 0, linked.is_matrix)
    beyond = of.inputs / of.entries > cache
    missed = 1 - cache / np.where(of.inputs > 0, of.inputs, np.nan)
    gemm = linked.op_class == linked.classes.index("gemm")
    for rows, reads in (
        (gemm & beyond, _wave_reads(linked, of, flops, resident)),
        (_named(linked, LOOK_UPS) & beyond, of.written * missed),
    ):
        result = np.where(rows, np.fmax(result, reads + of.written), result)
    # no memory moves more in the time; where even the least is more, that is for a finding to say
    most = np.fmax(linked.limit("bandwidth") * (ops.end - ops.start) / NS_PER_S, least)
    return np.where(result > most, most, result)


def _passes(linked: Linked, of: Operators, passes: I64, resident: F64) -> F64:
    """Bytes by passes over tensors."""
    tensors, again, times, in_fp32, each, inputs = (
        np.array([getattr(p, name) for p in PASSES])[passes]
        for name in ("tensors", "again", "times", "in_fp32", "each", "inputs")
    )
    launched = each * linked.trace.device_ops.blocks * np.maximum(linked.trace.device_ops.threads, 0).astype(np.float64)
    largest = np.fmax(of.elements, of.written / of.width)
    size = np.where(launched > 0, np.fmin(launched, largest), of.elements) * of.width
    running = size * again / np.maximum(linked.trace.device_ops.blocks, 1) * resident / linked.limit("cache_bytes")
    missed = np.nan_to_num(np.clip((running - FITS) / (FAILS - FITS), 0, 1))
    return size * (tensors + again * times * missed) + of.elements * in_fp32 * FP32_BYTES + of.inputs * inputs


def _leave_the_rest(result: F64, of: Operators, row: I64, described: Bool, matrix: Bool) -> None:
    """Of operators with described kernels the matrix kernels have the operator's traffic, the others (which clear
    counters and the like) none."""
    rest = (row >= 0) & ~described & np.isin(row, row[described])
    result[rest] = 0.0
    main = rest & matrix
    result[main] = of.bytes[main] / np.bincount(row[main])[row[main]] if main.any() else 0.0


def _wave_reads(linked: Linked, of: Operators, flops: F64, resident: F64) -> F64:
    """Bytes that each product reads wave by wave, were its operands larger than the cache."""
    groups = Groups.of(linked.trace.device_ops.name)
    names = [linked.trace.text(int(code)) or "" for code in linked.trace.device_ops.name[groups.first]]
    high, wide = np.array([tile(name) for name in names], np.float64).reshape(-1, 2)[groups.index].T
    area = resident * high * wide
    strips = (STRIP + resident / STRIP) * (high + wide) / 2  # the mean of strips along rows and along columns
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.mean([extent + area / extent for extent in _extents(of)], axis=0)
    scheduled = (linked.trace.device_ops.blocks > resident) & np.isfinite(rows)
    sides = np.where(scheduled, np.fmax(rows, strips), strips)
    return flops / 2 * sides / area * of.width


def _extents(of: Operators) -> tuple[F64, F64]:
    """Rows and columns of a product's result (which is which is not told), from its operations and its traffic: with
    m·n results, k = FLOPs / 2mn and (m + n)·k elements of the operands."""
    results = of.written / of.width
    total = of.inputs / of.width / (of.flops / 2 / results)
    half = np.sqrt(np.maximum(total * total / 4 - results, 0))
    return total / 2 + half, np.maximum(total / 2 - half, 1)


def tile(kernel: str) -> tuple[int, int]:
    """Rows and columns of the tile that a block of a matrix kernel calculates, by its name; those of a usual one."""
    found = TILE.search(kernel)
    rows, columns = [int(size) for size in found.groups() if size] if found else USUAL_TILE
    return rows, columns


def _named(linked: Linked, pattern: re.Pattern[str]) -> Bool:
    groups = Groups.of(linked.trace.device_ops.name)
    names = [linked.trace.text(int(code)) or "" for code in linked.trace.device_ops.name[groups.first]]
    return np.array([bool(pattern.search(name)) for name in names], bool)[groups.index]
