"""Tasks for agents: how right, wrong and empty answers are scored, and what a task gives away."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.agents.__main__ import answers_in, truths_of
from benchmarks.agents.build import ORDERED, build
from benchmarks.agents.reference import answer_from
from benchmarks.agents.score import result_of, scored, summary
from benchmarks.agents.sources import Source
from benchmarks.agents.task import Answer, Change, Truth, answer_of

PAYING = Truth("loop", "test", 10.0, {"cuda_graph": 4.0, "remove_syncs": 7.0}, ("launch",))
GOOD = Truth("good", "test", 10.0, {"cuda_graph": 9.9})


def answer(cause: str, *changes: Change) -> Answer:
    return Answer(cause, changes)


def test_the_best_change_obtains_all_of_the_gain() -> None:
    result = result_of(PAYING, answer("launch", Change("cuda_graph", 4.2, 3.5, 5.0)))
    assert (result.gain_share, result.is_cause_right, result.holds) == (1.0, True, (True,))
    assert result.intervals == (pytest.approx(0.15),)


def test_another_change_obtains_its_part_and_a_miss_costs() -> None:
    result = result_of(PAYING, answer("host", Change("remove_syncs", 5.0, 4.0, 6.0)))
    assert (result.gain_share, result.is_cause_right, result.holds) == (0.5, False, (False,))
    assert result.intervals == (pytest.approx((2.0 + 20.0 * 1.0) / 10.0),)


def test_of_several_changes_the_best_is_kept_and_each_range_counts() -> None:
    changes = (
        Change("tf32", 9.0, 8.0, 9.5),
        Change("remove_syncs", 7.0, 6.5, 7.5),
        Change("cuda_graph", 5.0, 4.5, 5.5),
    )
    result = result_of(PAYING, answer("launch", *changes))
    assert (result.gain_share, result.holds) == (1.0, (True, False))
    assert not result.is_untimed


def test_what_nobody_timed_and_no_answer_obtain_nothing() -> None:
    untimed = result_of(PAYING, answer("launch", Change("tf32", 1.0, 0.5, 1.5)))
    assert (untimed.gain_share, untimed.is_untimed) == (0.0, True)
    empty = result_of(PAYING, Answer())
    assert (empty.gain_share, empty.answered, empty.is_false_claim) == (0.0, False, False)
    nothing = result_of(PAYING, answer("launch"))
    assert (nothing.gain_share, nothing.answered, nothing.is_untimed) == (0.0, True, False)


def test_a_gain_that_the_stopwatch_did_not_read_is_a_false_claim() -> None:
    claimed = answer("launch", Change("tf32", 5.0), Change("cuda_graph", 6.0, 5.0, 7.0))
    assert result_of(GOOD, claimed).is_false_claim
    assert result_of(GOOD, answer("launch", Change("cuda_graph"))).is_false_claim
    modest = answer("launch", Change("cuda_graph", 9.8, 9.0, 10.0))
    assert not result_of(GOOD, modest).is_false_claim
    assert not result_of(GOOD, answer("compute")).is_false_claim


def test_a_planted_order_counts_where_there_is_one() -> None:
    ordered = Truth("loop", "test", 10.0, {"cuda_graph": 4.0}, planted=ORDERED)
    assert result_of(ordered, answer("launch", Change(ORDERED, 0.1))).followed_order
    assert result_of(ordered, answer("launch", Change("cuda_graph", 4.0))).followed_order is False
    assert result_of(PAYING, answer("launch", Change(ORDERED))).followed_order is None


def test_a_form_that_is_not_as_asked_is_named_and_counts_as_empty() -> None:
    assert answer_of(["no"]).problems == ("not a JSON object",)
    assert answer_of({"cause": " sync "}) == Answer("sync")
    found = answer_of({"changes": [{"remedy": 3}, {"remedy": "tf32", "step_ms": "4 ms"}]})
    assert found.changes == (Change("tf32"),)
    assert found.problems == ("a change has no remedy", "step_ms is no number")
    many = answer_of({"changes": [{"remedy": f"r{i}"} for i in range(5)]})
    assert [one.remedy for one in many.changes or ()] == ["r0", "r1", "r2"]


def test_a_task_is_built_answered_and_scored(tmp_path: Path) -> None:
    recording = tmp_path / "secret_name.base.json.gz"
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "pid": 0, "tid": 7}
    recording.write_bytes(gzip.compress(json.dumps({"traceEvents": [kernel]}).encode()))
    made = build([Source(PAYING, (recording,))], tmp_path / "out")
    plain, ordered = made
    tasks = tmp_path / "out" / "tasks"
    assert not any("secret" in path.name or "loop" in path.name for path in tasks.rglob("*"))
    assert truths_of(tmp_path / "out") == made
    texts = [gzip.decompress(path.read_bytes()).decode() for path in tasks.rglob("trace.json.gz")]
    assert sorted(f"remedy {ORDERED}" in text for text in texts) == [False, True]
    (tmp_path / "answers").mkdir()
    form = {"cause": "launch", "changes": [{"remedy": "cuda_graph", "step_ms": 4}]}
    (tmp_path / "answers" / f"{plain.task}.json").write_text(json.dumps(form))
    (tmp_path / "answers" / f"{ordered.task}.json").write_text("not JSON")
    text = summary(scored(made, answers_in(tmp_path / "answers")))
    assert "1 of 2 tasks answered" in text
    assert "50% of the best gain obtained, in 2 tasks" in text
    assert "0 of 1 planted orders followed" in text


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("straggler_input.base.rank1.json.gz", "trace.rank1.json.gz"),
        ("item_loop.base.sqlite.gz", "trace.sqlite.gz"),
        ("trace.rank0.json", "trace.rank0.json"),
        ("unprofiled.rank1.json", "unprofiled.rank1.json"),
    ],
)
def test_no_file_of_a_task_says_what_the_program_is(name: str, plain: str, tmp_path: Path) -> None:
    file = tmp_path / "slow_loader" / name
    file.parent.mkdir()
    file.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    for files in ((file,), (file.parent,)):
        out = tmp_path / f"of_{len(files[0].parts)}"
        build([Source(PAYING, files)], out)
        names = {path.name for path in (out / "tasks").rglob("recording/*")}
        assert names == {plain if files[0] is file else name}


def test_the_reference_takes_the_first_changes_that_promise_enough() -> None:
    def advice(remedy: str, step_ms: float | None, more_ms: float | None = None) -> dict:
        more = {"time_ms": more_ms, "low_ms": 1.0, "high_ms": 2.0, "speedup": 10.0 / (more_ms or 1)}
        return {
            "remedy": remedy,
            "predicted_step_ms": step_ms,
            "low_ms": step_ms,
            "high_ms": step_ms,
            "action": f"do {remedy}",
            "as_much_work": more if more_ms else None,
        }

    report = {
        "summary": {"bottleneck": "launch", "step_ms": 10.0},
        "recommendations": [
            advice("compile", None),
            advice("tf32", 9.8),
            advice("pad_shapes", 8.0),
            advice("pad_shapes", 8.5),
            advice("larger_batch", None, 2.0),
        ],
    }
    form = answer_from(report)
    assert [one["remedy"] for one in form["changes"]] == ["pad_shapes", "larger_batch"]
    assert [one["step_ms"] for one in form["changes"]] == [8.0, 2.0]
    assert form["place"] == "do pad_shapes"
    report["recommendations"] = []
    assert answer_from(report)["changes"] == []
