"""The model in 16 bits: faster products, half the traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.changes.numbers import TENSOR_EFFICIENCY, in_16_bits, wide_products
from traceanalyzer.analysis.replay.scenarios import Scenario
from traceanalyzer.diagnosis.remedies.program import program, tape_of
from traceanalyzer.diagnosis.remedies.remedy import Offer, Remedy

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements

USUAL_TRAFFIC = 0.6
"""Share of their time that kernels on fp32 activations keep: half of the bytes, and some stay in fp32."""
INDEXED_TRAFFIC = 0.85
"""The same of kernels for operands that do not lie alike in memory: half of the bytes, but at 0.6 times the rate."""
PYTORCH = "with torch.autocast('cuda', torch.bfloat16): around forward and loss"
SCENARIO = Scenario(
    "low_precision",
    in_16_bits(TENSOR_EFFICIENCY, USUAL_TRAFFIC, INDEXED_TRAFFIC),
    f"products reach {TENSOR_EFFICIENCY:.0%} of the dense bf16 peak and cost a tenth more for casts, which the host "
    "launches, too; kernels that move fp32 activations at the memory's rate take 60% of their time, those that spread "
    "an operand 85% (upper end: 80% and all, and products half of the peak); what takes a parameter beside them stays "
    "in fp32",
    hopeful=in_16_bits(0.85, 0.5, 0.7),
    cautious=in_16_bits(0.5, 0.8, 1.0),
    missing="no product of fp32 matrices was recorded, or the GPU's rate is not known",
)


def offer(m: Measurements) -> Offer:
    """Wherever matrices are multiplied in fp32 or TF32."""
    known = program(m)
    if known.lightning:
        how = "Trainer(precision='bf16-mixed')"
    elif known.accelerate:
        how = "Accelerator(mixed_precision='bf16'), or bf16=True in TrainingArguments"
    else:
        how = PYTORCH if known.pytorch else "bf16 operands"
    return Offer(f"Compute in bf16: {how}.", SCENARIO, against=("fp32-matmul", "memory") if _fewer_bytes(m) else None)


def _fewer_bytes(m: Measurements) -> bool:
    """Whether most of what kernels save is time of those that are limited by memory, not of products."""
    tape = tape_of(m)
    found = None if tape is None else SCENARIO.change(tape)
    if tape is None or found is None:
        return False
    saved = tape.duration - found.duration
    return float(saved[wide_products(tape)].sum()) < 0.5 * float(saved.sum())


LEAST_GAIN = 0.05
"""Casts of small tensors cost launches; results differ a little."""
REMEDY = Remedy("low_precision", "compute", "fp32-matmul", offer, LEAST_GAIN)
