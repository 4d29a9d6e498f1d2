"""The page on accuracy is about the recordings that there are."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import ABLATIONS, PAGE, Recording, error, labelled, samples, scenario_of
from benchmarks.calibration import SHARES, Sensitivity, cross_validated
from tests.recorded import RECORDINGS
from traceanalyzer.replay.scenarios import SCENARIOS


def recordings() -> list[Recording]:
    return [*(r for folder in (RECORDINGS, ABLATIONS) for r in labelled(folder)), *samples()]


def test_the_page_has_every_labelled_recording() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [r.name for r in recordings() if f"| {r.name} |" not in page]
    assert not missing, "python -m benchmarks.accuracy --markdown"


def test_every_pair_has_a_scenario_that_there_is() -> None:
    for recording in recordings():
        if recording.removes is not None and recording.without:
            assert scenario_of(recording.removes).basis
    assert scenario_of("input_ready+copies_hidden").parts
    assert scenario_of(SCENARIOS[0].id) is SCENARIOS[0]


def test_an_error_counts_from_the_nearest_round() -> None:
    assert error(1.2, [1.0, 1.5]) == 0
    assert error(2.0, [1.0, 1.6]) == pytest.approx(0.25)
    assert error(0.9, [1.0, 1.6]) == pytest.approx(-0.1)


def host_bound(name: str, share: float) -> Sensitivity:
    return Sensitivity(name, name, tuple((10 * SHARES).tolist()), (10 * share,), False, 0.1, 0.02)


def test_a_program_is_held_against_a_model_of_the_others() -> None:
    known = [host_bound("a", 0.6), host_bound("b", 0.7), host_bound("c", 0.9)]
    assert all(s.host_bound for s in known)
    assert known[0].share == pytest.approx(0.6)
    one_share, costs = cross_validated(known)
    assert one_share.shares == pytest.approx({"a": 0.8, "b": 0.75, "c": 0.65})
    assert one_share.calibrated == "0.70"
    assert set(costs.shares) == {"a", "b", "c"}
