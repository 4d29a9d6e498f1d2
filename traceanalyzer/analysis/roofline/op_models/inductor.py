"""Kernels that torch.compile makes (`triton_poi_fused_add_mul_0`): bytes from the tensors they are
given, FLOPs estimated from the operators in their names.

The launch is recorded with its tensors, results last, and then the sizes of what it goes over: of a
tensor that is larger (a slice of it is meant) it reads no more than that. A pointwise kernel
without a tensor left for its result updates its first one, which is then read and written. The
recording does not say which: bytes are estimates."""

import math
import re

from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables
from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, promoted
from traceanalyzer.base import regex

OPERATOR_FLOPS = kernel_tables().operator_flops
"""FLOPs an element of the operators that names are made of; views, casts and look-ups have none."""
_OPERATORS = regex(
    "|".join(sorted((re.escape(name) for name in OPERATOR_FLOPS), key=len, reverse=True))
)
_OF_TWO = regex(
    r"(?:^|_)(add|sub|mul|div|maximum|minimum|[a-z0-9]{1,40}(?:_[a-z0-9]{1,40}){0,6}?_backward)(?=_)"
)
_BIASED = regex(r"(?:^|_)b?addb?mm_")
_SCALES = regex(r"^_(mul|div)(_view|__to_copy|_permute)*_\d+$")
"""Nothing but a product: most often with a number, which is no tensor."""


def triton(call: Call) -> Work:
    """Every tensor argument once, one updated in place twice; FLOPs of the named operators for each
    element."""
    tensors = call.tensors
    named = call.name.partition("fused")[2]
    if not tensors:
        raise UnmodelledError("no tensor")
    # The elements that the kernel goes over: the product of the sizes behind its tensors, where
    # they are recorded.
    behind = max(i for i, given in enumerate(call.inputs) if given) + 1
    sizes = list(map(int, filter(str.isdecimal, call.values[behind:])))
    points = min(math.prod(sizes) if sizes else math.inf, max(t.numel for t in tensors))
    moved = [min(t.stored, points) * t.dtype.bytes for t in tensors]
    in_place = len(tensors) == 1 or (
        "_poi_" in call.name and _updates_first(named, tensors, points)
    )
    flops = points * sum(OPERATOR_FLOPS[name] for name in _OPERATORS.findall(named))
    return Work(float(flops), sum(moved) + in_place * moved[0], promoted(*tensors).precision)


def _updates_first(named: str, tensors: list[Tensor], points: float) -> bool:
    """Whether the result takes the place of the first tensor: the last is too small for it, or as
    many operands as there are tensors of full size are needed. What is added or multiplied may be a
    number, or a small tensor."""
    full = sum(t.numel >= points for t in tensors)
    if tensors[0].numel < points or tensors[-1].numel < points:
        return tensors[0].numel >= points
    operands = 1 + len(_OF_TWO.findall(named))
    small = len(tensors) - full
    return operands >= full and small <= bool(_BIASED.search(named)) and not _SCALES.match(named)
