"""The ledger: parts that sum to the step, gaps that keep their cause, no idle time that nobody
recorded."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.analysis.causes.test_gaps import Program
from tests.analysis.test_any_trace import any_rows, measure_rows
from tests.analyzed import measurements
from tests.diagnosis.test_figures_stay import _recordings
from tests.examples import tried
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.tables.step_figures import Budget
from traceanalyzer.diagnosis.ledger import KINDS, Ledger, LedgerEntry
from traceanalyzer.diagnosis.measurements import Measurements, measure
from traceanalyzer.replay.unprofiled import fitted_to

if TYPE_CHECKING:
    from pathlib import Path

US = 1_000
STEPS = 6


def stepped(*, timed_us: float | None = None, work_us: float = 0.0, kernels_us: float = 50.0):
    """Steps of three kernels each, with host work before them, and perhaps a stopwatch's step."""
    program = Program()
    for step in range(STEPS):
        begin = program.now
        if work_us:
            program.spend(work_us)
        for _ in range(3):
            program.op("aten::mm", program.now, program.now + 10)
            program.spend(5).launch("gemm", kernels_us).spend(5)
        program.sync()
        program.annotation(f"ProfilerStep#{step}", begin, program.now)
    trace = program.build()
    if timed_us is not None:
        trace = replace(trace, unprofiled_step_ns=round(timed_us * US))
    return measure(trace)


def ledger_of(m: Measurements) -> Ledger:
    assert m.ledger is not None
    return m.ledger


def check_sums(m: Measurements) -> None:
    ledger = ledger_of(m)
    assert ledger.step_ms == pytest.approx(m.step.step_ms, rel=1e-3, abs=1e-9)
    assert ledger.recorded_ms == pytest.approx(m.mean_step_ms, rel=1e-3, abs=1e-9)
    assert all(one.ms >= 0 and one.recorded_ms >= 0 for one in ledger.entries)
    assert sum(ledger.ms(kind) for kind in KINDS) == pytest.approx(ledger.step_ms)


@pytest.mark.parametrize(("name", "paths"), _recordings().items(), ids=_recordings())
def test_of_a_recording_it_sums_to_both_steps(name: str, paths: list[Path]) -> None:
    m = measurements(*paths).critical
    if m.ledger is None:
        assert m.budget is None, name
        return
    check_sums(m)


@tried(3)
@given(any_rows)
def test_of_anything_it_sums_to_both_steps(rows) -> None:
    m = measure_rows(rows)
    if m.ledger is not None:
        check_sums(m)


def test_host_work_stays_host_work_however_the_replay_changes_its_length() -> None:
    m = stepped(work_us=400)
    ledger = ledger_of(m)
    host = ledger.of("idle", "host")
    assert sum(one.recorded_ms for one in host) == pytest.approx(m.idle.host if m.idle else 0)
    assert ledger.ms("idle", "host") > 0.3
    assert {one.basis for one in ledger.entries} == {"replayed"}


def test_a_longer_stopwatch_stretches_the_work_and_adds_no_idle_time() -> None:
    recorded = stepped(kernels_us=500)
    longer = stepped(kernels_us=500, timed_us=recorded.mean_step_ms * 1e3 * 1.15)
    known = longer.unprofiled
    assert known is not None
    assert longer.budget is not None
    assert known.step_time_ms == pytest.approx(recorded.mean_step_ms * 1.15, rel=1e-3)
    assert known.budget_ms.idle <= longer.budget.idle + 1e-9
    assert known.budget_ms.compute > longer.budget.compute * 1.1
    assert {one.basis for one in ledger_of(longer).entries} == {"measured"}


@pytest.mark.parametrize(
    ("step_ms", "most_idle_ms", "expected"),
    [
        (10.0, 10.0, (6.0, 1.0, 1.0, 2.0)),
        (10.0, 0.6, (7.2, 1.0, 1.2, 0.6)),
        (8.5, 10.0, (6.0, 1.0, 1.0, 0.5)),
        (4.25, 10.0, (1.5, 0.25, 0.25, 2.25)),
        (4.0, 0.0, (3.0, 0.5, 0.5, 0.0)),
    ],
)
def test_what_a_step_has_beyond_its_idle_time_is_stretched_work(
    step_ms: float, most_idle_ms: float, expected: tuple[float, ...]
) -> None:
    found = fitted_to(Budget(6.0, 1.0, 1.0, 9.0), step_ms, most_idle_ms)
    assert astuple(found) == pytest.approx(expected)


def test_sums_of_a_kind_and_of_a_cause() -> None:
    ledger = Ledger(
        (
            LedgerEntry("compute", "gemm", "aten::mm", ms=5.0, recorded_ms=5.0),
            LedgerEntry("communication", "collective", "all_reduce", ms=1.0, recorded_ms=2.0),
            LedgerEntry("waiting", "launch", ms=0.5),
            LedgerEntry("idle", "launch", "aten::add", ms=1.0, recorded_ms=3.0),
            LedgerEntry("idle", "launch", "aten::mm", ms=2.0, recorded_ms=4.0),
        )
    )
    assert ledger.step_ms == 9.5
    assert ledger.recorded_ms == 14.0
    assert ledger.ms("idle", "launch") == 3.0
    largest = ledger.largest("idle", IdleCause.LAUNCH.label)
    assert largest is not None
    assert largest.place == "aten::mm"
    assert ledger.largest("copy") is None
    assert astuple(ledger.budget()) == (5.0, 1.5, 0.0, 3.0)
    assert ledger.idle().launch == 3.0
