"""Comparisons as a whole: what is said, under which conditions, and how it is drawn."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.comparison.build import idle, part, report
from tests.report.reports import HOSTILE, empty
from traceanalyzer.analysis.phases.training import ProgramStats
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.tables.collectives import CommunicationTime
from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.conditions import conditions_between
from traceanalyzer.comparison.document import ComparisonPage
from traceanalyzer.comparison.metrics import with_amounts
from traceanalyzer.comparison.outline import _calls, sections
from traceanalyzer.report.json import dump, render_json
from traceanalyzer.report.outline.opening import verdict
from traceanalyzer.trace import Condition

A = report(part("aten::mm", "gemm", 5), idle("sync", 5, "aten::item", "cudaStreamSynchronize"))
B = report(part("aten::mm", "gemm", 5), idle("launch", 1, "aten::mm"))


def with_inputs(value, **changed):
    return replace(value, inputs=[replace(i, **changed) for i in value.inputs])


def test_the_headline_has_the_answer():
    assert compare_reports(A, B).headline == (
        "Faster: 10 → 6 ms per step (-40.0%). Largest part: less idle time, syncs "
        "(cudaStreamSynchronize in aten::item), -5 ms."
    )
    assert compare_reports(A, A).headline == "No significant change: 10 → 10 ms per step (+0.0%)."


def test_a_slower_machine_is_told_from_other_work():
    slower = report(
        part("aten::mm", "gemm", 5.5), idle("sync", 5, "aten::item", "cudaStreamSynchronize")
    )
    assert "Both do the same GPU work" in compare_reports(A, slower).headline
    other = report(
        part("aten::mm", "other", 5.5), idle("sync", 5, "aten::item", "cudaStreamSynchronize")
    )
    assert "Both do the same GPU work" not in compare_reports(A, other).headline


def test_a_straggler_that_is_none_any_more_is_named():
    rows = [RankRow(i, 0, 9.0, 9.0, 5.0, 1.0, None, None, 0.0, False) for i in range(2)]
    held_up = replace(A, tables=A.tables | {"ranks": [rows[0], replace(rows[1], straggler=True)]})
    even = replace(B, tables=B.tables | {"ranks": rows})
    headline = compare_reports(held_up, even).headline
    assert headline.endswith("A is rank 1, for which the others wait; B is rank 0.")


def test_a_stopwatch_is_believed_before_the_profiler():
    timed = [
        replace(
            r, metrics=replace(r.metrics, unprofiled_step_time_ms=ms, unprofiled_source="measured")
        )
        for r, ms in ((A, 4.0), (B, 4.01))
    ]
    said = compare_reports(*timed).headline
    assert said.startswith(
        "No significant change without the profiler: 4 → 4.01 ms per step (+0.2%), measured; with"
    )
    assert "what was recorded makes the difference" in said


def test_a_single_step_decides_nothing():
    one = replace(A, step_parts=[replace(p, batch_ms=[p.ms]) for p in A.step_parts])
    result = compare_reports(one, B)
    assert result.step.significant is None
    assert result.verdict == "likely_faster"
    assert "Record 20 steps of both" in result.headline
    assert "at least three steps" in result.notes[0]


@pytest.mark.parametrize(
    ("other", "name", "incomparable"),
    [
        (replace(B, devices=[replace(d, name="NVIDIA A100") for d in B.devices]), "GPU", True),
        (with_inputs(B, world_size=8), "number of processes", True),
        (with_inputs(B, kind="nsys"), "recorder", False),
        (with_inputs(B, collected=["device", "stacks"]), "recorder's options", False),
        (replace(B, metrics=replace(B.metrics, step_source="none")), "steps", True),
        (
            replace(B, tables=B.tables | {"conditions": [Condition("PyTorch", "2.9")]}),
            "PyTorch",
            False,
        ),
        (
            replace(B, tables=B.tables | {"conditions": [Condition("anomaly mode", "on", "slow")]}),
            "anomaly mode",
            False,
        ),
    ],
)
def test_what_differs_other_than_in_time(other, name, incomparable):
    first = replace(
        with_inputs(A, collected=["device"]),
        tables=A.tables | {"conditions": [Condition("PyTorch", "2.8")]},
    )
    found = {c.name: c for c in compare_reports(first, other).conditions}
    assert found[name].incomparable is incomparable
    assert ("Not like for like" in compare_reports(first, other).headline) is incomparable


def test_equal_conditions_are_not_mentioned():
    assert compare_reports(A, B).conditions == []


def test_without_parts_the_budgets_are_compared():
    result = compare_reports(replace(A, step_parts=[]), B)
    assert [(c.part, c.cls, c.difference_ms) for c in result.changes] == [
        ("idle", "sync", -5),
        ("idle", "launch", 1),
        ("compute", "compute", 0),
    ]
    assert "an earlier version" in result.notes[0]


def test_without_budgets_the_steps_are_compared():
    logs = [
        replace(r, step_parts=[], metrics=replace(r.metrics, budget_ms=None, idle_ms=None))
        for r in (A, B)
    ]
    (change,) = compare_reports(*logs).changes
    assert change.difference_ms == pytest.approx(-4)


def test_nothing_to_compare():
    with pytest.raises(EmptyRecordingError, match="B: neither steps nor GPU work"):
        compare_reports(A, empty())


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_page_fits_the_terminal_and_the_changes_sum_up(width):
    text = ComparisonPage(compare_reports(A, B, ("before.json", "after.json"))).terminal(width)
    assert max(map(len, text.splitlines())) <= width
    assert "Where the difference comes from" in text
    assert "before.json" in text


def test_the_answer_fits_a_screen_and_full_has_the_rest():
    comparison = compare_reports(A, B, ("before.json", "after.json"))
    short = ComparisonPage(comparison).terminal()
    full = ComparisonPage(comparison, full=True).terminal()
    assert comparison.headline.split(".")[0] in short
    assert "The step's budget" not in short
    assert "the step's budget" in short.rpartition("With --full:")[2]
    assert "The step's budget" in full
    assert len(short.splitlines()) <= 24 < len(full.splitlines())


def test_hostile_names_break_no_page():
    hostile = report(*(part(name or None, name, 1.0 + i) for i, name in enumerate(HOSTILE)))
    result = compare_reports(hostile, B, ("<script>|a\n", "b"))
    text = ComparisonPage(result).markdown()
    assert "<script>" not in text.replace("`", "").replace("\\<", "") or "`<script>" in text
    assert "\x1b" not in ComparisonPage(result).terminal()
    json.loads(dump(result))
    assert len(ComparisonPage(result).csv().splitlines()) == 1 + len(result.changes)


def test_the_json_has_everything_under_plain_names():
    said = json.loads(dump(compare_reports(A, B)))
    assert set(said) == {
        "per_unit",
        "outcomes",
        "batches",
        "a",
        "b",
        "headline",
        "step",
        "conditions",
        "changes",
        "budget",
        "metrics",
        "notes",
        "memory",
        "predicted",
        "verdict",
        "basis",
        "could_see",
        "per",
        "rows",
        "host_factor",
        "gpu_factor",
        "ranks",
        "unprofiled",
        "recorded_apart",
        "recommendations",
    }
    change = said["changes"][0]
    assert (change["part"], change["class"], change["kind"]) == ("idle", "sync", "less_idle")
    assert change["details"][0]["what"] == "cudaStreamSynchronize in aten::item"
    names = {m["name"] for m in said["metrics"]}
    assert {
        "launches_per_step",
        "communication.total_ms",
        "syncs.calls",
        "headroom_ms.sync",
    } <= names


def test_reports_are_taken_as_values_files_and_stored_runs(tmp_path):
    from traceanalyzer.history.runs import store_report

    (tmp_path / "a.json").write_text(render_json(A), encoding="utf-8")
    store_report(tmp_path / "runs.db", B)
    result = ta.compare(tmp_path / "a.json", f"{tmp_path}/runs.db#latest")
    assert result.step.difference_ms == pytest.approx(-4)
    assert result.a.name.endswith("a.json")
    assert ta.compare(A, B).step == compare_reports(A, B).step


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema_version": 1, "tool": {}, "metrics": 1}', "damaged report"),
        ("{", "a.json"),
        (None, "no such file"),
    ],
)
def test_what_is_no_report_says_so(tmp_path, content, message):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableInputError, match=message):
        ta.compare(path, A)


def test_a_pattern_that_matches_nothing(tmp_path):
    with pytest.raises(UnreadableInputError, match="no file matches"):
        ta.compare(f"{tmp_path}/rank*.json", A)


SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_steps_without_the_profiler_speak_first_and_the_prediction_is_held_against_them():
    told = ta.compare(SAMPLES / "sync_bound", SAMPLES / "sync_fixed")
    assert told.headline.startswith(
        "Faster without the profiler: 1.388 → 1.004 ms per step (-27.7%), measured"
    )
    assert told.predicted is not None
    assert told.predicted.id == "host-waits"
    assert told.predicted.measured_ms == pytest.approx(1.004, abs=0.001)
    assert told.predicted.low_ms <= told.predicted.measured_ms <= told.predicted.high_ms
    back = ta.compare(SAMPLES / "sync_fixed", SAMPLES / "sync_bound")
    assert back.headline.startswith("Slower without the profiler")
    assert back.predicted is None


def table_of(comparison, title):
    (table,) = next(section.parts for section in sections(comparison) if section.title == title)
    return table.rows


def test_what_steps_tell_but_runs_would_hide_is_not_called_noise():
    told = ta.compare(SAMPLES / "sync_bound", SAMPLES / "sync_fixed")
    rows = {row.part: row for row in table_of(told, "The step's budget")}
    assert rows["compute"].verdict == "below 2%"
    for row in rows.values():
        without_zero = (
            row.low_ms is not None and row.high_ms is not None and row.low_ms * row.high_ms > 0
        )
        assert not (without_zero and row.verdict == "within noise"), row


@pytest.mark.parametrize(
    ("per_step", "steps", "shown"),
    [
        ((16.0, 1.0), (4, 4), "16 → 1"),
        ((0.25, 13.75), (4, 4), "1 → 55 in 4 steps"),
        ((0.25, 12.0), (4, 3), "1 in 4 → 36 in 3 steps"),
        ((2.5, 1.0), (0, 3), "2.50 → 1.00"),
    ],
)
def test_calls_are_counted_as_they_were(per_step, steps, shown):
    assert _calls(per_step, steps) == shown


def test_two_batch_sizes_are_compared_per_sample():
    slow = with_amounts(report(part("aten::mm", "gemm", 10.0)), 2, None)
    fast = with_amounts(report(part("aten::mm", "gemm", 16.0)), 64, None)
    each = compare_reports(slow, fast).per_unit
    assert each is not None
    assert (each.unit, each.a_ms, each.b_ms) == ("sample", 5.0, 0.25)
    said = "Per sample faster: 5 → 0.25 ms (-95.0%), at 2 and 64 a step."
    assert compare_reports(slow, fast).headline.startswith(said)
    assert "The step alone: " in compare_reports(slow, fast).headline


def test_all_of_a_comparison_has_four_parts_in_order():
    page = ComparisonPage(
        compare_reports(
            report(part("aten::mm", "gemm", 10.0)), report(part("aten::mm", "gemm", 5.0))
        ),
        full=True,
    )
    parts = ("Summary", "Metrics", "Findings", "Recommendations")
    for text, title in (
        (page.printed.markdown(), "## {}\n"),
        (page.printed.terminal(100), "{}\n─"),
    ):
        places = [text.index(title.format(name)) for name in parts]
        assert places == sorted(places)
    html = page.html()
    places = [html.index(f">{name}</h2>") for name in parts[1:]]
    assert places == sorted(places)


def test_the_same_batch_size_needs_no_word_about_samples():
    one = with_amounts(report(part("aten::mm", "gemm", 10.0)), 8, 100)
    assert compare_reports(one, one).per_unit is None


def test_training_is_not_compared_with_inference_like_for_like():
    sides = [
        report(part("aten::mm", "gemm", 10.0), program=ProgramStats(mode, None, None, None))
        for mode in ("training", "inference")
    ]
    comparison = compare_reports(*sides)
    (found,) = [c for c in comparison.conditions if c.name.startswith("mode")]
    assert (found.a, found.b, found.incomparable) == ("training", "inference", True)


def test_a_side_has_the_words_of_analyze():
    mixed = report(part("aten::mm", "gemm", 10.0))
    alone = replace(mixed, summary=replace(mixed.summary, bottleneck="compute", beside=None))
    both = replace(mixed, summary=replace(mixed.summary, bottleneck="sync", beside="compute"))
    comparison = compare_reports(both, alone)
    assert comparison.a.verdict == verdict(both) == "sync- and compute-bound"
    assert comparison.b.verdict == "compute-bound"


def test_waiting_for_other_ranks_is_a_sentence_of_its_own():
    waits = [
        CommunicationTime(12.0, 12.0, 0.0, transfer_ms=2.0, waiting_ms=ms)
        for ms in (10.0, 1.0, 10.01)
    ]
    before, after, same = (
        report(part("aten::mm", "gemm", 10.0), communication=one) for one in waits
    )
    words = "Waiting for other ranks within communication: 10 → 1 ms per step."
    assert words in compare_reports(before, after).headline
    assert "Waiting for" not in compare_reports(before, same).headline


@pytest.mark.parametrize(("source", "is_apart"), [("none", True), ("profiler_step", False)])
def test_programs_without_a_kernel_in_common_may_be_two(source, is_apart):
    seed = report(part(kernel="seed", ms=5), step_source=source)
    add = report(part(kernel="add", ms=1), step_source=source)
    found = {c.name: c for c in conditions_between(seed, add)}
    assert (found["kernels"].a, found["kernels"].b) == ("seed", "add")
    assert found["kernels"].incomparable is is_apart
    both = report(part(kernel="add", ms=1), part(kernel="seed", ms=1), step_source=source)
    assert "kernels" not in {c.name for c in conditions_between(seed, both)}
    same_op = report(part("aten::mm", "a", 5), step_source=source)
    other_kernel = report(part("aten::mm", "b", 1), step_source=source)
    assert "kernels" not in {c.name for c in conditions_between(same_op, other_kernel)}
