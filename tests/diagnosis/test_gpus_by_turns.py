"""GPUs of one process that work by turns, and two that work together."""

import numpy as np

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.diagnosis.classify import classify
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.diagnosis.rules.host_causes import gpus_by_turns
from traceanalyzer.trace import CopyKind, DeviceOpKind

STEPS = 6
HALF_US = 4_800


def recorded(second_starts: int) -> Measurements:
    """Steps of two halves of a model; that on GPU 1 starts so long after the step, us."""
    b = TraceBuilder()
    number = 0
    for step in range(STEPS):
        begin = step * 10_000
        b.annotation(f"ProfilerStep#{step}", begin, begin + 9_900)
        for device, at in ((0, 150), (1, second_starts)):
            for i in range(4):
                number += 1
                launch = begin + 50 + 10 * (4 * device + i)
                b.op("aten::mm", launch, launch + 8).call(
                    "cudaLaunchKernel", launch, launch + 5, number
                )
                start = begin + at + i * HALF_US // 4
                b.kernel("gemm", start, start + HALF_US // 4, number, device=device)
        number += 1
        b.call("cudaMemcpyAsync", begin + 95, begin + 99, number)
        b.kernel(
            "Memcpy PtoP",
            begin + 4_951,
            begin + 4_960,
            number,
            kind=DeviceOpKind.MEMCPY,
            copy_kind=CopyKind.PEER_TO_PEER,
        )
        b.call("cudaDeviceSynchronize", begin + 140, begin + second_starts + HALF_US + 20)
    return measure(b.build())


def test_each_gpu_waits_while_the_other_works():
    m = recorded(second_starts=4_961)
    details = m.causes.gaps.detail[m.causes.gaps.duration > 3_000_000]
    assert len(details) >= 2 * (STEPS - 1)
    assert set(details.tolist()) == {IdleDetail.NEIGHBOUR}
    (draft,) = gpus_by_turns(m, np.ones(1, bool))
    assert draft.id == "gpus-by-turns"
    assert [e.value for e in draft.evidence[1:]] == [28.854, 28.8]
    assert "another GPU" in classify(m).headline
    advised = {advice.id: advice.predicted_step_ms for advice in diagnose(m).recommendations}
    assert advised["gpus-by-turns"] is None


def test_gpus_that_work_together_do_not_take_turns():
    m = recorded(second_starts=600)
    assert IdleDetail.NEIGHBOUR not in m.causes.gaps.detail.tolist()
    assert not list(gpus_by_turns(m, np.ones(1, bool)))
