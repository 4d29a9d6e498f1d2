"""The parts of a step without the profiler, and what a comparison then says."""

from dataclasses import replace

from tests.comparison.build import idle, part, report
from traceanalyzer.analysis.tables.step_figures import Budget, Idle, Unprofiled
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.outline import basis_of, largest_changes, waterfall_title
from traceanalyzer.comparison.without_profiler import parts_without_profiler

NO_IDLE = {"sync": 0.0, "input": 0.0, "host": 0.0, "communication": 0.0, "profiler": 0.0}


def timed(*parts, compute, launch, other=0.0):
    """A report of these parts whose step without the profiler has so much of each, ms."""
    step = compute + launch + other
    made = report(*parts, unprofiled_step_time_ms=step, unprofiled_source="measured")
    without = Unprofiled(
        step_time_ms=step,
        low_ms=step,
        high_ms=step,
        source="measured",
        budget_ms=Budget(compute, 0.0, 0.0, launch + other),
        idle_ms=Idle(launch=launch, other=other, **NO_IDLE),
    )
    return replace(made, metrics=replace(made.metrics, unprofiled=without))


SLOW = timed(
    part("aten::mm", "gemm", 4.0),
    idle("launch", 6.0, "aten::mm"),
    idle("launch", 2.0, "aten::add"),
    compute=4.0,
    launch=2.0,
)
FAST = timed(
    part("aten::mm", "gemm", 4.0), idle("launch", 1.0, "aten::mm"), compute=4.0, launch=0.5
)


def test_each_cause_of_idle_time_is_as_long_as_without_the_profiler():
    found = parts_without_profiler(SLOW, SLOW.step_parts)
    assert [(p.op, p.ms) for p in found] == [
        ("aten::mm", 4.0),
        ("aten::mm", 1.5),
        ("aten::add", 0.5),
    ]
    assert found[1].batch_ms == [0.25 * ms for ms in SLOW.step_parts[1].batch_ms]


def test_time_that_the_recording_lacks_has_no_place():
    made = timed(part("aten::mm", "gemm", 4.0), compute=4.0, launch=0.0, other=1.0)
    found = parts_without_profiler(made, made.step_parts)
    assert [(p.part, p.cls, p.op, p.ms) for p in found[1:]] == [("idle", "other", None, 1.0)]


def test_a_report_without_an_estimate_has_no_such_parts():
    assert parts_without_profiler(report(part("aten::mm", "gemm", 4.0)), []) is None


def test_the_parts_are_of_the_step_that_the_verdict_is_of():
    found = compare_reports(SLOW, FAST)
    assert (found.step.a_ms, found.step.b_ms) == (12.0, 5.0)
    assert (found.judged.step.a_ms, found.judged.step.b_ms) == (6.0, 4.5)
    assert sum(c.difference_ms for c in found.judged.changes) == -1.5
    assert "Largest part: less idle time, launches, -1.5 ms." in found.headline


def test_the_rows_of_the_first_screen_sum_to_the_step():
    first, *_, rest, step = largest_changes(compare_reports(SLOW, FAST), 1)
    assert (first.change, step.change) == ("less idle time, launches", "step without the profiler")
    assert first.difference_ms + rest.difference_ms == step.difference_ms


def test_the_largest_part_is_not_one_that_speaks_against_the_verdict():
    slower_kernel = timed(part("aten::mm", "gemm", 4.5), compute=4.5, launch=0.0)
    found = compare_reports(SLOW, slower_kernel)
    assert found.verdict in ("faster", "likely_faster")
    assert "aten::mm: slower" not in found.headline


def test_of_two_logs_of_step_times_nothing_is_recorded_or_profiled():
    logs = [replace(one, step_parts=[]) for one in (SLOW, FAST)]
    found = compare_reports(*logs)
    of_logs = replace(
        found, a=replace(found.a, kind="timing_log"), b=replace(found.b, kind="timing_log")
    )
    assert basis_of(found) == "as recorded"
    assert basis_of(of_logs) == ""
    assert waterfall_title(of_logs) == "From A to B"
