"""Products of fp32 matrices on the tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.numbers import TENSOR_EFFICIENCY, in_tf32
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

SCENARIO = Scenario(
    "tf32",
    in_tf32,
    f"products of fp32 matrices reach {TENSOR_EFFICIENCY:.0%} of the tensor cores' dense TF32 peak; clocks are lower "
    "where they pause less",
    missing="no product of fp32 matrices runs off the tensor cores, or the GPU's rate is not known",
)
PYTORCH = "torch.set_float32_matmul_precision('high')"
OTHER = "the math mode or compute type CUBLAS_COMPUTE_32F_FAST_TF32"


def offer(m: Measurements) -> Offer:
    """Wherever fp32 matrices are multiplied on the ordinary cores."""
    return Offer(f"Allow TF32 for products: {PYTORCH if program(m).pytorch else OTHER}.", SCENARIO)


REMEDY = Remedy("tf32", "compute", "fp32-matmul", offer)
