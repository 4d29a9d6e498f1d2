"""The verdict and the replay speak of one step: what is clearly the cause gains when it is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analyzed import measurements
from tests.diagnosis.test_figures_stay import _recordings
from traceanalyzer.diagnosis.classify import LEAST_GAIN, REMOVES
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.report.outline.opening import CLEAR

if TYPE_CHECKING:
    from pathlib import Path

NEAR_MS = 1e-6


@pytest.mark.parametrize(("name", "paths"), _recordings().items(), ids=_recordings())
def test_of_a_recording(name: str, paths: list[Path]) -> None:
    m = measurements(*paths).critical
    summary, replay = diagnose(m).summary, m.replay
    part = "device" if summary.bottleneck in ("compute", "memory") else summary.bottleneck
    if replay is None or not replay.faithful or part not in REMOVES:
        return
    gain = replay.gain_ms(REMOVES[part]) / replay.base_ms
    assert gain >= LEAST_GAIN or summary.confidence < CLEAR, name
    spent, waiting = m.step.budget, m.step.waiting
    assert spent is not None
    assert m.budget is not None
    assert spent.exposed_communication <= m.budget.exposed_communication + NEAR_MS
    if waiting is not None:
        assert -NEAR_MS <= waiting.total <= spent.exposed_communication + NEAR_MS
