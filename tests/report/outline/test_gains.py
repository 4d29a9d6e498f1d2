"""What a finding holds, and advice brings, in words."""

from __future__ import annotations

from dataclasses import replace

from tests.report.reports import full
from traceanalyzer.analysis.groups.seen_conditions import PRODUCT_FORMATS
from traceanalyzer.diagnosis.finding import AfterOthers, AsMuchWork, AtStart, Evidence
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.outline import gains
from traceanalyzer.trace import Condition


def test_headroom_that_is_not_counted_is_what_its_own_advice_gains():
    report = full()
    step_ms = step_times.step_ms(report)
    assert step_ms is not None
    finding = replace(report.findings[0], id="graph-break", headroom_ms=None)
    advice = replace(report.recommendations[0], predicted_step_ms=step_ms - 1.0)
    own = replace(advice, id="graph-break")
    others = replace(advice, id="graph-break-2", predicted_step_ms=step_ms - 2.0)
    both = replace(report, recommendations=[own, others])
    assert gains.headroom(both, finding) == "headroom 1.00 ms: what its advice gains"
    none = replace(report, recommendations=[])
    assert gains.headroom(none, finding) == "headroom unknown"
    without = replace(none, devices=[])
    assert gains.headroom(without, finding) == "headroom unknown without a trace"


def test_what_is_saved_at_each_start_is_headroom_too():
    report = full()
    finding = replace(report.findings[0], id="compile-cache", headroom_ms=None)
    start = AtStart(now_s=8.0, compile_s=1.0, low_s=None, high_s=None)
    advice = replace(
        report.recommendations[0], id="compile-cache", predicted_step_ms=None, at_start=start
    )
    told = gains.headroom(replace(report, recommendations=[advice]), finding)
    assert told == "headroom 7.00 s of each start"


def test_a_finding_on_the_recording_has_no_headroom():
    report = full()
    finding = replace(report.findings[0], id="drift", cls="inconclusive", headroom_ms=None)
    assert gains.headroom(replace(report, recommendations=[]), finding) == ""


def test_a_headroom_beyond_its_cause_says_what_gains_it():
    report = full()
    step_ms = step_times.step_ms(report)
    assert step_ms is not None
    cause = Evidence("runs", 0.1, "share", "of the step without the profiler")
    finding = replace(
        report.findings[0], id="memory-chains", headroom_ms=0.2 * step_ms, evidence=[cause]
    )
    own = replace(
        report.recommendations[0],
        id="memory-chains",
        remedy="compile",
        predicted_step_ms=0.8 * step_ms,
    )
    told = gains.headroom(replace(report, recommendations=[own]), finding)
    assert told.endswith(": what compile gains, more than this cause alone (10.0%)")
    within = replace(finding, headroom_ms=0.1 * step_ms)
    assert "alone" not in gains.headroom(replace(report, recommendations=[own]), within)


def test_products_in_fp32_are_not_nothing_to_fix():
    report = full()
    summary = replace(report.summary, bottleneck="compute")
    tables = {**report.tables, "conditions": [Condition(PRODUCT_FORMATS, "fp32")]}
    none = replace(report, summary=summary, recommendations=[], tables=tables)
    assert gains.no_advice(none).startswith("No gain is predicted, but matrix kernels run in fp32")
    narrow = {**report.tables, "conditions": [Condition(PRODUCT_FORMATS, "bf16")]}
    assert "fp32" not in gains.no_advice(replace(none, tables=narrow))


def test_small_gains_are_not_no_gains():
    """The first screen and the recommendations below it speak of the same changes."""
    report = full()
    small = replace(report.recommendations[0], remedy="fused_optimizer", predicted_speedup=1.03)
    told = gains.no_advice(replace(report, recommendations=[small]))
    assert told.startswith("Only a small gain is predicted: 1.03x with fused_optimizer")


def test_what_is_saved_once_is_not_promised_for_each_step():
    """Kernels that a single recorded step loads are loaded once a process."""
    report = full()
    assert report.metrics.step_time_ms is not None
    warm_up = replace(
        report.recommendations[0], id="first-use", remedy="warm_up", predicted_step_ms=1.0
    )
    only = replace(report.metrics.step_time_ms, count=1)
    alone = replace(report, metrics=replace(report.metrics, step_time_ms=only))
    assert "once, for the step recorded" in gains.prediction(alone, warm_up)
    several = replace(report.metrics, step_time_ms=replace(only, count=4))
    assert "per step" in gains.prediction(replace(report, metrics=several), warm_up)


def test_a_program_is_run_as_it_was_recorded() -> None:
    report = full()
    assert gains.example_command(report) == "python train.py"
    recorded = [Condition("command", "torchrun --nproc-per-node 2 pretrain.py")]
    launched = replace(report, tables={**report.tables, "conditions": recorded})
    assert gains.example_command(launched) == "torchrun --nproc-per-node 2 pretrain.py"
    interpreter = replace(
        report, tables={**report.tables, "conditions": [Condition("command", "python3")]}
    )
    assert gains.example_command(interpreter) == "python train.py"


def test_a_program_that_is_not_python_is_not_run_by_it() -> None:
    report = full()
    native = [replace(one, kind="nsys", program="saxpy-mpi-cuda") for one in report.inputs]
    assert gains.example_command(replace(report, inputs=native)) == "./saxpy-mpi-cuda"
    unnamed = [replace(one, kind="nsys") for one in report.inputs]
    assert gains.example_command(replace(report, inputs=unnamed)) == "./your_program"
    by_python = [replace(one, kind="nsys", program="python3.11") for one in report.inputs]
    assert gains.example_command(replace(report, inputs=by_python)) == "python train.py"


def test_gains_of_several_changes_are_not_added_up() -> None:
    known = replace(full().recommendations[0], predicted_step_ms=1.0, predicted_speedup=2.0)
    unknown = replace(known, predicted_step_ms=None, predicted_speedup=None, as_much_work=None)
    assert gains.changes_title([known], 1) == "What to change"
    assert gains.changes_title([known, unknown], 2) == "What to change"
    assert gains.changes_title([known, known], 2) == "What to change (gains do not add up)"
    assert gains.changes_title([known, known], 3) == "What to change (2 of 3; gains do not add up)"


def test_the_order_of_changes_is_told_where_a_smaller_gain_comes_first():
    alone = replace(full().recommendations[0], predicted_speedup=1.4)
    batch = replace(alone, predicted_speedup=None, as_much_work=AsMuchWork(1.0, 0.9, 1.2, 8.0))
    assert gains.rule_of_order([alone, batch]) == "Order: what shortens a step by itself first."
    larger = replace(alone, predicted_speedup=9.0)
    assert gains.rule_of_order([larger, batch]) == ""
    unsure = replace(alone, predicted_speedup=2.0, may_not_help=True)
    assert gains.rule_of_order([alone, unsure]) == "Order: what may not help last."


def test_a_change_after_others_says_what_those_gain_by_themselves():
    report = full()
    both = AfterOthers(["remove_syncs"], 2.0, 1.5, 2.5, 5.0, first_ms=9.0)
    advice = replace(report.recommendations[0], together=both)
    assert "with remove_syncs (9.00 ms by itself), 5.00x" in gains.prediction(report, advice)


def test_a_replayed_step_that_was_not_seen_has_no_speedup():
    report = full()
    advice = replace(report.recommendations[0], predicted_step_ms=1.0, predicted_speedup=9.0)
    assert gains.factor(report, advice) == "9.00x"
    unsteady = replace(report, metrics=replace(report.metrics, unsteady_step_time_ms=50.0))
    assert gains.factor(unsteady, advice) == ""
