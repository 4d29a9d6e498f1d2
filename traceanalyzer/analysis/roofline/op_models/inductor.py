"""Kernels that torch.compile makes (`triton_poi_fused_add_mul_0`): bytes from the tensors they are given, FLOPs
estimated from the operators in their names.

The launch is recorded with its tensor arguments, results among them, so each is counted once. A kernel that reads
only part of an argument moves less, one that updates an argument in place more: bytes are an estimate.
"""

from __future__ import annotations

import re

from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables
from traceanalyzer.analysis.roofline.op_models.call import Call, UnmodelledError, Work, read
from traceanalyzer.analysis.roofline.op_models.tensors import promoted

OPERATOR_FLOPS = kernel_tables().operator_flops
"""FLOPs an element of the operators that names are made of; views, casts and look-ups have none."""

_OPERATORS = re.compile("|".join(sorted((re.escape(name) for name in OPERATOR_FLOPS), key=len, reverse=True)))


def triton(call: Call) -> Work:
    """Every tensor argument once; FLOPs of the named operators for each element of the largest."""
    tensors = call.tensors
    if not tensors:
        raise UnmodelledError("no tensor")
    named = sum(OPERATOR_FLOPS[name] for name in _OPERATORS.findall(call.name.partition("fused")[2]))
    return Work(float(named * max(t.numel for t in tensors)), read(*tensors), promoted(*tensors).precision)
