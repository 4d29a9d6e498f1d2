"""Time that kernels need to issue their instructions, where that is not the arithmetic that FLOPs count.

Conversions, indices, special functions and random numbers take instructions too. An SM issues four a cycle, each for
32 threads, so elements times instructions is a least time as much as FLOPs over the peak are. How many instructions a
kernel takes for an element is a property of its code: they were counted by Nsight Compute (`sm__inst_executed`,
torch 2.11 for compute capability 9.0, CASES and IMAGES of benchmarks/ncu_cases.py; HELD_OUT had no part), and hold as
long as PyTorch does not rewrite the kernel. Kernels that are not listed have none, and are never called bound by them.

Counted are issue slots: the greater of all instructions, twice those of the integer and comparison pipe (64 lanes an
SM) and eight times those of the special function unit (16 lanes). Source of the rates: CUDA C++ programming guide,
"throughput of native arithmetic instructions".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.analysis.roofline.op_models import OpWork
    from traceanalyzer.trace import F64, I64

NS = 1e9
LANES = 32
"""Threads of an instruction."""


class Slots(NamedTuple):
    """Issue slots that kernels of such a name take, in threads' instructions."""

    kernel: re.Pattern[str]
    element: float = 0.0
    """For each element of their operator's largest tensor."""
    block: float = 0.0
    """For each block."""
    thread: float = 0.0
    """For each thread."""
    operation: float = 0.0
    """For each FLOP of their operator."""


SLOTS = tuple(
    Slots(re.compile(kernel), *slots)
    for kernel, *slots in (
        # Contiguous tensors: a function of an element, by the functor
        (r"vectorized_elementwise_kernel<.*GeluBackwardCUDAKernelImpl", 44),
        (r"vectorized_elementwise_kernel<.*GeluCUDAKernelImpl", 30),
        (r"vectorized_elementwise_kernel<.*silu_kernel", 24),
        (r"vectorized_elementwise_kernel<.*tanh_kernel", 20),
        (r"vectorized_elementwise_kernel<.*sqrt_kernel", 28),
        (r"vectorized_elementwise_kernel<.*exp_kernel", 12),
        (r"vectorized_elementwise_kernel<.*DivFunctor", 16),
        (r"vectorized_elementwise_kernel<.*launch_clamp_scalar", 11),
        (r"vectorized_elementwise_kernel<.*(?:masked_fill|where|compare)", 10),
        (r"vectorized_elementwise_kernel<.*(?:CUDAFunctor|MulFunctor|pow_tensor_scalar)", 8),
        # Strides, broadcasting and conversion: indices are divided for every element and tensor
        (r"unrolled_elementwise_kernel<", 52),
        (r"index_elementwise_kernel<", 47),
        (r"::elementwise_kernel<", 56),
        # Random numbers
        (r"fused_dropout_kernel_vec", 28),
        (r"distribution_elementwise_grid_stride_kernel<.*normal", 58),
        (r"distribution_elementwise_grid_stride_kernel<.*uniform", 36),
        # Softmax and normalisation
        (r"softmax_warp_forward", 41),
        (r"cunn_SoftMaxForwardReg", 79),
        (r"cunn_SoftMaxForward<", 25),
        (r"softmax_warp_backward|cunn_SoftMaxBackward", 16),
        (r"vectorized_layer_norm_kernel<[^<>]*false>", 28, 44_000),
        (r"layer_norm_grad_input_kernel", 32),
        (r"GammaBetaBackward", 19),
        (r"batch_norm_collect_statistics|RowwiseMomentsCUDAKernel", 32),
        (r"batch_norm_transform_input_channels_last", 16),
        (r"batch_norm_transform_input", 32),
        (r"batch_norm_backward_reduce", 18),
        (r"batch_norm_backward_elemt", 22),
        (r"batch_norm_backward_kernel", 67),
        # Reductions, scans, look-ups
        (r"::reduce_kernel<.*ArgM(?:ax|in)Ops", 39),
        (r"::reduce_kernel<", 4),
        (r"tensor_kernel_scan_innermost_dim", 98),
        (r"_scatter_gather_elementwise_kernel", 68),
        (r"compute_grad_weight|sum_and_scatter", 80),
        (r"mbtopk::computeBlockDigitCounts", 37),
        (r"mbtopk::gatherTopK", 80),
        # Windows, and layouts around convolutions
        (r"max_pool_forward", 0, 0, 0, 50),
        (r"avg_pool2d_out", 0, 0, 0, 73),
        (r"nchwToNhwc|nhwcToNchw", 0, 0, 117),
    )
)
"""The first that fits counts."""


def issue_time(linked: Linked, work: OpWork, row: I64) -> F64:
    """Least time, ns, that each device op needs to issue its instructions; NaN where they are not known, or would need
    more than it took: it does not go over the operator's largest tensor. `row` is the host range whose work it is part
    of."""
    ops = linked.trace.device_ops
    groups = Groups.of(ops.name)
    slots = np.array([_slots(linked.trace.text(int(c)) or "") for c in ops.name[groups.first]]).reshape(-1, 4)
    element, block, thread, operation = slots[groups.index].T
    blocks, threads = np.maximum(ops.blocks, 0).astype(np.float64), np.maximum(ops.threads, 0)
    elements, operations = (np.append(column, np.nan)[row] for column in (work.elements, work.flops))
    needed = elements * element + blocks * (block + threads * thread) + operations * operation
    time = needed / linked.limit("issue_rate") * NS
    return np.where(linked.is_kernel & (time <= ops.end - ops.start), time, np.nan)


def _slots(kernel: str) -> tuple[float, ...]:
    found = next((s for s in SLOTS if s.kernel.search(kernel)), None)
    return tuple(found[1:]) if found else (np.nan,) * 4
