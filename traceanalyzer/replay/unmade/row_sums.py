"""The gradients of a norm's weights: sums over all rows.

PyTorch gives each 32 columns a block that walks all rows. Beyond 64 K rows, where such blocks would
fill less than half of the GPU, it parts the rows over blocks as well (`layer_norm_kernel.cu`,
`LaunchGammaBetaBackwardCUDAKernel`): the kernel then takes what its traffic takes."""

import numpy as np

from traceanalyzer.base import NS_PER_S, regex
from traceanalyzer.replay.patterns.named import kernels_named
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.work import Loads
from traceanalyzer.trace import F64

KERNEL = regex(r"GammaBetaBackwardCUDAKernel")
COLUMNS = 32
MOST_ROWS = 64 * 1024
TENSORS = 2
"""The result's gradient and the input are read; each row's mean and deviation beside them."""
FP32_BYTES = 4.0
OF_BANDWIDTH = 0.8
"""Of the bandwidth of the table (41 us for 154 MB on an H200)."""


def parted_ns(tape: Tape, loads: Loads, bandwidth: F64) -> F64:
    """What sums over rows take that were not parted and would be, ns; NaN for all other ops.
    `bandwidth` is that of each op's GPU, bytes a second."""
    none = np.full(len(tape.row), np.nan)
    sums = kernels_named(tape, KERNEL)
    multiprocessors = max(
        (gpu.sms or 0 for gpu in tape.source.linked.gpus.values() if gpu is not None), default=0
    )
    if not sums.any() or not multiprocessors:
        return none
    blocks = tape.source.trace.device_ops.blocks[tape.row].astype(np.float64)
    row_elements = TENSORS * (COLUMNS * blocks + 1.0)
    rows_now = loads.now.elements / row_elements
    rows_then = loads.then.elements / row_elements
    parted = sums & (blocks < multiprocessors / 2)
    parted &= (rows_now <= MOST_ROWS) & (rows_then > MOST_ROWS)
    return np.where(parted, loads.then.elements * FP32_BYTES / bandwidth / OF_BANDWIDTH, none) * (
        NS_PER_S
    )
