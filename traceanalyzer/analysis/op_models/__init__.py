"""FLOPs and bytes of recorded operators, from the shapes, strides, types and values of their inputs.

`model_ops` is the measurement; `MODELS` is the one list of operators that have a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.op_models import matmul
from traceanalyzer.analysis.op_models.tensors import Precision
from traceanalyzer.analysis.op_models.work import Models, OpWork, apply_models

if TYPE_CHECKING:
    from traceanalyzer.analysis.context import Context

MODELS = Models(
    working={
        "aten::mm": matmul.mm,
        "aten::addmm": matmul.addmm,
        "aten::_addmm_activation": matmul.addmm,
        "aten::bmm": matmul.bmm,
        "aten::baddbmm": matmul.baddbmm,
        "aten::addbmm": matmul.addbmm,
        "aten::mv": matmul.mv,
        "aten::addmv": matmul.addmv,
        "aten::dot": matmul.dot,
        "aten::vdot": matmul.dot,
        "aten::mkldnn_linear": matmul.linear,
        "aten::_scaled_mm": matmul.scaled_mm,
        "aten::_int_mm": matmul.int_mm,
        "aten::_grouped_mm": matmul.grouped_mm,
    },
    composite={
        "aten::linear": matmul.linear,
        "aten::matmul": matmul.matmul,
        "aten::einsum": matmul.einsum,
    },
    prefixes={},
)


def model_ops(ctx: Context) -> OpWork:
    """What each recorded operator has to do at least, and which device ops do it."""
    return apply_models(ctx, MODELS)


__all__ = ["MODELS", "OpWork", "Precision", "model_ops"]
