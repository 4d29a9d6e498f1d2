"""What kernels and copies take for more data, on a trace written by hand."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.changes.loops.repetition import growth
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
