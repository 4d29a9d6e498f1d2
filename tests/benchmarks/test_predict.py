"""Sealed predictions as rows, and ranges made of the other programs' errors."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from benchmarks.predict.ranges import error_of, spread_for, study, tail_of
from benchmarks.predict.score import Case, as_csv, cases, from_csv, printed

CASE = Case("a", "64", "batch", False, 10.0, 20.0, 8.0, 7.0, 11.0, "", "host", 1.0)
RESULT = {
    "program": "a",
    "gpu": "NVIDIA H100",
    "held_out": False,
    "other": "",
    "base": {"setting": "32", "rounds_ms": [10.0]},
    "predictions": [
        {
            "setting": "64",
            "asked": {"batch": "64"},
            "step_ms": 15.0,
            "low_ms": 14.0,
            "high_ms": 17.0,
            "bottleneck": "GPU compute: matrix kernels take 80% of its time",
        },
        {"setting": "32@H200", "asked": {"gpu": "H200 SXM"}, "step_ms": 9.0, "bottleneck": "input"},
    ],
    "timed": {"64": {"rounds_ms": [16.0], "base_ms": [12.0], "host_ms": 15.0}},
}


def test_rows_are_read_as_they_were_written(tmp_path):
    refused = replace(CASE, step_ms=None, refused="no shapes, or none that scale")
    assert from_csv(as_csv([CASE, refused])) == [CASE, refused]


def test_a_case_knows_what_sets_the_pace_and_how_far_it_is(tmp_path):
    there = RESULT | {"gpu": "NVIDIA H200", "base": {"setting": "32", "rounds_ms": [8.0]}}
    for name, row in (("h100", RESULT), ("h200", there)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.jsonl").write_text(json.dumps(row))
    larger, gpu, *_ = cases([tmp_path / "h100", tmp_path / "h200"])
    assert (larger.pace, larger.doublings, larger.naive_ms) == ("gpu", 1.0, 20.0)
    assert (gpu.kind, gpu.pace, gpu.true_ms, gpu.naive_ms) == ("gpu", "host", 8.0, 10.0)
    # the host issued it for 15 of 16 ms, and was slower than the recorded one by 12 to 10
    assert larger.true_ms == 16.0
    assert larger.on_recorded_host.true_ms == pytest.approx(16.0 * 10 / 12)
    assert replace(larger, host_ms=4.0).on_recorded_host.true_ms == 16.0
    text = printed([tmp_path / "h100", tmp_path / "h200"])
    # 9 promised of 8, and no change would be 10
    assert (
        "changes the step by over 5%: 1 cases, 0 refused; median error 12.5% (naive 25.0%)" in text
    )


def test_more_ranks_are_held_against_the_same_program_on_so_many(tmp_path):
    asked = {"setting": "32.2ranks", "asked": {"ranks": "2"}, "step_ms": 12.0, "bottleneck": "GPU"}
    one = RESULT | {"other": "b", "predictions": [asked], "timed": {}}
    timed = {"32.2ranks": {"rounds_ms": [11.0, 12.5, 13.0]}}
    two = RESULT | {"program": "b", "predictions": [], "timed": timed}
    (tmp_path / "results.jsonl").write_text(f"{json.dumps(one)}\n{json.dumps(two)}\n")
    (case,) = cases([tmp_path])
    assert (case.kind, case.true_ms, case.naive_ms, case.doublings) == ("ranks", 12.5, 10.0, 0.0)


def test_a_range_is_made_of_the_other_programs_errors():
    assert error_of(CASE) == pytest.approx(math.log(10 / 8))
    assert error_of(replace(CASE, true_ms=5.0, step_ms=10.0)) == pytest.approx(math.log(2))
    assert tail_of([0.1 * n for n in range(1, 20)]) == pytest.approx(1.8)
    near = [replace(CASE, program=f"near{n}", true_ms=8.8) for n in range(11)]
    far = [replace(CASE, program=f"far{n}", pace="gpu", true_ms=16.0) for n in range(11)]
    assert spread_for(CASE, [*near, *far]) == pytest.approx(math.log(1.1))
    # of a kind without ten others all with its pace are taken
    assert spread_for(replace(CASE, kind="length"), [*near, *far]) == pytest.approx(math.log(1.1))
    rows = study([*near, *far]).splitlines()
    assert rows[2] == "| all (22) | 50% | 50% | 100% | 85% |"
