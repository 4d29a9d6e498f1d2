"""Changes and the ideals that they are part of: none leads to a shorter step."""

from __future__ import annotations

import pytest

from tests.analyzed import measurements
from tests.recorded import ranks
from traceanalyzer.diagnosis.remedies.advice import predictions_of
from traceanalyzer.replay.prediction import Prediction


def scenarios(name: str) -> dict[str, Prediction]:
    found = predictions_of(measurements(*ranks(name)).critical)
    return {one.id: one for one in found.scenarios if one.step_ms is not None}


@pytest.mark.parametrize(
    ("name", "change", "ideal"),
    [
        ("kineto/slow_dataloader.base", "data_loader_workers", "input_ready"),
        ("ranks2/straggler.base", "fix_straggler", "no_straggler"),
        ("ablations/straggler_compute.base", "fix_straggler", "no_straggler"),
    ],
)
def test_a_change_ends_within_its_ideal(name: str, change: str, ideal: str) -> None:
    known = scenarios(name)
    made, best = known[change], known[ideal]
    assert made.step_ms is not None
    assert best.step_ms is not None
    assert best.step_ms <= made.step_ms
    assert (made.low_ms or 0.0) >= min(best.low_ms or 0.0, made.step_ms)
