"""Recordings of a single step: what came before it is not part of it, and nothing is counted
twice."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.replay.test_replay import GEMM
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import CopyKind, DeviceOpKind


def one_pass(prepare_us: float, launch_us: float) -> Program:
    """A forward pass that first works on the host, then launches ten kernels, each so long after
    the last."""
    p = Program()
    p.spend(prepare_us)
    for _ in range(10):
        p.spend(launch_us).launch(GEMM, 30)
    p.sync()
    p.python("nn.Module: Net_0", 0, p.now)
    return p


@pytest.mark.parametrize(("prepare_us", "launch_us"), [(0, 100), (5000, 100), (5000, 0)])
def test_the_host_before_the_first_device_work_is_outside_the_step(
    prepare_us: float, launch_us: float
) -> None:
    m = measure(one_pass(prepare_us, launch_us).build())
    assert m.timed.steps.found
    replay = Replay.of(m.rated)
    assert replay is not None
    assert replay.recorded_ms < 1.2
    assert replay.fidelity_error == pytest.approx(0.0, abs=0.05)


def test_what_a_blocking_copy_waited_for_is_no_launch_latency() -> None:
    """Two copies in one step: one to an idle GPU, one whose call waits for a long kernel first."""
    p = Program()
    p.within("enumerate(DataLoader)#x.__next__", 2000)
    p.launch("Memcpy HtoD (Pageable -> Device)", 100, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
    p.rows["op"][-1] |= {"copy_kind": CopyKind.HOST_TO_DEVICE, "bytes": 1 << 20}
    p.launch(GEMM, 3000)
    p.launch("Memcpy DtoH (Device -> Pageable)", 50, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
    p.rows["op"][-1] |= {"copy_kind": CopyKind.DEVICE_TO_HOST, "bytes": 4}
    p.now = p.device_free + 2
    p.rows["call"][-1]["end"] = round(p.now * 1000)
    p.annotation("ProfilerStep#3", 0, p.now)
    replay = Replay.of(measure(p.build()).rated)
    assert replay is not None
    assert replay.fidelity_error == pytest.approx(0.0, abs=0.01)
