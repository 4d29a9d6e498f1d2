"""A host that waits for an event goes on while what was launched later still runs."""

from __future__ import annotations

import pytest

from tests.analysis.collectives import GEMM, Ranked
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.tape import Tape

KERNELS = 8


def paced(*, behind: int) -> Tape:
    """A host that launches kernels of 300 us and, after each, waits for the one so many launches
    before; in the end for all of them."""
    b = Ranked()
    now = 0.0
    free = 0.0
    for step in range(6):
        begun = now
        ends = []
        for _ in range(KERNELS):
            free = max(now + 6, free + 1) + 300
            b.launched(GEMM, free - 300, free, now)
            ends.append(free)
            now += 10
            if len(ends) > behind:
                done = max(now + 1, ends[-1 - behind] + 2)
                b.call("cudaEventSynchronize", now, done)
                now = done
            now += 90
        b.call("cudaDeviceSynchronize", now, free + 2)
        now = free + 2
        b.annotation(f"ProfilerStep#{step}", begun, now)
    made = make_tape(measure(b.trace(0, 1)).rated)
    assert made is not None
    return made


@pytest.mark.parametrize("behind", [1, 2])
def test_the_gpu_does_not_idle_for_a_wait_for_earlier_work(behind: int) -> None:
    tape = paced(behind=behind)
    assert (tape.waits_for >= 0).any()
    assert step_time_ns(tape) / 1e3 == pytest.approx(KERNELS * 301 + 8, rel=0.02)


def test_a_wait_for_the_last_launch_waits_for_all() -> None:
    tape = paced(behind=0)
    assert (tape.waits_for < 0).all()
    assert step_time_ns(tape) / 1e3 == pytest.approx(KERNELS * (300 + 100), rel=0.03)
