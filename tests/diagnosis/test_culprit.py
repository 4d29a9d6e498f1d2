"""What the report says of kernels that are near what limits them, and of those far from it."""

from __future__ import annotations

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GEMM, mm, op
from tests.diagnosis.test_computation import ADD, FP32, measured
from traceanalyzer.diagnosis.classify import UNCLEAR, classify
from traceanalyzer.diagnosis.culprit import culprit

FULL = {"blocks": 10_000, "threads": 256}
SHAPES = "[[1000,1000],[1000,1000],[]]"


def additions(us: float) -> TraceBuilder:
    """Additions of 1,000,000 numbers each, 12 MB of traffic, that take so long."""
    builder = TraceBuilder()
    for i in range(20):
        at = i * us
        kernel = (ADD, at + 20, at + 20 + us, FULL)
        op(builder, "aten::add", at, SHAPES, f'["{FP32}","{FP32}","Scalar"]', kernel)
    return builder


def test_kernels_near_the_bandwidth_are_limited_by_it():
    m = measured(additions(15))
    assert classify(m).headline.endswith("; all of the kernel time is limited by memory bandwidth.")
    assert classify(m).confidence <= UNCLEAR
    assert culprit(m, "memory") == "All of the memory traffic is elementwise kernels."


def test_kernels_without_known_bytes_are_memory_bound_by_their_kind():
    builder = TraceBuilder()
    for i in range(20):
        builder.kernel(ADD, 20 * i, 20 * i + 15, **FULL)
    assert classify(measured(builder)).headline.endswith(
        "; all of the kernel time is memory-bound by its kind (not measured)."
    )


LATENCY = (
    "; all of the kernel time is limited by latency (kernels too small to fill the GPU, or waiting "
    "on themselves). What helps: fewer, larger kernels (a larger batch, fusion), or other shapes "
    "and layouts."
)


def test_kernels_far_from_the_bandwidth_are_limited_by_latency():
    m = measured(additions(120))
    summary = classify(m)
    assert summary.bottleneck == "compute"
    assert summary.headline.endswith(LATENCY)
    assert summary.confidence <= UNCLEAR
    assert culprit(m, "memory") == "All of the compute time is in elementwise kernels."


def products(us: float) -> TraceBuilder:
    """Products of two squares of 1,000, 2 GFLOP each, that take so long; the GPU does 100 TFLOP/s."""
    builder = TraceBuilder()
    for i in range(20):
        mm(builder, 1000, (GEMM, i * us + 20, i * us + 20 + us, FULL), at=i * us)
    return builder


def test_products_near_the_peak_are_limited_by_arithmetic():
    assert classify(measured(products(25))).headline.endswith(
        "; all of the kernel time is limited by arithmetic."
    )


def test_products_far_from_the_peak_are_limited_by_latency():
    m = measured(products(200))
    assert classify(m).headline.endswith(LATENCY)
    assert culprit(m, "compute") == "All of the compute time is in gemm kernels."


def mixture(products_us: float, additions_us: float, slow_us: float) -> TraceBuilder:
    """Five profiler steps, each of a product near the peak, an addition near the bandwidth and one
    far from it, of these lengths."""
    builder = TraceBuilder()
    at = 0.0
    for step in range(5):
        start = at
        for _ in range(round(products_us / 25)):
            mm(builder, 1000, (GEMM, at + 20, at + 45, FULL), at=at)
            at += 25
        for us, count in ((15, additions_us / 15), (120, slow_us / 120)):
            for _ in range(round(count)):
                kernel = (ADD, at + 20, at + 20 + us, FULL)
                op(builder, "aten::add", at, SHAPES, f'["{FP32}","{FP32}","Scalar"]', kernel)
                at += us
        builder.annotation(f"ProfilerStep#{step}", start, at)
    return builder


def test_the_class_is_what_limits_more_of_the_kernels_and_clear_only_with_most_of_them():
    """The shares are said as they are, largest first; of the kernels that latency limits each would
    be memory-bound at best."""
    few = classify(measured(mixture(products_us=750, additions_us=600, slow_us=720)))
    assert few.bottleneck == "compute"
    assert few.confidence <= UNCLEAR
    assert "; 36% of the kernel time is limited by arithmetic, 35% by latency (" in few.headline
    assert few.headline.endswith("), 29% by memory bandwidth.")
    most = classify(measured(mixture(products_us=1500, additions_us=600, slow_us=720)))
    assert most.bottleneck == "compute"
    assert most.confidence > UNCLEAR
    memory = classify(measured(mixture(products_us=250, additions_us=1500, slow_us=720)))
    assert memory.bottleneck == "memory"
    assert memory.confidence > UNCLEAR


def test_an_mfu_near_nothing_is_no_figure_of_the_step():
    few = culprit(measured(mixture(products_us=25, additions_us=0, slow_us=12_000)), "compute")
    assert few == "All of the compute time is in elementwise kernels."
    many = culprit(measured(mixture(products_us=1500, additions_us=600, slow_us=720)), "compute")
    assert many is not None
    assert "; the step's MFU is 4" in many
