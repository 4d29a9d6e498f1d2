"""Two servers at like batches."""

from __future__ import annotations

import pytest

from tests.server_builder import Server
from traceanalyzer.comparison.side_by_side.by_row import batch_changes
from traceanalyzer.diagnosis.measurements import measure

WORK = [(500, 3, 900), *[(0, 4, 1000)] * 3, *[(0, 8, 2000)] * 3]


def test_like_batches_of_two_servers() -> None:
    eager, graphs = (measure(Server(graphs=of).recorded(WORK)).iterations for of in (False, True))
    other = measure(Server().recorded(WORK[:4])).iterations
    rows = batch_changes(eager, graphs)
    assert [(row.phase, row.requests) for row in rows] == [
        ("decode", 4),
        ("decode", 8),
        ("mixed", 4),
    ]
    decode = rows[0]
    assert (decode.a_launches, decode.b_launches) == (40, 1)
    assert (decode.a_ops, decode.b_ops) == (42, 42)
    assert decode.a_busy_ms == pytest.approx(decode.b_busy_ms, rel=0.01)
    assert decode.a_ms is not None
    assert decode.b_ms is not None
    assert decode.a_ms > decode.b_ms
    assert decode.a_launch_us == pytest.approx(45 * 2, rel=0.05)
    assert [(row.phase, row.requests) for row in batch_changes(eager, other)] == [
        ("decode", 4),
        ("mixed", 4),
    ]
    assert batch_changes(eager, []) == []
