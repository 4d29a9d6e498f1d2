"""What is said of a switch's promise, by where the measured step lies."""

from __future__ import annotations

import pytest

from traceanalyzer.trials.answer import FASTER, NOTHING, Answer, Row, to_json
from traceanalyzer.trials.measured import StepsOfRuns
from traceanalyzer.trials.recording import Promise
from traceanalyzer.trials.words import headline_of_trials, outcome_clause, screen


@pytest.mark.parametrize(
    ("measured_ms", "held", "outcome", "said"),
    [
        (7.0, True, FASTER, "7 ms, faster, as promised"),
        (5.0, False, FASTER, "5 ms, faster, better than promised"),
        (9.0, False, FASTER, "9 ms, faster, less than promised"),
        (10.0, False, NOTHING, "10 ms, no difference, not as promised"),
        (9.0, None, FASTER, "9 ms, faster"),
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


@pytest.mark.parametrize(
    ("base", "step", "said"),
    [
        ((10.0, 9.9, 10.1), (5.0, 4.9, 5.1), "2.00x faster (1.94 to 2.06x): 10 ms (9.9 to 10.1)"),
        ((147.0, 64.0, 226.0), (24.3, 24.0, 25.0), "2.56 to 9.42x faster: 147 ms"),
        ((12.0, 8.0, 16.0), (7.0, 6.0, 9.0), "Faster in turns with compile, but this host cannot"),
    ],
)
def test_the_headline_is_against_the_base_of_all_rows(
    base: tuple[float, float, float], step: tuple[float, float, float], said: str
) -> None:
    best = StepsOfRuns(*step)
    row = Row("compile", "torch.compile", FASTER, base=StepsOfRuns(*base), measured=best, runs=2)
    answer = Answer(
        "python train.py",
        "backward",
        StepsOfRuns(*base),
        0,
        [row],
        best=("compile",),
        best_step=best,
        best_runs=2,
    )
    assert headline_of_trials(answer).startswith(said)
    values = to_json(answer)
    assert values["best_base"] == values["base"] == values["switches"][0]["base"]
    unchanged, compiled = screen(answer).splitlines()[3:5]
    assert unchanged.split()[:2] == ["(unchanged)", "-"]
    assert f"{base[0] / step[0]:.2f}x" in compiled


def test_where_runs_of_one_program_differ_a_switch_has_no_single_speedup() -> None:
    base = StepsOfRuns(389.0, 166.0, 612.0)
    row = Row("loader_workers", "", NOTHING, base=base, measured=StepsOfRuns(215.0, 215.0, 215.0))
    answer = Answer("python train.py", "backward", base, 0, [row])
    assert "0.77 to 2.85x" in screen(answer)
    assert "1.81x" not in screen(answer)
    assert "x," not in outcome_clause(row), "most runs without it are still to come"
