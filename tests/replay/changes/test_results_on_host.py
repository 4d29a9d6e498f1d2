"""What the host makes of results that are copied to it, made on the device instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import measure_ranks
from traceanalyzer.ingest import load
from traceanalyzer.replay.changes.data.loading import done_on_device, results_worked_on

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.replay.tape import Tape

STEPS = 8
STEP_US = 6000


def program(folder: Path, *, work_us: float, bytes_: int = 4 << 20, labels_us: float = 0) -> Tape:
    """Steps of 1 ms of work whose scores go to the host in 1 ms, which then counts in them; labels
    are cast and copied right after the scores."""
    t = KinetoTrace()
    for s in range(STEPS):
        begin = s * STEP_US
        t.step(s, begin, STEP_US)
        t.op("aten::mm", begin + 10, 30)
        t.launched("gemm", begin + 20, begin + 30, 1000)
        t.op("aten::to", begin + 60, 2000)
        t.correlation += 1
        t.api("cudaMemcpyAsync", begin + 70, 10, t.correlation)
        t.copy(
            "DtoH (Device -> Pageable)",
            begin + 1032,
            1000,
            correlation=t.correlation,
            bytes=bytes_,
        )
        t.api("cudaStreamSynchronize", begin + 85, 1950)
        if labels_us:
            t.op("aten::to", begin + 2036, 12)
            t.launched("cast", begin + 2037, begin + 2040, 2)
            t.correlation += 1
            t.api("cudaMemcpyAsync", begin + 2042, 5, t.correlation)
            t.copy(
                "DtoH (Device -> Pageable)",
                begin + 2045,
                labels_us,
                correlation=t.correlation,
                bytes=2 << 20,
            )
        t.op("aten::add", begin + 2060 + work_us, 30)
        t.launched("add", begin + 2065 + work_us, begin + 2080 + work_us, 10)
    (trace,) = load([t.write(folder / "trace.json")]).traces
    (m,) = measure_ranks([trace])
    assert m.replay is not None
    return m.replay.typical[0]


def test_copies_of_results_go_with_the_work_on_them(tmp_path: Path) -> None:
    tape = program(tmp_path, work_us=3000)
    assert results_worked_on(tape).sum() == tape.steps
    left = done_on_device(tape)
    assert left is not None
    assert left.duration[left.copy].sum() == 0
    assert left.work.sum() + left.tail.work < 0.1 * (tape.work.sum() + tape.tail.work)
    assert left.duration.sum() / left.steps == pytest.approx(1_010_000)


def test_results_that_are_copied_one_after_the_other_are_worked_on_together(tmp_path: Path) -> None:
    tape = program(tmp_path, work_us=3000, labels_us=10)
    assert results_worked_on(tape).sum() == 2 * tape.steps


@pytest.mark.parametrize(("work_us", "bytes_"), [(20, 4 << 20), (3000, 64)])
def test_results_that_nobody_works_on_and_scalars_stay(
    tmp_path: Path, work_us: float, bytes_: int
) -> None:
    tape = program(tmp_path, work_us=work_us, bytes_=bytes_)
    assert not results_worked_on(tape).any()
    assert done_on_device(tape) is None
