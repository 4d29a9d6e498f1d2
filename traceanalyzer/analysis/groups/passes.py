"""Passes over memory that could be fewer (of an optimizer, of runs of memory-bound kernels), and
what a run of kernels moves as one kernel: what comes in from outside of it and what it leaves, not
what its kernels hand to each other."""

import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, where_changed
from traceanalyzer.analysis.groups.ops import (
    OpsGroup,
    duration,
    greatest,
    group,
    in_stream_order,
    named_like,
    of_class,
    per_step,
    runs_of_neighbours,
    steady,
    title,
)
from traceanalyzer.analysis.roofline.op_models.tensors import tensors_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.base import ms, regex
from traceanalyzer.trace import F64, I32, I64, Bool, constant_column, distinct_places

OVERWRITES = regex(
    r"^aten::(copy_|fill_|zero_)$"
)  # operators whose first operand is where they write


FUSIBLE = (
    "elementwise",
    "normalisation",
    "softmax",
    "reduction",
    "layout",
    "random",
    "fill",
    "loss",
)
"""Classes whose kernels a compiler can merge with their neighbours; all are limited by memory
bandwidth."""
COMPILED = regex(r"^triton_(poi|red|per|for)_")
"""Kernels of torch.compile: it merged what works on the same data, and left what could not be
merged."""
MIN_CHAIN = 3
"""Shorter runs of such kernels are the residual adds and activations of any model, with little to
merge."""
ASIDE = 64
"""An operand this many times smaller than another is a statistic or a parameter beside it, not data
of its own."""
FUSED = regex("fused", re.IGNORECASE)


def bytes_written(rated: WithRoofline, op: I32 | I64) -> F64:
    """Bytes that each of these device ops writes, as far as its operator's operands say: what it
    moves and does not read, or the first where that is what the operator writes."""
    ranges = rated.trace.host_ranges
    row = rated.roofline.row[op]
    columns = [at(column, row, -1) for column in (ranges.name, ranges.shapes, ranges.dtypes)]
    kinds = Groups.of(*columns)
    firsts = [column[kinds.first].tolist() for column in columns]
    text = rated.trace.text
    sizes = [
        _read_and_overwritten(*(text(code) or "" for code in codes))
        for codes in zip(*firsts, strict=True)
    ]
    read_bytes, first = np.array(sizes).reshape(-1, 2)[kinds.index].T
    traffic = np.nan_to_num(rated.roofline.expected[op])
    return np.where(first > 0, np.minimum(first, traffic), np.maximum(traffic - read_bytes, 0.0))


def _read_and_overwritten(name: str, shapes: str, dtypes: str) -> tuple[float, float]:
    """Bytes of an operator's operands, and of the first one where that is what it writes, else
    0."""
    sizes = [float(np.nan_to_num(one.dense_bytes)) for one in tensors_of(shapes, dtypes)]
    overwrites = bool(sizes) and OVERWRITES.match(name) is not None
    return sum(sizes), sizes[0] if overwrites else 0.0


def crossing(number: I64, traffic: F64, out: F64, reducing: Bool) -> F64:
    """What of each op's traffic, bytes, crosses the border of its run (`number`, -1 outside of
    any): what it reads and no op before it in the run wrote or read whole, and what the run's last
    op writes (`out`).

    What a reduction reads beside the run's first op is told apart: a fused kernel reads it
    again."""
    inside = number >= 0
    same = np.zeros(len(number), bool)
    same[1:] = inside[1:] & (number[1:] == number[:-1])
    last = inside & ~np.append(same[1:], False)
    read = traffic - out
    most = np.zeros(int(number.max(initial=-1)) + 2)
    np.maximum.at(most, number, traffic)
    large = inside & ((out * ASIDE >= most[number]) | ~same)
    before = np.maximum.accumulate(np.where(large, np.arange(len(number)), 0))
    handed = np.where(out[before] * ASIDE >= traffic[before], out[before], read[before])
    handed_on = np.append(0.0, handed[:-1])
    within = np.where(same, np.minimum(read, handed_on), 0.0)
    result: F64 = np.where(same & reducing, 0.0, read - within) + np.where(last, out, 0.0)
    return np.where(inside, result, 0.0)


class OptimizerPasses(NamedTuple):
    """Kernels of an optimizer step that is not fused."""

    kernels: OpsGroup
    names: int  # different kernels
    longest_ms: float  # time a step of the one that takes longest
    longest: str


class Chains(NamedTuple):
    """Runs of memory-bound kernels that work on the same data."""

    kernels: OpsGroup
    runs_per_step: float
    kernels_per_run: float
    longest_ms: float  # time a step if each run took as long as its longest kernel
    bytes_saved: float | None
    """What the runs move a step beyond their kernel with the most traffic; None where not all of it
    is known."""


def find_optimizer_passes(rated: WithRoofline, free: Bool) -> OptimizerPasses | None:
    """An optimizer step written as many passes over its state, of ops that are `free`."""
    rows = (
        steady(rated.timed)
        & of_class(rated.joined, "optimizer")
        & ~named_like(rated.linked, FUSED)
        & free
    )
    if not rows.any():
        return None
    names, inverse = distinct_places(rated.trace.device_ops.name[rows])
    by_name = (
        np.bincount(inverse, weights=duration(rated.linked)[rows]) / rated.timed.steps.steady_count
    )
    longest = title(rated.linked, int(names[by_name.argmax()]))
    return OptimizerPasses(group(rated.timed, rows), len(names), ms(by_name.max()), longest)


def chains(rated: WithRoofline, free: Bool) -> Chains | None:
    """Runs of at least `MIN_CHAIN` memory-bound kernels one after the other, of ops that are
    `free`."""
    order = in_stream_order(rated.timed, steady(rated.timed))
    fusible = (
        of_class(rated.joined, *FUSIBLE)
        & rated.linked.is_kernel
        & free
        & ~named_like(rated.linked, COMPILED)
    )
    run, number = split_by_size(
        runs_of_neighbours(rated.timed, order, fusible[order])[0],
        rated.memo(largest_operands)[order],
    )
    count = np.bincount(run[run >= 0], minlength=number)
    steps = rated.timed.steps.steady_count
    long = count >= MIN_CHAIN
    if not long.any():
        return None
    inside = (run >= 0) & long[run]
    chained = order[inside]
    run = run[inside]
    rows = np.zeros(len(free), bool)
    rows[chained] = True
    moved = rated.roofline.bytes[chained]
    return Chains(
        kernels=group(rated.timed, rows),
        runs_per_step=long.sum() / steps,
        kernels_per_run=float(count[long].mean()),
        longest_ms=per_step(rated.timed, greatest(duration(rated.linked)[chained], run)),
        bytes_saved=float(moved.sum() - greatest(moved, run).sum()) / steps
        if np.isfinite(moved).all()
        else None,
    )


def split_by_size(run: I32 | I64, elements: I64) -> tuple[I32, int]:
    """The runs (-1 outside of any), ended also where the largest operand changes its size: the
    kernels then work on different tensors. Far smaller operands (row means of a normalisation) go
    with the run. And how many there are."""
    rows = np.flatnonzero(run >= 0)
    begins = where_changed(run[rows])
    size = elements[rows]
    uneven = _uneven(begins, size)
    current = 0
    for i, begins_here, own_size in zip(
        uneven.tolist(), begins[uneven].tolist(), size[uneven].tolist(), strict=True
    ):
        if (
            own_size
            and current
            and own_size != current
            and own_size < ASIDE * current
            and current < ASIDE * own_size
        ):
            begins[i] = begins_here = True
        current = own_size if begins_here else max(current, own_size)
    result = np.full(len(run), -1, np.int32)
    result[rows] = np.cumsum(begins, dtype=np.int32) - np.int32(1)
    return result, int(begins.sum())


def _uneven(begins: Bool, size: I64) -> I64:
    """The rows of stretches, given by where they begin, whose sizes differ; 0 is none."""
    if not len(size) or (size == size[0]).all():
        return np.empty(0, np.int64)
    first = np.flatnonzero(begins)
    most = np.maximum.reduceat(size, first)
    written_ones = np.where(size > 0, size, np.iinfo(np.int64).max)
    least = np.minimum.reduceat(written_ones, first)
    result: I64 = np.flatnonzero((least < most)[np.cumsum(begins) - 1])
    return result[
        begins[result] | where_changed(size[result])
    ]  # one like that before it says nothing new


def largest_operands(rated: WithRoofline) -> I64:
    """Elements of the largest operand of the operator that each device op is part of, 0 where not
    known."""
    codes = at(rated.trace.host_ranges.shapes, rated.roofline.row, -1)
    known, inverse = distinct_places(codes)
    sizes = [
        max((one.numel for one in tensors_of(rated.trace.text(int(code)))), default=0)
        for code in known
    ]
    return (
        constant_column(sizes[0], len(codes), np.int64)
        if len(known) == 1
        else np.array(sizes, np.int64)[inverse]
    )
