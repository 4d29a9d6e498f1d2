"""Scores of promises: which are right, which false."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.first_sight import as_markdown, score_of, scores


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
