"""What is compared between two recorders, and what is left out."""

from dataclasses import replace

import pytest

from tests.comparison.build import idle, part, report
from tests.comparison.test_evidence import host, run
from traceanalyzer.analysis.tables.step_figures import Unprofiled
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.document import ComparisonPage
from traceanalyzer.comparison.metrics import figures_by_path
from traceanalyzer.comparison.outline import sections
from traceanalyzer.report.document import Table
from traceanalyzer.report.model import Report

GEMM = part("aten::mm", "gemm", 4)


def recorded_by(made: Report, kind: str, **facts: object) -> Report:
    """The report as if another recorder had made it."""
    return replace(made, inputs=[replace(item, kind=kind, **facts) for item in made.inputs])


def timed(made: Report, step_ms: float, source: str = "measured") -> Report:
    """The report with a step without the profiler."""
    metrics = made.metrics
    estimate = Unprofiled(
        step_ms, step_ms, step_ms, source, metrics.budget_ms, metrics.idle_ms, None, 0.0, 0.0
    )
    found = replace(
        metrics,
        unprofiled=estimate,
        unprofiled_step_time_ms=step_ms,
        unprofiled_source=source,
    )
    return replace(made, metrics=found)


KINETO = timed(report(GEMM, idle("launch", 3, "aten::mm"), idle("sync", 1)), 8.0)
NSYS = recorded_by(timed(report(GEMM, idle("host", 2), idle("sync", 2)), 8.0), "nsys")


def test_idle_time_of_two_recorders_has_no_cause():
    found = compare_reports(KINETO, NSYS)
    assert [c.title for c in found.judged.changes if c.part == "idle"] == ["unchanged"]
    assert {p.name for p in found.judged.budget} == {"compute", "idle"}
    assert sum(c.difference_ms for c in found.changes) == pytest.approx(found.step.difference_ms)
    assert "causes of idle time do not, and are left out" in found.recorded_apart.sentence


def test_recorded_steps_of_two_recorders_are_not_set_side_by_side():
    text = ComparisonPage(compare_reports(KINETO, NSYS)).terminal(200)
    assert "with the profiler" not in text.replace("without the profiler", "")
    assert "Recorded steps differ" not in text
    assert "A was recorded by torch.profiler, B by Nsight Systems" in text


def test_figures_that_recording_changes_are_left_out_between_recorders():
    other = replace(
        NSYS, metrics=replace(NSYS.metrics, gpu_busy_share=0.9, launches_per_step=500.0)
    )
    shown = {
        row.figure
        for section in sections(compare_reports(KINETO, other))
        for table in section.parts
        if isinstance(table, Table) and section.title == "Other figures"
        for row in table.rows
    }
    assert "launches_per_step" in shown
    assert not {"gpu_busy_share", "launches.launch_mean_us", "host.dispatch_ms"} & shown


@pytest.mark.parametrize(
    ("after_ms", "verdict"), [(7.0, "no_change"), (5.0, "not_comparable"), (11.0, "not_comparable")]
)
def test_estimates_of_two_recorders_tell_no_change_of_the_same_work(after_ms, verdict):
    before = timed(KINETO, 8.0, "estimated")
    after = timed(NSYS, after_ms, "estimated")
    found = compare_reports(before, after)
    assert found.verdict == verdict
    assert "Estimates from two recorders differ by up to 25%" in found.headline


def test_stopwatches_of_two_recorders_compare():
    fewer = recorded_by(timed(report(part("aten::mm", "gemm", 2), idle("host", 1)), 3.0), "nsys")
    assert compare_reports(KINETO, fewer).verdict == "faster"


def test_a_log_of_step_times_is_a_stopwatch():
    """Its steps stand against the other's without the profiler, not against recorded ones."""
    log = replace(recorded_by(report(idle("other", 8.1)), "timing_log"), step_parts=[], tables={})
    found = compare_reports(log, KINETO)
    assert (found.verdict, found.basis) == ("no_change", "unprofiled")
    assert found.a.unprofiled_step_ms == pytest.approx(8.1)
    assert found.recorded_apart.sentence.startswith("A is a log of step times")


def test_a_log_beside_a_recording_makes_no_other_recorder():
    log = replace(KINETO.inputs[0], kind="timing_log")
    assert compare_reports(replace(KINETO, inputs=[*KINETO.inputs, log]), KINETO).conditions == []


def test_a_log_of_step_times_has_no_calls_that_wait():
    metrics = replace(KINETO.metrics, launches_per_step=None)
    log = replace(KINETO, metrics=metrics, tables={"syncs": []})
    assert figures_by_path(log)["syncs.calls"].value is None


def test_launch_calls_alone_do_not_tell_the_hosts_speed():
    calls = [host(None), host(None, us=20.0)]
    slower = [host(None, us=80.0), host(None, us=30.0)]
    found = compare_reports(run(10.0, calls), run(14.0, slower))
    assert found.host_factor is None
    assert "host of B" not in found.headline


def test_an_estimate_beside_a_stopwatch_does_not_tell_the_hosts_speed():
    hosts = [host("aten::mm"), host("aten::add")]
    faster = [host("aten::mm", us=30.0), host("aten::add", us=30.0)]
    before = run(10.0, hosts)
    metrics = replace(run(9.5, faster).metrics, unprofiled_source="measured")
    after = replace(run(9.5, faster), metrics=metrics)
    found = compare_reports(before, after)
    assert found.host_factor is None
    assert "A estimated, B measured" in found.headline


def test_host_times_are_left_out_where_stacks_were_recorded_once():
    plain = recorded_by(KINETO, "kineto", collected=["device", "ops", "shapes"])
    stacks = recorded_by(KINETO, "kineto", collected=["device", "ops", "shapes", "stacks"])
    found = compare_reports(plain, stacks)
    assert found.recorded_apart.sentence == (
        "A was recorded with shapes, B with shapes, stacks: host times do not compare, and are left "
        "out."
    )


def test_hosts_that_wait_otherwise_do_not_tell_their_speed():
    """A call after a wait takes longer, whatever the machine."""
    hosts = [host("aten::mm"), host("aten::add"), host("aten::item", waits=60.0)]
    without = [host("aten::mm", us=30.0), host("aten::add", us=30.0), host("aten::item", us=30.0)]
    found = compare_reports(run(10.0, hosts), run(7.0, without))
    assert found.host_factor is None
    assert "host of B" not in found.headline


@pytest.mark.parametrize(
    ("after_ms", "verdict"),
    [(7.6, "no_change"), (5.0, "not_comparable"), (11.0, "not_comparable"), (8.1, "no_change")],
)
def test_hosts_of_two_processes_are_no_measured_change(after_ms, verdict):
    """Stopwatches of two recorders' processes differ, the GPU's time does not: as `winds` and
    `sprites`, each recorded by both."""
    found = compare_reports(KINETO, timed(NSYS, after_ms))
    assert found.verdict == verdict
    assert ("record both by one recorder" in found.headline) == (after_ms != 8.1)
    assert all(
        change.significant is None for change in found.judged.changes if change.part == "idle"
    )


def test_fewer_launches_of_two_recorders_are_likely_at_most():
    before = replace(KINETO, metrics=replace(KINETO.metrics, launches_per_step=900.0))
    after = timed(NSYS, 5.0)
    after = replace(after, metrics=replace(after.metrics, launches_per_step=100.0))
    assert compare_reports(before, after).verdict == "likely_faster"


def test_kernels_of_other_operators_are_one_work_between_recorders():
    """Each knows other operators and types of one kernel."""
    named = part("aten::linear", "gemm", 4, dtypes="float")
    other = recorded_by(timed(report(named, idle("host", 4)), 6.0), "nsys")
    found = compare_reports(KINETO, other)
    assert found.verdict == "not_comparable"
    assert "Both do the same GPU work" in found.headline
