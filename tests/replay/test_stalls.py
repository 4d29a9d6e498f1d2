"""Long stretches of the host that one recorded step has and the others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import measure_ranks
from traceanalyzer.ingest import load
from traceanalyzer.replay.scenarios import LAUNCHES_FREE
from traceanalyzer.replay.stalls import without_stalls
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace.circumstances import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 5
STEP_US = 4000
STALL_US = 1000


def stalled_program(folder: Path, stalled: set[int], other: str | None = None) -> Path:
    """Steps of 4 ms in which the host makes ten launches, 50 us after each other, of kernels of 20
    us; in some nothing happens for 1 ms before the sixth. Of the last step the fourth call is
    `other`, where that is given."""
    t = KinetoTrace()
    begin = 0
    for s in range(STEPS):
        later = STALL_US if s in stalled else 0
        t.step(s, begin, STEP_US + later)
        for k in range(10):
            at = begin + 100 + 50 * k + (later if k >= 5 else 0)
            if other and s == STEPS - 1 and k == 3:
                t.api(other, at, 10)
                continue
            t.op("aten::add", at, 30)
            t.launched("add", at + 10, at + 20, 20)
        t.api("cudaDeviceSynchronize", begin + 620 + later, 20)
        begin += STEP_US + later
    return t.write(folder / "trace.json")


def replayed(path: Path, step_ms: float | None = None) -> Replay:
    """The replay of a recording, where a stopwatch read so much."""
    (trace,) = load([path]).traces
    if step_ms is not None:
        ns = round(step_ms * 1e6)
        timed = Stopwatch(ns, ns, ns, steady=True, after_profiler=False, unit=None)
        trace = replace(trace, stopwatch=timed, unprofiled_step_ns=ns)
    (m,) = measure_ranks([trace])
    assert m.replay is not None
    return m.replay


def work_ms(replay: Replay) -> list[float]:
    """The host's own work a step as recorded, and without stalls."""
    tape = replay.recorded[0]
    return [float(one.work.sum()) / one.steps / 1e6 for one in (tape, without_stalls(tape))]


def test_what_one_step_has_is_not_the_programs(tmp_path: Path) -> None:
    recorded, left = work_ms(replayed(stalled_program(tmp_path, {3})))
    assert recorded - left == pytest.approx(STALL_US / STEPS / 1e3, abs=0.02)


def test_what_all_steps_have_is(tmp_path: Path) -> None:
    recorded, left = work_ms(replayed(stalled_program(tmp_path, set(range(STEPS)))))
    assert left == recorded > STALL_US / 1e3


def test_steps_of_other_calls_are_not_compared(tmp_path: Path) -> None:
    recorded, left = work_ms(replayed(stalled_program(tmp_path, {3}, "cudaStreamSynchronize")))
    assert left == recorded


def test_steps_of_a_stopwatch_have_no_stalls(tmp_path: Path) -> None:
    path = stalled_program(tmp_path, {3})
    timed = replayed(path, 4.0)
    alone = replayed(path)
    spent = [float(one.typical[0].work.sum()) / STEPS / 1e6 for one in (timed, alone)]
    assert spent[1] - spent[0] == pytest.approx(STALL_US / STEPS / 1e3, abs=0.02)


def test_kernels_are_as_fast_as_recorded_where_the_host_was_far_faster(tmp_path: Path) -> None:
    t = KinetoTrace()
    for s in range(STEPS):
        t.step(s, s * STEP_US, STEP_US)
        for k in range(40):
            at = s * STEP_US + 20 + 98 * k
            t.op("aten::add", at, 90)
            t.launched("add", at + 80, at + 88, 15)
    replay = replayed(t.write(tmp_path / "trace.json"), 0.8)
    assert replay.base_ms == pytest.approx(0.8)
    assert replay.replayed_ms == pytest.approx(4.0, rel=0.05)
    predicted = replay.predict(LAUNCHES_FREE).step_ms
    assert predicted == pytest.approx(0.6, rel=0.05), "40 kernels of 15 us"
