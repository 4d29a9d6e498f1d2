"""The verdict and the replay speak of one step: what is clearly the cause gains when it is
removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analyzed import loaded, measurements
from tests.diagnosis.test_figures_stay import _recordings
from traceanalyzer.diagnosis.classify import LEAST_GAIN, REMOVES
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.report.outline.opening import CLEAR

if TYPE_CHECKING:
    from pathlib import Path

NEAR_MS = 1e-6


@pytest.mark.parametrize(("name", "paths"), _recordings().items(), ids=_recordings())
def test_of_a_recording(name: str, paths: list[Path]) -> None:
    m = measurements(*paths).critical
    summary = diagnose(m).summary
    replay = m.replay
    part = "device" if summary.bottleneck in ("compute", "memory") else summary.bottleneck
    if replay is None or not replay.faithful or part not in REMOVES:
        return
    gain = replay.gain_ms(REMOVES[part]) / replay.base_ms
    assert gain >= LEAST_GAIN or summary.confidence < CLEAR, name
    spent = m.step.budget
    waiting = m.step.waiting
    assert spent is not None
    assert m.budget is not None
    assert spent.exposed_communication <= m.budget.exposed_communication + NEAR_MS
    if waiting is not None:
        assert -NEAR_MS <= waiting.total <= spent.exposed_communication + NEAR_MS


@pytest.mark.parametrize(
    ("name", "step", "holds_up"),
    [
        ("sample.tensor_parallel", None, False),
        ("sample.tensor_parallel", 1, True),
        ("sample.straggler", None, True),
    ],
)
def test_a_rank_holds_up_the_others_where_the_replay_gains_without_it(
    name: str, step: int | None, holds_up: bool
) -> None:
    """Each has a rank that came late as recorded; of the first one only the profiler's cost is
    late, which one of its steps alone does not tell."""
    m = measured(loaded(*_recordings()[name]), Selection(step=step)).critical
    assert m.ranks is not None
    assert len(m.ranks.late) == 1
    assert any(finding.id == "straggler" for finding in diagnose(m).findings) is holds_up
