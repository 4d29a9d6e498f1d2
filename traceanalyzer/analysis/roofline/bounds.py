"""What limits a kernel: the ceiling of the GPU that it runs nearest to, or none of them."""

import enum
import re

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, U8, Bool, ranked

NEAR = 0.6
"""Share of a ceiling from which it limits a kernel: below 60 % of both compute and memory Nsight Compute's own rule
speaks of latency ("GPU Speed Of Light Throughput")."""
NEAR_TENSOR_PEAK = 0.55
"""The same for tensor cores, whose datasheet peak is at boost clock: power lets kernels that use them run below it, so
that near this line their FLOPs over the peak are 0.90 to 0.96 of the share of cycles that the cores are busy (five
kernels on an H200, at 1.73 to 1.79 of 1.98 GHz)."""


class Bound(enum.IntEnum):
    """What limits a device op."""

    UNKNOWN = 0
    COMPUTE = 1
    """Arithmetic that FLOPs count."""
    MEMORY = 2
    """The device memory's bandwidth."""
    LATENCY = 3
    """Near no ceiling: too little work to fill the GPU, steps that wait for each other, scattered accesses."""
    LINK = 4
    """PCIe, NVLink or another connection."""
    INSTRUCTIONS = 5
    """Issuing instructions that are no FLOPs: indices, conversions, special functions."""

    @property
    def label(self) -> str | None:
        """As reports name it; None where it is not known."""
        return None if self is Bound.UNKNOWN else self.name.lower()


@dataclass(frozen=True, eq=False)
class Reached:
    """Shares of its ceilings that each device op reaches, 0..1, NaN where not known."""

    arithmetic: F64
    tensor: Bool
    """Whether the arithmetic is that of tensor cores."""
    instructions: F64
    memory: F64
    """Expected traffic; 0 where the cache has the data."""


def bounds(shares: Reached) -> U8:
    """The `Bound` of each device op: the ceiling that it is nearest to, in parts of what counts as near."""
    near = np.where(shares.tensor, NEAR_TENSOR_PEAK, NEAR)
    most = np.nan_to_num(shares.arithmetic / near)
    nearest = np.full(len(most), Bound.COMPUTE, np.uint8)
    for kind, share in ((Bound.INSTRUCTIONS, shares.instructions), (Bound.MEMORY, shares.memory)):
        reached = np.nan_to_num(share / NEAR)
        nearest[reached > most] = kind
        np.maximum(most, reached, out=most)
    nearest[~(most >= 1)] = Bound.LATENCY
    return nearest


def measured_bound(compute_share: float, memory_share: float, *, matrix: bool) -> Bound:
    """What limits a kernel by its measured use of the SMs and of the device memory; `matrix` kernels keep the SMs
    busy with arithmetic, others with instructions of all kinds."""
    if max(compute_share, memory_share) < NEAR:
        return Bound.LATENCY
    if memory_share >= compute_share:
        return Bound.MEMORY
    return Bound.COMPUTE if matrix else Bound.INSTRUCTIONS


ORDINARY_CORES = re.compile(
    r"simt|ffma|(?<![a-z])sgemm|(?<![a-z])dgemm(?!.*tensorop)|_f32f32_f32f32_|gemv|gemmSN|dot_kernel|implicit_convolve_sgemm"
    r"|winograd(?!.*(?:tensorop|hmma|mma))",
    re.IGNORECASE,
)
TENSOR_CORES = re.compile(
    r"tensorop|wgmma|gmma|hmma|imma|[_-]mma|xmma|tcgen05|umma|utcmma|nvjet|1688|16816|16832|s884|h884|flash|fmha"
    r"|mfma|_MI\d+x\d+|sdpa_sm\d+|tf32",
    re.IGNORECASE,
)

YES, NO, UNKNOWN = 1, 0, -1


def tensor_cores(name: str) -> int:
    """Whether a matrix kernel of this name uses tensor (matrix) cores: YES, NO or UNKNOWN."""
    if ORDINARY_CORES.search(name):
        return NO
    return YES if TENSOR_CORES.search(name) else UNKNOWN


def tensor_cores_of_ops(linked: Linked) -> NDArray[np.int8]:
    """For each device op whether it uses tensor cores; UNKNOWN for all but matrix kernels."""
    ops, matrix = linked.trace.device_ops, linked.is_matrix
    result = np.full(len(ops), UNKNOWN, np.int8)
    codes, inverse = ranked(ops.name[matrix])
    use = [tensor_cores(linked.trace.text(int(code)) or "") for code in codes]
    result[matrix] = np.array(use, np.int8)[inverse] if len(codes) else UNKNOWN
    return result


def effective_precision(declared: NDArray[np.int8], tensor: NDArray[np.int8]) -> NDArray[np.int8]:
    """Format in which a matrix kernel multiplies: fp32 operands on tensor cores are rounded to TF32."""
    return np.where((declared == Precision.FP32) & (tensor == YES), Precision.TF32, declared).astype(np.int8)
