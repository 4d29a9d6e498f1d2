"""What a run of kernels moves as one kernel: what comes in from outside of it and what it leaves, not what its kernels
hand to each other."""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.algebra.lookup import at
from traceanalyzer.analysis.groups.passes import ASIDE
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.trace import F64, I32, I64, Bool

OVERWRITES = re.compile(r"^aten::(copy_|fill_|zero_)$")
"""Operators whose first operand is where they write."""


def written(rated: Rated, op: I32 | I64) -> F64:
    """Bytes that each of these device ops writes, as far as its operator's operands say: what it moves and does not
    read."""
    trace, row = rated.trace, rated.roofline.row[op]
    ranges = trace.host_ranges
    columns = [at(column, row, -1) for column in (ranges.name, ranges.shapes, ranges.dtypes)]
    kinds = Groups.of(*columns)
    codes = zip(*(column[kinds.first].tolist() for column in columns), strict=True)
    sizes = np.array([_read_and_first(*(trace.text(code) or "" for code in kind)) for kind in codes])
    read, first = sizes.reshape(-1, 2)[kinds.index].T
    traffic = np.nan_to_num(rated.roofline.expected[op])
    return np.where(first > 0, np.minimum(first, traffic), np.maximum(traffic - read, 0.0))


def _read_and_first(name: str, shapes: str, dtypes: str) -> tuple[float, float]:
    """Bytes of an operator's operands, and of the first where that is what it writes."""
    sizes = [
        float(np.nan_to_num(one.numel * one.dtype.bytes))
        for one in parse_inputs(shapes, dtypes, None) or ()
        if isinstance(one, Tensor)
    ]
    return sum(sizes), sizes[0] if sizes and OVERWRITES.match(name) else 0.0


def crossing(number: I64, traffic: F64, out: F64, reducing: Bool) -> F64:
    """Of each op's traffic, bytes, what crosses the border of its run (`number`, -1 outside of any): what it reads and
    no op before it in the run wrote or read whole, and what the run's last op writes (`out`).

    What a reduction reads beside the run's first op is told apart: a fused kernel reads it again.
    """
    inside = number >= 0
    same = np.zeros(len(number), bool)
    same[1:] = inside[1:] & (number[1:] == number[:-1])
    last = inside & ~np.append(same[1:], False)
    read = traffic - out
    large = inside & ((out * ASIDE >= _largest(number, traffic)) | ~same)
    before = np.maximum.accumulate(np.where(large, np.arange(len(number)), 0))
    handed = np.where(out[before] * ASIDE >= traffic[before], out[before], read[before])
    within = np.where(same, np.minimum(read, np.append(0.0, handed[:-1])), 0.0)
    result: F64 = np.where(same & reducing, 0.0, read - within) + np.where(last, out, 0.0)
    return np.where(inside, result, 0.0)


def _largest(number: I64, traffic: F64) -> F64:
    """For each op the largest traffic of an op of its run."""
    most = np.zeros(int(number.max(initial=-1)) + 2)
    np.maximum.at(most, number, traffic)
    return most[number]
