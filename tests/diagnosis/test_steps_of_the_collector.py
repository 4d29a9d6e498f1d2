"""What the collector says of the steps that it timed, beside those that were recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.kineto_builder import KinetoTrace
from traceanalyzer.diagnosis.measurements import Measurements, measure_ranks
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import Run, Trace
from traceanalyzer.trace.circumstances import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path


def timed(folder: Path, step_ms: float, unit: str) -> Trace:
    """Five steps of 4 ms without PyTorch's operators, where a stopwatch read so much."""
    t = KinetoTrace()
    for s in range(5):
        t.step(s, 4000 * s, 4000)
        for k in range(10):
            t.launched("gemm", 4000 * s + 350 * k, 4000 * s + 350 * k + 20, 200)
    (trace,) = load([t.write(folder / "trace.json")]).traces
    ns = round(step_ms * 1e6)
    stopwatch = Stopwatch(ns, ns, ns, steady=True, after_profiler=False, unit=unit)
    return replace(trace, stopwatch=stopwatch, unprofiled_step_ns=ns)


def measured(trace: Trace) -> Measurements:
    """The recording of one rank, measured."""
    (m,) = measure_ranks([trace])
    return m


def test_a_step_that_an_optimizer_ends_is_one_of_training(tmp_path: Path) -> None:
    assert program(measured(timed(tmp_path, 3.5, "step of Adafactor"))).training
    assert not program(measured(timed(tmp_path, 3.5, "call of Linear"))).training


def test_recorded_parts_of_a_timed_step_are_called_so_before_all_else(tmp_path: Path) -> None:
    report = build_report(Run(traces=(timed(tmp_path, 130.0, "step of SGD"),)))
    assert report.notes[0].startswith("The recorded steps take 4 ms, the timed ones 130 ms")
    assert "(step of SGD): other steps, or parts of one, were recorded" in report.notes[0]
    agreeing = build_report(Run(traces=(timed(tmp_path, 3.5, "step of SGD"),)))
    assert not any("parts of one" in note for note in agreeing.notes)
