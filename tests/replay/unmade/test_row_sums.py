"""Gradients of a norm's weights: how long sums take whose rows are parted at other sizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from traceanalyzer.replay.unmade import row_sums
from traceanalyzer.replay.unmade.work import Loads, OpLoad


def test_sums_are_parted_from_64_k_rows_on_where_columns_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 96 columns in 3 blocks 50,176 rows take 196 us on an H200, four times as many 41 us."""
    ops = SimpleNamespace(blocks=np.array([3, 3, 3, 80]))
    linked = SimpleNamespace(gpus={0: SimpleNamespace(sms=132)})
    source = SimpleNamespace(trace=SimpleNamespace(device_ops=ops), linked=linked)
    tape: Any = SimpleNamespace(row=np.arange(4), source=source)
    monkeypatch.setattr(row_sums, "kernels_named", lambda *_: np.ones(4, bool))

    def load(*rows: int) -> OpLoad:
        elements = np.array(rows) * 2.0 * (32.0 * ops.blocks + 1.0)
        return OpLoad(elements, elements, elements)

    now = load(50_176, 12_544, 100_352, 50_176)
    then = load(200_704, 50_176, 401_408, 200_704)
    found = row_sums.parted_ns(tape, Loads(now, then, np.ones(4, bool)), np.full(4, 4.8e12))
    assert found[0] == pytest.approx(41e3, rel=0.02)
    # too few rows then, parted already, enough blocks
    assert np.isnan(found[1:]).all()
