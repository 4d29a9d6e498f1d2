"""What a report says of the classes of recordings that other people make
(`tests/diagnosis/strangers.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.strangers import CASES, write
from tests.report.test_bounds import impossible
from traceanalyzer.diagnosis.remedies.advice import predictions
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.diagnosis.serving.phases import phases
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.outline.gains import no_advice

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report.model import Report

NO_GPU = ("calls_without_kernels", "cpu_alone", "ranges_alone", "device_refused")
REPORTS: dict[str, Report] = {}


@pytest.fixture
def report(request: pytest.FixtureRequest, tmp_path: Path) -> Report:
    name = request.param
    if name not in REPORTS:
        REPORTS[name] = build_report(load([write(name, tmp_path)]))
    return REPORTS[name]


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("report", names, indirect=True)


def actions(report: Report) -> str:
    return " ".join(one.action for one in report.recommendations)


def ids(report: Report) -> list[str]:
    return [one.id for one in report.findings]


def text(report: Report) -> str:
    notes = [*report.notes, *(note for i in report.inputs for note in i.health.notes)]
    return " ".join(
        [report.summary.headline, report.summary.culprit or "", actions(report), *notes]
    )


@of(*CASES)
def test_each_has_a_unit_numbers_and_advice_or_a_reason(report: Report) -> None:
    assert list(impossible(report)) == []
    if report.devices:
        assert report.metrics.step_source != "none"
        assert report.summary.step_ms
        assert report.metrics.budget_ms is not None
        assert report.recommendations or no_advice(report)
    if report.metrics.step_source in ("none", "recording"):
        assert "a step" not in (report.summary.culprit or "")


@of(*NO_GPU)
def test_without_the_gpu_it_says_what_the_cpu_did_and_what_to_record(report: Report) -> None:
    assert "the CPU spends most in" in report.summary.headline
    assert "Record the GPU" in report.summary.headline
    assert report.findings
    assert "overstated" not in text(report)


@of("device_refused")
def test_a_recorders_own_errors_are_quoted_whole(report: Report) -> None:
    assert "CUPTI_ERROR_INVALID_DEVICE" in report.notes[1]
    assert "driver version (13.1) is not supported" in text(report)


@of("waits_after_its_launch")
def test_what_waited_after_its_launch_is_not_launch_bound(report: Report) -> None:
    assert report.summary.bottleneck == "inconclusive"
    assert "SGLang" in text(report)
    assert "vLLM" not in text(report)
    assert report.recommendations == []


@of("prepares_inside_its_mark")
def test_a_graph_does_not_hide_what_python_does_before_the_first_launch(report: Report) -> None:
    assert report.summary.step_ms == pytest.approx(11.0, rel=0.01)
    assert "cuda_graph" not in [one.remedy for one in report.recommendations]


@of("one_long_graph_launch")
def test_a_long_graph_launch_is_the_cause(report: Report) -> None:
    idle = report.metrics.idle_ms
    assert idle is not None
    assert idle.launch == pytest.approx(1.62, abs=0.02)
    assert idle.sync == 0
    assert report.tables["gap_places"][0].name == "cudaGraphLaunch"
    assert report.summary.step_ms == pytest.approx(8.65, abs=0.02)


def test_a_server_has_one_estimate_whose_range_ends_with_the_recorded_launch(
    tmp_path: Path,
) -> None:
    m = measured(load([write("one_long_graph_launch", tmp_path)])).critical
    (phase,) = phases(m)
    assert phase.unprofiled is not None
    assert phase.unprofiled.ms == pytest.approx(8.65, abs=0.02)
    assert phase.unprofiled.low_ms == pytest.approx(8.65, abs=0.02)
    assert phase.unprofiled.high_ms == pytest.approx(9.62, abs=0.02)


@of("mtia")
def test_an_accelerators_steps_are_steps(report: Report) -> None:
    assert report.metrics.step_time_ms is not None
    assert report.metrics.step_time_ms.count == 12
    assert report.devices[0].kernels == 240


@of("one_pass", "one_annotation")
def test_one_pass_is_a_unit_with_predictions(report: Report) -> None:
    assert any(
        one.predicted_step_ms and one.low_ms and one.high_ms for one in report.recommendations
    )


@of("copies_alone")
def test_a_step_of_copies_alone_is_not_promised_to_vanish(report: Report) -> None:
    kept = next(one for one in report.recommendations if one.remedy == "keep_on_device")
    assert kept.predicted_step_ms is None


@of("copies_alone")
def test_a_slow_link_is_named(report: Report) -> None:
    where = [
        e.where for f in report.findings for e in f.evidence if e.metric == "achieved bandwidth"
    ]
    assert len(where) == 2
    assert all("its link carries 32 GB/s" in one for one in where)


@of("tiny_batch")
def test_eight_times_the_batch_is_a_limit(report: Report) -> None:
    more = next(one.as_much_work for one in report.recommendations if one.remedy == "larger_batch")
    assert more is not None
    known = report.metrics.unprofiled
    assert known is not None
    assert more.low_ms >= known.low_ms / 8 * 0.999
    assert more.time_ms == pytest.approx(known.step_time_ms / 8, rel=1e-3)
    assert more.low_ms < more.time_ms < more.high_ms


@of("mangled")
def test_mangled_kernels_have_a_class(report: Report) -> None:
    assert report.summary.bottleneck in ("compute", "memory")
    assert "cudnn::bn_fw_tr_1C11_kernel_NCHW" in str(report.tables["kernels"])


@of("one_kernel")
def test_one_kernel_is_no_measure_of_room(report: Report) -> None:
    assert "1 GPU operation was recorded" in report.summary.headline
    assert report.metrics.utilisation is not None
    assert report.metrics.utilisation.room is None


@of("few_products", "one_thread", "one_block")
def test_few_kernels_that_keep_the_gpu_busy_are_a_verdict(report: Report) -> None:
    assert report.summary.bottleneck == "compute"
    assert report.summary.confidence > 0.5


@of("few_products")
def test_even_sizes_are_not_odd(report: Report) -> None:
    assert "odd sizes" not in actions(report)


@of("mostly_idle", "one_kernel")
def test_idle_time_between_few_ops_is_shown_without_a_promise(report: Report) -> None:
    assert report.summary.bottleneck == "inconclusive"
    assert "idle for" in report.summary.headline
    assert {"host-work", "launch-bound"} & set(ids(report))
    assert [one for one in report.findings if one.headroom_ms] == []


@of("one_kernel")
def test_few_ops_are_said_with_what_the_gpu_waits_for(report: Report) -> None:
    # 1.5 us of 5,000 us: nothing is launched after it, and the CPU goes on
    assert report.summary.headline.endswith("while the CPU does other work.")


@of("no_kernel")
def test_without_kernels_nothing_is_said_of_them(report: Report) -> None:
    assert not {"launch-latency", "above-roofline"} & set(ids(report))
    assert "no kernel" in text(report)


@of("three_steps")
def test_three_steps_are_of_no_two_kinds(report: Report) -> None:
    assert "two kinds" not in text(report)


@of("sparse")
def test_a_sparse_matrix_is_coalesced(report: Report) -> None:
    assert "Coalesce the sparse matrix once" in actions(report)
    assert "26 times in the recording" in (report.summary.culprit or "")


@of("small_all_reduces")
def test_all_reduces_of_inference_get_advice(report: Report) -> None:
    assert "communication" in [one.cls for one in report.recommendations]


@of("four_threads")
def test_many_blocks_of_four_threads_need_larger_ones(report: Report) -> None:
    assert ids(report)[0] == "undersized-kernels"
    assert "whose blocks are smaller than a warp" in report.summary.headline
    assert "in blocks of 128 to 256 threads" in report.recommendations[0].action


@of("one_thread", "one_block", "openacc")
def test_kernels_of_few_threads_are_too_small(report: Report) -> None:
    assert ids(report)[0] == "undersized-kernels"
    assert "too small to fill the GPU" in report.summary.headline
    assert "more threads" in report.recommendations[0].action
    assert "fused operators" not in actions(report)


@of("managed")
def test_a_migration_costs_its_fault(report: Report) -> None:
    migration = next(one for one in report.findings if one.id == "page-migration")
    assert (migration.headroom_ms or 0) == pytest.approx(20, rel=0.01)
    assert ids(report)[0] == "managed-memory-loop"


@of("camera")
def test_nothing_is_promised_of_what_a_camera_clocks(report: Report) -> None:
    assert report.summary.confidence <= 0.6
    assert "25 per second" in report.summary.headline
    assert "a camera, a display or a sleep" in report.summary.headline
    assert report.recommendations == []
    assert [one for one in report.findings if one.headroom_ms] == []


def test_whatif_says_so_too(tmp_path: Path) -> None:
    found = predictions(load([write("camera", tmp_path)]))
    assert "a camera, a display or a sleep" in found.notes[0]
    assert "data_loader_workers" not in [one.id for one in found.scenarios]


@of("own_loop")
def test_work_that_varies_is_the_programs_own(report: Report) -> None:
    assert report.summary.bottleneck == "host"
    assert "camera" not in text(report)
    assert report.recommendations[0].predicted_step_ms


@of("long_pause")
def test_repeats_do_not_hold_the_pause_between_them(report: Report) -> None:
    assert report.summary.step_ms == pytest.approx(4.53, rel=0.01)
    assert any("of GPU work is in the" in note for note in report.notes)


@of("one_long_pause")
def test_one_pause_is_named_and_promises_nothing(report: Report) -> None:
    assert "One pause of 602 s" in report.summary.headline
    assert report.summary.confidence <= 0.6
    assert report.recommendations == []


@of("ray_tracer")
def test_argument_types_are_no_class(report: Report) -> None:
    assert {row.cls for row in report.tables["kernels"]} == {"other"}


@of("described_calls")
def test_cudnns_search_is_first_use(report: Report) -> None:
    assert "{'mod'" not in text(report)
    assert report.summary.bottleneck == "host"
    assert ".item()" not in actions(report)


@of(
    "waits_without_steps",
    "slow_pageable",
    "managed",
    "camera",
    "shrinking",
    "five_sizes",
    "openacc",
)
def test_programs_in_cuda_get_no_words_of_pytorch(report: Report) -> None:
    words = text(report) + no_advice(report)
    assert not any(
        word in words
        for word in ("reduce-overhead", ".item()", "DataLoader", "collect torch", "torch.")
    )


@of("slow_pageable")
def test_slow_copies_get_advice(report: Report) -> None:
    assert any(one.cls == "transfer" and one.predicted_step_ms for one in report.recommendations)


@of("shrinking")
def test_work_that_shrinks_is_no_warm_up(report: Report) -> None:
    assert report.metrics.warmup_steps == 0


@of("five_sizes")
def test_five_sizes_are_not_five_steps(report: Report) -> None:
    assert report.metrics.step_source == "recording"


@of("allocator_outside_operators", "graphs_alone", "no_host")
def test_odd_recordings_have_a_verdict(report: Report) -> None:
    assert report.summary.bottleneck != "inconclusive"
