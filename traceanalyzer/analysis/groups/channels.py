"""Convolutions whose channel counts leave the tensor cores' fast kernels unused."""

import re

import numpy as np

from traceanalyzer.analysis.algebra import Groups, one_of
from traceanalyzer.analysis.groups.ops import Group, group, operators, steady
from traceanalyzer.analysis.groups.products import ALIGNED_BYTES
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Bool

CONVOLUTION = re.compile(r"^aten::\w*conv")
BACKWARD = re.compile(r"backward")
ON_TENSOR_CORES = (Precision.TF32, Precision.FP16, Precision.BF16)
FEW_CHANNELS = 4
"""Images have one to four, and the layer that reads them is made for it."""


@dataclass(frozen=True, eq=False)
class OddConvolutions:
    """Convolutions with channel counts that are not multiples of 16 bytes."""

    kernels: Group
    shapes: list[str]
    """Of their weights: result channels, input channels of a group, window."""


def odd_convolutions(rated: Rated, free: Bool) -> OddConvolutions | None:
    """Convolutions in number formats of tensor cores with odd channel counts, of ops that are `free`; those that read
    images and those with groups are left out."""
    roofline, code = rated.roofline, operators(rated)
    rows = (
        steady(rated.timed) & rated.linked.is_matrix & free & (code >= 0) & one_of(roofline.precision, ON_TENSOR_CORES)
    )
    names = np.array([bool(CONVOLUTION.match(text)) for text in (*rated.trace.strings, "")])
    rows &= names[code]
    odd, shapes = _odd(rated, roofline.row[rows])
    rows[rows] = odd
    found = group(rated.timed, rows)
    return OddConvolutions(found, shapes) if found.total_ms > 0 else None


def _odd(rated: Rated, rows: I32 | I64) -> tuple[Bool, list[str]]:
    """Which of these host ranges have odd channels; the shapes of their weights, sorted."""
    ranges = rated.trace.host_ranges
    codes = [column[rows] for column in (ranges.name, ranges.shapes, ranges.dtypes)]
    kinds = Groups.of(*codes)
    shapes = [_odd_weight(rated, *one) for one in zip(*(column[kinds.first].tolist() for column in codes), strict=True)]
    odd = np.array([shape is not None for shape in shapes], bool)
    return odd[kinds.index], sorted({shape for shape in shapes if shape is not None})


def _odd_weight(rated: Rated, name: int, shapes: int, dtypes: int) -> str | None:
    """The shape of the weight, where one of its channel counts is odd; None where none is, or it cannot be told."""
    trace = rated.trace
    inputs = parse_inputs(trace.text(shapes) or "", trace.text(dtypes), None) or ()
    at = 1 if BACKWARD.search(trace.strings[name]) else 0
    pair = inputs[at : at + 2]
    if len(pair) < 2 or not all(isinstance(one, Tensor) and len(one.shape) >= 3 for one in pair):
        return None
    x, weight = pair
    if not isinstance(x, Tensor) or not isinstance(weight, Tensor):
        return None
    out, into = weight.shape[:2]
    whole = out if "transpose" in trace.strings[name] else into
    if x.shape[1] != whole or min(out, into) <= FEW_CHANNELS:
        return None
    element = weight.dtype.bytes
    return "x".join(map(str, weight.shape)) if any(n * element % ALIGNED_BYTES for n in (out, into)) else None
