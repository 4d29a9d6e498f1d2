"""What kernels and copies take for more data, on a trace written by hand."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, within
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.changes.loops.repetition import growth, one_call_a_step
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind, DeviceOpKind


@pytest.mark.parametrize("direction", [CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST])
def test_copies_take_longer_but_for_what_the_smallest_takes(direction: CopyKind) -> None:
    """A copy of 20 us: 2 of them are the call, 18 grow."""
    b = TraceBuilder()
    for i in range(4):
        at = 100 * i
        b.annotation(f"ProfilerStep#{i}", at, at + 99)
        b.call("cudaMemcpyAsync", at, at + 2, 2 * i + 1)
        columns = {"kind": DeviceOpKind.MEMCPY, "copy_kind": direction, "bytes": 1 << 20}
        b.kernel("Memcpy", at + 5, at + 25, 2 * i + 1, **columns)
        b.call("cudaLaunchKernel", at + 3, at + 5, 2 * i + 2).kernel(
            "gemm", at + 30, at + 60, 2 * i + 2
        )
    tape = make_tape(measure(b.build()).rated)
    assert tape is not None
    copies = tape.duration == 20_000
    assert copies.any()
    assert growth(tape, 3.0)[copies].tolist() == pytest.approx([0.1 + 0.9 * 3] * int(copies.sum()))


@pytest.mark.parametrize(
    ("written", "is_alone"),
    [("", True), ("[[12, 16, 1024, 128], []]", False), ("[[12, 1000], []]", True)],
    ids=["nothing", "a cache", "a mask"],
)
def test_a_step_that_writes_to_a_cache_needs_the_one_before(written: str, is_alone: bool) -> None:
    def step(p: Program) -> None:
        copy(p.spend(5), 2, CopyKind.HOST_TO_DEVICE, 96)
        for _ in range(8):
            within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, 3), shapes="[[8, 8], [8, 8]]")
        if written:
            within(p, "aten::index_copy_", lambda p: p.spend(5).launch(ADD, 3), shapes=written)
        copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 96).sync()

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert one_call_a_step(tape) == is_alone
