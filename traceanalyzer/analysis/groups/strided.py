"""Kernels that walk through memory in strides: neighbouring threads read or write elements that lie far apart.

Memory moves in sectors of 32 bytes. Where the fastest dimension of one operand of an elementwise kernel is walked
through in steps of a sector or more in another, one of the two moves a sector for each element, whichever order the
kernel takes. The strides of the inputs say so; results are not recorded, so only what inputs show is told.
"""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.groups.ops import Group, group, of_class, operators, steady
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64, Bool

SECTOR_BYTES = 32
"""What the device memory and the caches move at least (NVIDIA's and AMD's alike)."""
LARGE_BYTES = 1 << 22
"""Smaller operands lie in the caches, where a sector that was moved serves its other elements, too."""
ELEMENTWISE = re.compile(
    r"^aten::(copy_|add_?|sub_?|mul_?|div_?|where|maximum|minimum|pow|sigmoid|tanh|gelu|silu|relu|clamp)$"
)
"""Operators that go through all operands in one order, element by element."""


@dataclass(frozen=True, eq=False)
class StridedWork:
    """Elementwise kernels with operands in different orders."""

    kernels: Group
    examples: list[str]
    """Operator, shape and strides of the two operands."""


def strided_work(rated: Rated) -> StridedWork | None:
    """Such kernels of large operands."""
    code = operators(rated)
    names = np.array([bool(ELEMENTWISE.match(text)) for text in (*rated.trace.strings, "")])
    rows = steady(rated.timed) & names[code] & of_class(rated.joined, "elementwise", "layout", "other")
    found, examples = _across(rated, rated.roofline.row[rows])
    rows[rows] = found
    kernels = group(rated.timed, rows)
    return StridedWork(kernels, examples) if kernels.total_ms > 0 else None


def _across(rated: Rated, rows: I64) -> tuple[Bool, list[str]]:
    """Which of these host ranges have two operands in different orders, and how, sorted."""
    ranges = rated.trace.host_ranges
    codes = [column[rows] for column in (ranges.name, ranges.shapes, ranges.dtypes, ranges.strides)]
    kinds = Groups.of(*codes)
    texts = [_example(rated, *one) for one in zip(*(column[kinds.first].tolist() for column in codes), strict=True)]
    found = np.array([text is not None for text in texts], bool)
    return found[kinds.index], sorted({text for text in texts if text is not None})


def _example(rated: Rated, name: int, shapes: int, dtypes: int, strides: int) -> str | None:
    trace = rated.trace
    inputs = parse_inputs(trace.text(shapes) or "", trace.text(dtypes), trace.text(strides)) or ()
    large = [one for one in inputs if isinstance(one, Tensor) and one.strides and one.bytes >= LARGE_BYTES]
    for a, b in combinations(large, 2):
        if crosses(a, b):
            return f"{trace.strings[name]} of {list(a.shape)}: strides {list(a.strides or ())}, {list(b.strides or ())}"
    return None


def crosses(a: Tensor, b: Tensor) -> bool:
    """Whether each of two operands of one shape is walked through in sectors along the other's fastest dimension."""
    if a.shape != b.shape:
        return False
    fast_a, fast_b = _fastest(a), _fastest(b)
    if fast_a is None or fast_b is None or fast_a == fast_b:
        return False
    return _leaps(b, fast_a) and _leaps(a, fast_b)


def _fastest(tensor: Tensor) -> int | None:
    """The dimension whose elements lie side by side, None without one."""
    strides = tensor.strides or ()
    return next((d for d, (n, s) in enumerate(zip(tensor.shape, strides, strict=True)) if s == 1 and n > 1), None)


def _leaps(tensor: Tensor, dimension: int) -> bool:
    """Whether neighbours along a dimension lie in different sectors."""
    strides = tensor.strides or ()
    return abs(strides[dimension]) * tensor.dtype.bytes >= SECTOR_BYTES
