"""Traces of a few steps made by hand."""

from __future__ import annotations

from tests.analysis.build import TraceBuilder

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16>(Params)"


def three_steps() -> TraceBuilder:
    """Steps of 100, 140 and 120 us: the last is the median. Each waits for its kernel and then
    launches another."""
    builder = TraceBuilder()
    begin = 0
    for number, length in enumerate((100, 140, 120)):
        first = 2 * number + 1
        second = 2 * number + 2
        builder.annotation(f"ProfilerStep#{number}", begin, begin + length)
        builder.op("aten::mm", begin + 1, begin + 30).call(
            "cudaLaunchKernel", begin + 2, begin + 6, first
        )
        builder.kernel(GEMM, begin + 10, begin + 40, first, stream=7)
        builder.call("cudaStreamSynchronize", begin + 31, begin + 42)
        builder.call("cudaLaunchKernel", begin + 50, begin + 55, second)
        builder.kernel(
            "ncclDevKernel_AllReduce_Sum", begin + 60, begin + length - 2, second, stream=20
        )
        begin += length
    return builder
