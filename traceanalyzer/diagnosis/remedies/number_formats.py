"""Products in TF32, or the model in 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.numbers import TENSOR_EFFICIENCY, in_16_bits, in_tf32
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

IN_TF32 = Scenario(
    "tf32",
    in_tf32,
    f"products of fp32 matrices reach {TENSOR_EFFICIENCY:.0%} of the tensor cores' dense TF32 peak; clocks are lower "
    "where they pause less",
    missing="no product of fp32 matrices runs off the tensor cores, or the GPU's rate is not known",
)
IN_16_BITS = Scenario(
    "low_precision",
    in_16_bits(TENSOR_EFFICIENCY, 0.6),
    f"products reach {TENSOR_EFFICIENCY:.0%} of the dense bf16 peak and cost a tenth more for casts; kernels that move "
    "fp32 activations move little more than half (upper end: as much, and products at half of the peak)",
    hopeful=in_16_bits(0.85, 0.5),
    cautious=in_16_bits(0.5, 1.0),
    missing="no product of fp32 matrices was recorded, or the GPU's rate is not known",
)


def _tf32(m: Measurements) -> Offer | None:
    """Where PyTorch multiplies fp32 matrices on the ordinary cores."""
    how = "torch.set_float32_matmul_precision('high')" if program(m).pytorch else "CUBLAS_COMPUTE_32F_FAST_TF32"
    return Offer(f"Allow TF32 for products: {how}.", IN_TF32)


def _low_precision(m: Measurements) -> Offer | None:
    """Where matrices are multiplied in fp32 or TF32."""
    known = program(m)
    how = "with torch.autocast('cuda', torch.bfloat16): around forward and loss" if known.pytorch else "bf16 operands"
    if known.accelerate or known.lightning:
        how = "Trainer(precision='bf16-mixed')" if known.lightning else "Accelerator(mixed_precision='bf16'), --bf16"
    return Offer(f"Compute in bf16: {how}.", IN_16_BITS)


TF32 = Remedy("tf32", "compute", "fp32-matmul", _tf32)
LOW_PRECISION = Remedy("low_precision", "compute", "fp32-matmul", _low_precision)
