"""What is said of a switch's promise, by where the measured step lies."""

from __future__ import annotations

import pytest

from traceanalyzer.trials.answer import FASTER, NOTHING, Row
from traceanalyzer.trials.measured import StepsOfRuns
from traceanalyzer.trials.recording import Promise
from traceanalyzer.trials.words import outcome_clause


@pytest.mark.parametrize(
    ("measured_ms", "held", "outcome", "said"),
    [
        (7.0, True, FASTER, "1.43x, faster, as promised"),
        (5.0, False, FASTER, "2.00x, faster, better than promised"),
        (9.0, False, FASTER, "1.11x, faster, less than promised"),
        (10.0, False, NOTHING, "1.00x, no difference, not as promised"),
        (9.0, None, FASTER, "1.11x, faster"),
    ],
)
def test_a_promise_is_held_missed_or_surpassed(
    measured_ms: float, held: bool | None, outcome: str, said: str
) -> None:
    row = Row(
        "compile",
        "torch.compile",
        outcome,
        promised=Promise(7.0, 6.0, 8.0, "compile"),
        promise_held=held,
        base=StepsOfRuns(10.0, 9.9, 10.1),
        measured=StepsOfRuns(measured_ms, measured_ms, measured_ms),
    )
    assert outcome_clause(row) == said
