"""Conditions that the trace itself shows."""

from __future__ import annotations

import json

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GEMM, TABLE, mm
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.trace import CopyKind, Device, DeviceOpKind


def seen(b: TraceBuilder) -> dict[str, str]:
    m = measure(b.build(devices=(Device(0, "round"),)), Knowledge(hardware=TABLE))
    return {c.name: c.value for c in m.conditions}


def test_number_formats_with_most_time_first() -> None:
    b = TraceBuilder()
    mm(b, 1000, (GEMM, 20, 50, {}))
    mm(b, 1000, ("sm80_xmma_gemm_tf32f32_tf32f32_f32_nn", 120, 220, {}), at=100, dtype="float")
    mm(
        b, 1000, ("ampere_sgemm_128x64_nn", 320, 322, {}), at=300, dtype="float"
    )  # too little to count
    assert seen(b) == {"number formats of matrix kernels": "tf32, bf16"}


def test_shapes_of_the_input() -> None:
    b = TraceBuilder()
    for i, (shape, kind) in enumerate([([32, 3, 64, 64], "float"), ([32, 512], "long int")]):
        at = 100.0 * i
        columns = {
            "shapes": json.dumps([shape, shape, []]),
            "dtypes": b.code(json.dumps([kind, kind, ""])),
        }
        b.op("aten::copy_", at, at + 20, **columns).call("cudaMemcpyAsync", at + 2, at + 10, i + 1)
        copy = {"kind": DeviceOpKind.MEMCPY, "copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
        b.kernel("Memcpy HtoD", at + 5, at + 9, i + 1, **copy)
    assert seen(b) == {"input copied to the GPU": "[32, 3, 64, 64] float, [32, 512] long int"}


def test_a_trace_without_either_shows_nothing() -> None:
    assert seen(TraceBuilder().kernel("k", 0, 10)) == {}


def with_loss(*types: str) -> TraceBuilder:
    """A step with an operator of a loss, and one of its name inside for each further type."""
    b = TraceBuilder().annotation("ProfilerStep#1", 0, 100)
    for depth, dtype in enumerate(types):
        dtypes = b.code(json.dumps([dtype, dtype]))
        b.op("aten::mse_loss", 10 + depth, 50 - depth, shapes="[[8], [8]]", dtypes=dtypes)
    return b.call("cudaLaunchKernel", 20, 25, 1).kernel("k", 60, 90, 1)


def test_the_loss_is_calculated_in_what_its_innermost_operator_takes() -> None:
    name = "number format of the loss"
    assert seen(with_loss("c10::BFloat16"))[name] == "bf16"
    assert seen(with_loss("c10::BFloat16", "float"))[name] == "fp32"
    assert name not in seen(with_loss())
