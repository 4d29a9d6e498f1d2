"""How long steps without the profiler wait for workers, where a stopwatch timed that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import measure_ranks
from traceanalyzer.ingest import load
from traceanalyzer.replay.host_speed import NVTX_RANGE_NS
from traceanalyzer.trace.circumstances import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 10
STEP_US = 4000
WAIT_US = 1000
NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


ALONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def fed_program(folder: Path, loads: str = NEXT) -> Path:
    """Steps of 4 ms that wait 1 ms for a worker's batch (or load it themselves), and end with a wait
    for 2 ms of work."""
    t = KinetoTrace()
    for s in range(STEPS):
        begin = s * STEP_US
        t.step(s, begin, STEP_US)
        t.annotation(loads, begin + 10, WAIT_US)
        t.op("aten::mm", begin + 1100, 100)
        t.launched("gemm", begin + 1120, begin + 1150, 2000)
        t.api("cudaDeviceSynchronize", begin + 1300, 1900)
    return t.write(folder / "trace.json")


def waits_ms(
    folder: Path, loader_ms: float | None, loads: str = NEXT, step_ms: float = 6.0
) -> tuple[float, float]:
    """The wait for data a step, and the step, where a stopwatch read `step_ms` and so long a wait."""
    (trace,) = load([fed_program(folder, loads)]).traces
    timed = Stopwatch(
        step_ns=round(step_ms * 1e6),
        low_ns=round((step_ms - 0.1) * 1e6),
        high_ns=round((step_ms + 0.1) * 1e6),
        steady=True,
        after_profiler=False,
        unit=None,
        loader_ns=None if loader_ms is None else round(loader_ms * 1e6),
    )
    (m,) = measure_ranks([replace(trace, stopwatch=timed, unprofiled_step_ns=timed.step_ns)])
    assert m.replay is not None
    tape = m.replay.typical[0]
    waited = float(tape.loading.sum()) + tape.tail.loading
    return waited / tape.steps / 1e6, m.replay.base_ms


@pytest.mark.parametrize(
    ("loader_ms", "least", "most"), [(None, 2.0, 4.0), (2.0, 1.5, 2.1), (0.04, 0.9, 1.1)]
)
def test_a_longer_step_waits_for_data_as_long_as_it_was_seen_to(
    tmp_path: Path, loader_ms: float | None, least: float, most: float
) -> None:
    waited, step = waits_ms(tmp_path, loader_ms)
    assert least <= waited <= most
    assert step == pytest.approx(6.0)


@pytest.mark.parametrize(("loader_ms", "expected"), [(1.6, 1.6), (1.0, 1.0), (None, 1.0)])
def test_what_a_step_loads_itself_takes_as_long_as_it_was_timed(
    tmp_path: Path, loader_ms: float | None, expected: float
) -> None:
    waited, step = waits_ms(tmp_path, loader_ms, ALONE, step_ms=4.6)
    assert waited == pytest.approx(expected, rel=0.1)
    assert step == pytest.approx(4.6)


def test_steps_that_did_not_wait_and_took_longer_were_others(tmp_path: Path) -> None:
    waited, step = waits_ms(tmp_path, 0.01)
    assert waited == pytest.approx(1.0, abs=0.1)
    assert step < 4.1


def test_steps_that_did_not_wait_were_not_held_up_by_workers(tmp_path: Path) -> None:
    (trace,) = load([fed_program(tmp_path)]).traces
    assert trace.may_have_waited_for_workers
    quick = Stopwatch(6_000_000, None, None, True, False, None, loader_ns=10_000)
    assert not replace(trace, stopwatch=quick).may_have_waited_for_workers
    slow = replace(quick, loader_ns=100_000)
    assert replace(trace, stopwatch=slow).may_have_waited_for_workers


def loaded_ms(folder: Path, tensors: int, *, by_nsys: bool) -> tuple[float, float]:
    """The loading of a step as recorded, and without the profiler: 1 ms of which so many operators
    of 20 us, 5 us after each other, are a part."""
    t = KinetoTrace()
    for s in range(STEPS):
        begin = s * STEP_US
        t.step(s, begin, STEP_US)
        t.annotation(ALONE, begin, 1000)
        for k in range(tensors):
            t.op("aten::stack", begin + 25 * k, 20)
        t.op("aten::mm", begin + 1100, 50)
        t.launched("gemm", begin + 1120, begin + 1150, 2000)
        t.api("cudaDeviceSynchronize", begin + 1300, 1900)
    (trace,) = load([t.write(folder / "trace.json")]).traces
    (m,) = measure_ranks([replace(trace, source="nsys") if by_nsys else trace])
    assert m.replay is not None
    tapes = (m.replay.recorded[0], m.replay.typical[0])
    recorded, left = (float(one.loading.sum()) / one.steps / 1e6 for one in tapes)
    return recorded, left


def test_a_batch_that_operators_make_is_loaded_faster_without_ranges_of_nvtx(
    tmp_path: Path,
) -> None:
    recorded, left = loaded_ms(tmp_path, 40, by_nsys=True)
    assert recorded == pytest.approx(1.0, abs=0.05)
    assert recorded - left == pytest.approx(40 * NVTX_RANGE_NS / 1e6, rel=0.05)


def test_a_batch_that_is_read_takes_as_long(tmp_path: Path) -> None:
    recorded, left = loaded_ms(tmp_path, 0, by_nsys=True)
    assert left == pytest.approx(recorded)
    (tmp_path / "kineto").mkdir()
    recorded, left = loaded_ms(tmp_path / "kineto", 40, by_nsys=False)
    assert left == pytest.approx(recorded)
