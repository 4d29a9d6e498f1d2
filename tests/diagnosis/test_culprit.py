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
    assert classify(m).headline.endswith("mostly in kernels limited by memory bandwidth.")
    assert classify(m).confidence <= UNCLEAR
    assert culprit(m, "memory") == "All of the memory traffic is elementwise kernels."


def test_kernels_without_known_bytes_are_memory_bound_by_their_kind():
    builder = TraceBuilder()
    for i in range(20):
        builder.kernel(ADD, 20 * i, 20 * i + 15, **FULL)
    assert classify(measured(builder)).headline.endswith(
        "mostly in kernels that are memory-bound by their kind (not measured)."
    )


def test_kernels_far_from_the_bandwidth_are_told_with_what_they_reach():
    m = measured(additions(120))
    assert classify(m).headline.endswith(
        "mostly in latency-bound kernels: memory traffic at 10% of the bandwidth."
    )
    assert classify(m).confidence <= UNCLEAR
    assert culprit(m, "memory") == "All of the compute time is in memory-bound elementwise kernels."


def products(us: float) -> TraceBuilder:
    """Products of two squares of 1,000, 2 GFLOP each, that take so long; the GPU does 100 TFLOP/s."""
    builder = TraceBuilder()
    for i in range(20):
        mm(builder, 1000, (GEMM, i * us + 20, i * us + 20 + us, FULL), at=i * us)
    return builder


def test_products_near_the_peak_are_limited_by_arithmetic():
    assert classify(measured(products(25))).headline.endswith(
        "mostly in kernels limited by arithmetic."
    )


def test_products_far_from_the_peak_are_told_with_what_they_reach():
    m = measured(products(200))
    assert classify(m).headline.endswith(
        "mostly in latency-bound kernels: arithmetic at 10% of the peak."
    )
    assert culprit(m, "compute") == "All of the compute time is in gemm kernels."
