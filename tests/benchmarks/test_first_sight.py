"""Scores of promises: which are right, which false."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.first_sight import as_markdown, score_of, scores, sealed_reports

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def report(promised_ms: float, low_ms: float, high_ms: float) -> dict[str, Any]:
    advice = {
        "remedy": "compile",
        "predicted_step_ms": promised_ms,
        "low_ms": low_ms,
        "high_ms": high_ms,
    }
    return {"summary": {"step_ms": 10.0}, "recommendations": [advice]}


@pytest.mark.parametrize(
    ("fixed_ms", "right"), [(5.0, True), (7.0, True), (6.8, True), (4.2, False)]
)
def test_a_promise_is_right_within_its_range_or_close(fixed_ms: float, right: bool) -> None:
    score = score_of("a", "compile", 10.0, fixed_ms, report(6.0, 5.0, 6.5))
    assert score.pays
    assert score.is_right == right


def test_a_larger_batch_is_promised_for_the_samples_of_today() -> None:
    advice = report(6.0, 5.0, 6.5)["recommendations"][0]
    advice |= {"predicted_step_ms": None, "low_ms": None, "high_ms": None}
    advice |= {"as_much_work": {"time_ms": 2.0, "low_ms": 1.5, "high_ms": 3.0, "speedup": 5.0}}
    said = {"summary": {"step_ms": 10.0}, "recommendations": [advice]}
    score = score_of("a", "compile", 10.0, 2.8, said)
    assert (score.promised_ms, score.holds, score.is_right) == (2.0, True, True)
    assert not score_of("a", "compile", 10.0, 4.0, said).is_right


def test_a_gain_that_is_not_there_is_false() -> None:
    promised = score_of("a", "compile", 10.0, 9.9, report(6.0, 5.0, 6.5))
    silent = score_of("a", "tf32", 10.0, 9.9, report(6.0, 5.0, 6.5))
    assert (promised.is_false, promised.is_right) == (True, False)
    assert (silent.is_false, silent.is_right) == (False, True)


def test_totals_count_what_pays_and_what_does_not() -> None:
    timed = {
        "a": {"remedy": "compile", "base_ms": [10.0, 10.2, 9.9], "fix_ms": [5.5, 5.6, 5.4]},
        "b": {"base_ms": [10.0], "compile_ms": [10.1], "tf32_ms": [10.0]},
    }
    found = scores(timed, dict.fromkeys(timed, report(6.0, 5.0, 6.5)))
    text = as_markdown(found)
    assert "1 of 1 remedies that pay" in text
    assert "1 promises are right; 1 of 1 ranges hold; 1 of 2 remedies" in text
    assert "| b* | compile | 10 → 10.1 | +0% | 1 | 6 (5 to 6.5) | **no** |" in text


@pytest.mark.parametrize(
    ("name", "among", "right", "ranges", "false"),
    [
        ("ninth", "8 of 11", 5, "5 of 8", "0 of 3"),
        ("ninth_rest", "9 of 10", 9, "8 of 9", "0 of 3"),
        ("tenth", "14 of 21", 13, "13 of 14", "0 of 7"),
        ("fourteenth", "8 of 14", 7, "7 of 8", "0 of 6"),
        ("fifteenth", "16 of 16", 15, "15 of 16", "0 of 6"),
        ("sixteenth", "11 of 18", 10, "10 of 11", "0 of 6"),
        ("seventeenth", "11 of 19", 9, "10 of 11", "1 of 4"),
        ("eighteenth", "9 of 16", 6, "6 of 9", "0 of 7"),
    ],
)
def test_sealed_sets_are_what_was_sealed_and_score_as_the_page_says(
    name: str, among: str, right: int, ranges: str, false: str
) -> None:
    folder = BENCHMARKS / name
    timed = json.loads((folder / "pairs.json").read_text())
    text = as_markdown(scores(timed, sealed_reports(folder)))
    assert text.startswith(
        f"{among} remedies that pay are among the first three; {right} promises are right; "
        f"{ranges} ranges hold; {false} remedies"
    )
