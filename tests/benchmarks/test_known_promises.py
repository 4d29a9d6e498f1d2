"""Promises about the programs of a review: what counts as the change that was timed, and as near."""

from __future__ import annotations

from benchmarks.first_sight import score_of
from benchmarks.known_promises import accepted, is_near


def test_what_stays_on_the_gpu_is_waited_for_by_nobody() -> None:
    assert accepted({"remedies_expected": ["keep_on_device"]}) == [
        "keep_on_device",
        "remove_syncs",
    ]
    assert accepted({"remedies_expected": ["tf32"]}) == ["tf32"]


def test_a_promise_is_near_by_what_was_gained() -> None:
    advice = {"remedy": "compile", "predicted_step_ms": 4.0, "low_ms": 1.0, "high_ms": 8.0}
    report = {"summary": {"step_ms": 10.0}, "recommendations": [advice]}
    assert is_near(score_of("a", "compile", 10.0, 3.0, report))
    assert not is_near(score_of("a", "compile", 10.0, 2.0, report))
    assert not is_near(score_of("a", "tf32", 10.0, 3.0, report))
