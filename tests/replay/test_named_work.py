"""Host work with a name has a remedy of its own, and no other remedy promises to take it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.causes.test_gaps import Program
from tests.replay.test_replay import GEMM, steps
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.replay.changes.data.loading import no_allocations
from traceanalyzer.replay.changes.warmup import (
    first_launches,
    graphs_kept,
    no_work_of_its_own,
    warmed_up,
)
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import DeviceOpKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.algebra.intervals import IntervalSet


def working(p: Program) -> None:
    """A millisecond of Python, two in hipFree, four in loading a module, three in a graph; then a
    kernel of a tenth."""
    p.spend(1000)
    for call, us in (("hipFree", 2000), ("cuModuleLoadData", 4000), ("cudaGraphInstantiate", 3000)):
        p.call(call, p.now, p.now + us).spend(us)
    p.launch(GEMM, 100).sync()


@pytest.mark.parametrize(
    ("change", "gone_ms"),
    [(no_work_of_its_own, 1), (no_allocations, 2), (warmed_up, 4), (graphs_kept, 3)],
)
def test_each_remedy_takes_out_its_own_part(change: object, gone_ms: float) -> None:
    tape = make_tape(steps(working).rated)
    assert tape is not None
    changed = change(tape)
    assert changed is not None
    assert (step_time_ns(tape) - step_time_ns(changed)) / 1e6 == pytest.approx(gone_ms, rel=0.02)


def layers(first_us: float) -> Measurements:
    """One step of eight layers, each a launch of 300 us, the first one longer; and a launch of as
    long of a kernel that runs once."""
    program = Program()
    for us in (first_us, *[300] * 7):
        program.launch_slowly(GEMM, us)
    program.launch_slowly("gatherTopK", 300)
    program.annotation("ProfilerStep#3", 0, program.now)
    program.spend(500).launch_slowly("outside", 300)
    return measure(program.build())


@pytest.mark.parametrize(("first_us", "loaded_us"), [(300, 0), (900, 0), (2500, 2500)])
def test_in_a_single_step_only_a_first_launch_unlike_the_later_ones_loads_code(
    first_us: float, loaded_us: float
) -> None:
    assert measure_us(first_launches(layers(first_us).timed)) == loaded_us


def test_with_several_steps_what_one_of_them_alone_launches_slowly_loads_code() -> None:
    def step(p: Program) -> None:
        p.launch_slowly(GEMM, 300)
        if p.launched == 3:
            p.launch_slowly("gatherTopK", 300)

    assert measure_us(first_launches(steps(step).timed)) == 300


def test_what_an_operator_does_before_a_quick_launch_loads_nothing() -> None:
    def step(p: Program) -> None:
        p.launch(GEMM, 50)
        p.op("aten::linear", p.now, p.now + 804).spend(800).launch(f"shape_{p.launched}", 5)

    assert measure_us(first_launches(steps(step).timed)) == 0


def measure_us(times: IntervalSet) -> float:
    return float((times.end - times.start).sum()) / 1e3


def test_a_launch_that_loads_its_kernel_hands_it_over_at_its_end() -> None:
    """The first launch takes 1.1 ms and its kernel begins before it returns: without loading the
    kernel begins as soon as others do."""
    builder = TraceBuilder().call("cudaMemcpyAsync", 0, 5, 1)
    builder.kernel("Memcpy HtoD", 5, 6, 1, kind=DeviceOpKind.MEMCPY)
    at = 10
    for i, us in enumerate((1100, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6)):
        builder.call("cudaLaunchKernel", at, at + us, i + 2)
        builder.kernel(f"kernel_{i}", at + us - 1, at + us + 1, i + 2)
        at += us + 2
    tape = make_tape(measure(builder.build()).rated)
    assert tape is not None
    changed = warmed_up(tape)
    assert changed is not None
    assert step_time_ns(tape) / 1e3 > 1100
    assert step_time_ns(changed) / 1e3 < 120
