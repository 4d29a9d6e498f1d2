"""Pipelines from recordings of their ranks, with steps and gains that a simulation by waiting
has."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.analysis.ranks.pipeline.recordings import Job, gpipe, interleaved, one_f_one_b
from tests.recorded import ranks
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.pipeline.job import PipelineJob
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report

SCHEDULES = pytest.mark.parametrize("schedule", [one_f_one_b, gpipe])


def us(way, *_):
    return 1000.0 if way == "forward" else 2000.0


def heavy(factor=1.3):
    return slower(factor, lambda replica, stage, step: stage == 3)


def slow(factor=1.3):
    return slower(factor, lambda replica, stage, step: (replica, stage) == (1, 2))


def slower(factor, chosen):
    """Some computations take longer: (replica, stage, step)."""
    return lambda way, replica, stage, m, step: (
        us(way) * (factor if chosen(replica, stage, step) else 1.0)
    )


def compared(job, folder, but=()):
    paths = sorted(
        job.write(folder).iterdir(),
        key=lambda path: int(path.name.removeprefix("rank").split(".")[0]),
    )
    run = load([path for i, path in enumerate(paths) if i not in but])
    return compare_ranks([measure(trace).timed.memo(digest_of) for trace in run.traces])


def gain_ms(job, changed, schedule):
    return (np.mean(job.ends) - np.mean(Job(schedule=schedule, took=changed).ends)) / 1e3


@SCHEDULES
def test_a_rank_that_is_slow(tmp_path, schedule):
    job = Job(schedule=schedule, took=slow())
    found = compared(job, tmp_path)
    (late,) = found.late
    assert (late.position, late.stage, found.critical) == (6, None, 6)
    assert late.gain_ms == pytest.approx(gain_ms(job, us, schedule), rel=0.02)
    assert found.pipeline.slowdown.simulated_ms == pytest.approx(np.mean(job.ends) / 1e3, rel=0.003)
    assert found.pipeline.slowdown.s_worst_ranks == (6,)
    assert found.pipeline.slowdown.m_w > 0.95


@SCHEDULES
def test_a_stage_that_is_too_heavy(tmp_path, schedule):
    job = Job(schedule=schedule, took=heavy(), clock_us=lambda rank: 90.0 * rank)
    found = compared(job, tmp_path)
    assert [(one.position, one.stage) for one in found.late] == [(3, 3), (7, 3)]
    evened = gain_ms(job, lambda way, *_: us(way) * 1.075, schedule)
    assert found.late[0].gain_ms == pytest.approx(evened, rel=0.03)
    assert found.pipeline.slowdown.s_worst_stage == 3


@SCHEDULES
def test_two_that_are_late_together(tmp_path, schedule):
    job = Job(
        schedule=schedule,
        took=slower(1.3, lambda replica, stage, step: (replica, stage) in {(0, 1), (1, 2)}),
    )
    late = compared(job, tmp_path).late
    assert [(one.position, one.together) for one in late] == [(1, True), (6, True)]
    assert late[0].gain_ms == pytest.approx(gain_ms(job, us, schedule), rel=0.02)


@SCHEDULES
def test_a_host_that_is_late(tmp_path, schedule):
    def late_us(way, replica, stage, m, step):
        return 5000.0 if (replica, stage) == (1, 1) else 0.0

    job = Job(schedule=schedule, late_us=late_us)
    (late,) = compared(job, tmp_path).late
    assert late.position == 5
    assert late.gain_ms == pytest.approx(gain_ms(job, us, schedule), rel=0.08)


@SCHEDULES
def test_a_host_that_is_late_makes_no_stage_heavy(tmp_path, schedule):
    """Its device computes for as long as those of the other stages."""
    job = Job(
        schedule=schedule,
        late_us=lambda way, replica, stage, m, step: 1500.0 if stage == 3 else 0.0,
    )
    found = compared(job, tmp_path)
    assert found.late == ()
    assert found.pipeline.usual.max() == pytest.approx(2e-3, rel=0.01)


def test_one_replica_has_no_other_to_compare_with(tmp_path):
    job = Job(replicas=1, steps=4, took=slower(1.4, lambda replica, stage, step: step == 1))
    found = compared(job, tmp_path)
    assert found.late == ()
    assert not found.pipeline.excess_ms.any()


def test_real_stages_of_five_and_eleven_layers():
    """1F1B of two ranks on NCCL: a stopwatch read 33.7 ms, and 26.2 to 34.0 with eight layers in
    both stages."""
    report = ta.analyze(ta.load(*ranks("two_ranks/pipeline_1f1b_heavy_stage.base")))
    (found,) = [one for one in report.recommendations if one.remedy == "fix_straggler"]
    assert found.action.startswith("Cut the stages evenly: stage 1 computes longer")
    assert 23.0 < found.predicted_step_ms < 28.0
    evened = compare_ranks(
        [
            measure(t).timed.memo(digest_of)
            for t in load(ranks("two_ranks/pipeline_1f1b_heavy_stage.without")).traces
        ]
    )
    assert evened.pipeline.is_faithful
    assert evened.late == ()


def test_a_stage_that_is_surely_heavy_is_named_although_steps_differ_a_little(tmp_path):
    def recorded_as(longer: float) -> PipelineJob:
        job = compared(Job(took=heavy(2.0)), tmp_path).pipeline
        ops = job.pipeline.ops
        ops = replace(ops, end=ops.end + ops.recorded_s * (longer - 1.0))
        return replace(job, pipeline=replace(job.pipeline, ops=ops))

    roughly = recorded_as(1.06)
    assert not roughly.is_faithful
    assert {one.stage for one in roughly.late} == {3}
    assert recorded_as(1.2).late == ()


@SCHEDULES
def test_slowdown_by_waiting(tmp_path, schedule):
    """S: the step over that in which all computations take the mean of their type."""
    took = slower(1.4, lambda replica, stage, step: stage == 0 or (replica, stage) == (1, 3))
    job = Job(schedule=schedule, took=took, replicas=2)
    mean = 1 + 0.4 * 3 / 8
    ideal = Job(schedule=schedule, took=lambda way, *_: us(way) * mean)
    s = np.mean(job.ends) / np.mean(ideal.ends)
    assert compared(job, tmp_path).pipeline.slowdown.s == pytest.approx(s, rel=0.01)


@SCHEDULES
@pytest.mark.parametrize("seed", range(3))
def test_nobody_is_named_where_all_differ_by_chance(tmp_path, schedule, seed):
    random = np.random.default_rng(seed)
    noisy = lambda way, *_: us(way) * random.normal(1, 0.02)  # noqa: E731
    job = Job(schedule=schedule, took=noisy, clock_us=lambda rank: 200.0 * rank)
    found = compared(job, tmp_path)
    assert found.late == ()
    assert found.pipeline.is_faithful


def test_one_slow_step_names_nobody(tmp_path):
    job = Job(
        steps=5, took=slower(1.6, lambda replica, stage, step: (replica, stage, step) == (1, 2, 3))
    )
    assert compared(job, tmp_path).late == ()


def test_a_loss_between_gradients_is_no_microbatch(tmp_path):
    """The last stage calculates each loss right before its backward computation, as a GPipe
    schedule written by hand does."""

    def with_losses(stage, stages, microbatches):
        for action in gpipe(stage, stages, microbatches):
            if stage == stages - 1 and action[0] == "backward":
                yield "forward", action[1] + 100
            yield action

    def took(way, replica, stage, m, step):
        return 50.0 if m >= 100 else us(way) * (1.3 if stage == 1 else 1.0)

    job = Job(stages=2, replicas=1, microbatches=4, steps=6, schedule=with_losses, took=took)
    found = compared(job, tmp_path)
    assert found.pipeline is not None
    assert not any("not worked out" in note for note in found.notes)
    assert [one.stage for one in found.late] == [1]


def test_bubbles_are_said_with_the_least_that_there_can_be(tmp_path):
    """Two stages of equal length and four microbatches: a fifth of the step."""
    job = Job(stages=2, replicas=1, microbatches=4, steps=6, schedule=gpipe)
    report = build_report(load(sorted(job.write(tmp_path).iterdir())))
    (found,) = [one for one in report.findings if one.id == "exposed-communication"]
    by_name = {one.metric: one.value for one in found.evidence}
    assert by_name["least share of bubbles"] == pytest.approx(0.2)
    assert by_name["sends and receives"] == report.metrics.communication.send_recv_ms
    (advice,) = [one for one in report.recommendations if one.id == found.id]
    assert "micro-batches" in advice.action


def test_what_makes_no_pipeline_that_is_known(tmp_path):
    found = compared(Job(replicas=1, schedule=interleaved), tmp_path / "a")
    assert found.pipeline is None
    assert any("interleaved" in note for note in found.notes)
    assert found.late == ()


def test_without_a_rank_its_replica_is_left_out(tmp_path):
    job = Job(replicas=3, took=heavy())
    found = compared(job, tmp_path, but=(5,))
    assert found.pipeline.position.tolist() == [[0, 1, 2, 3], [7, 8, 9, 10]]
    assert [one.stage for one in found.late] == [3, 3]


def test_fleet_says_the_same_from_digests(tmp_path):
    folder = Job(took=slow(), hosts=4).write(tmp_path / "a")
    other = Job(took=heavy()).write(tmp_path / "b")
    asked = ["fleet", str(folder), "--digests", str(tmp_path / "d"), "--format", "json"]
    found = json.loads(CliRunner().invoke(cli, asked).stdout)
    (one,) = found["culprits"]
    assert (one["rank"], one["host"], one["stage"], one["cause"]) == (6, "n001", 2, "slow_gpu")
    analyzed = [row for row in build_report(load([folder])).tables["ranks"] if row.straggler]
    assert [(row.rank, pytest.approx(row.gain_ms)) for row in analyzed] == [(6, one["gain_ms"])]
    assert found["pipeline"]["s"] > 1.1
    found = json.loads(
        CliRunner().invoke(cli, ["fleet", str(other), "--no-cache", "--format", "json"]).stdout
    )
    assert [(one["stage"], one["cause"]) for one in found["culprits"]] == [(3, "heavy_stage")]
    assert found["summary"]["headline"].startswith("Stage 3 (ranks 3, 7) is too heavy.")
    assert [one["what"] for one in found["changes"]] == [
        "stages evened out",
        "all ranks and stages alike",
    ]
