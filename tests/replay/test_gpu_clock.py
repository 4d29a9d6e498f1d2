from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.replay.test_replay import GEMM, steps
from traceanalyzer.replay.limits import duties, slowed
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.scenarios import NO_HOST_WORK
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.whatif import SCENARIO_SPREAD, Replay

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

PLAIN = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


def pausing(kernel: str) -> object:
    """600 us of a kernel, then 400 us of Python that hide nothing."""

    def step(p: Program) -> None:
        p.launch(kernel, 600).sync().spend(390)

    return step


def test_duty_is_the_time_in_matrix_kernels_on_tensor_cores() -> None:
    for kernel, expected in ((GEMM, 0.6), (PLAIN, 0.0)):
        tape = make_tape(steps(pausing(kernel)).rated)
        assert tape is not None
        assert duties([tape], step_times_ns([tape])) == [pytest.approx(expected, rel=0.02)]


def test_tensor_cores_that_no_longer_pause_are_slower_from_some_duty_on() -> None:
    tape = make_tape(steps(pausing(GEMM)).rated)
    assert tape is not None
    assert slowed([tape], [0.6], [0.7], limited=0.75) is None
    assert slowed([tape], [0.9], [0.5], limited=0.75) is None
    changed = slowed([tape], [0.6], [1.0], limited=0.75)
    assert changed is not None
    assert np.allclose(changed[0].duration / tape.duration, (1 / 0.75) ** 0.5, rtol=1e-4)


def test_a_prediction_counts_on_lower_clocks_and_its_lower_end_does_not() -> None:
    replay = Replay.of(steps(pausing(GEMM)).rated)
    assert replay is not None
    p = replay.predict(NO_HOST_WORK)
    assert p.step_ms is not None
    assert p.low_ms is not None
    assert p.high_ms is not None
    assert p.low_ms < p.step_ms < p.high_ms <= replay.range_ms[1]
    plain = Replay.of(steps(pausing(PLAIN)).rated)
    assert plain is not None
    p = plain.predict(NO_HOST_WORK)
    assert p.step_ms is not None
    assert p.low_ms == pytest.approx(p.step_ms * (1 - SCENARIO_SPREAD), rel=0.02)
