"""Which cores a matrix kernel uses, and in what number format, as far as its name tells.

Libraries write the instruction or the operand types into the names of their kernels: CUTLASS `tensorop_s1688gemm`
(TF32) and `simt_sgemm`, cuBLAS `sm90_xmma_gemm_f32f32_tf32f32_f32` and `..._f32f32_f32f32_f32`, `nvjet_sm90_tst`
(warp-group instructions only), cuDNN `..._hmma`, hipBLASLt and Tensile `Cijk_..._MI16x16x16` (matrix instructions).
"""

import re

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.trace import ranked

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
