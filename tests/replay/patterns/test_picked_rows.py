"""Rows that a loader takes one by one out of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.diagnosis.remedies.data import data_loader_workers
from traceanalyzer.replay.patterns.picked_rows import takes_rows_one_by_one
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

ROWS = 200


def loaded(rows: int = ROWS, row_us: float = 10, *, stacked: bool = True) -> Measurements:
    """A step whose loader takes so many rows of each of two tensors."""

    def step(p: Program) -> None:
        start = p.now
        for _ in range(rows):
            for _ in range(2):
                within(p, "aten::select", lambda p: p.spend(row_us))
        for _ in range(2 * stacked):
            within(p, "aten::stack", lambda p: p.spend(row_us))
        p.spend(1)
        p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, p.now)
        p.spend(10).launch(GEMM, 100).sync()

    return program(step, 3)


def one_by_one(m: Measurements) -> bool:
    tape = make_tape(m.rated)
    assert tape is not None
    return takes_rows_one_by_one(tape)


def test_rows_are_to_be_taken_at_once() -> None:
    m = loaded()
    assert one_by_one(m)
    offer = data_loader_workers.offer(m)
    assert offer is not None
    assert "BatchSampler(RandomSampler(data), batch_size" in str(offer.action)


@pytest.mark.parametrize(
    "m",
    [loaded(rows=50), loaded(row_us=150), loaded(stacked=False)],
    ids=["few rows", "each is worked on", "not stacked"],
)
def test_other_loaders_get_workers(m: Measurements) -> None:
    assert not one_by_one(m)
    offer = data_loader_workers.offer(m)
    assert offer is not None
    assert "BatchSampler" not in str(offer.action)
