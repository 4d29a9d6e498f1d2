"""What tables say below their rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.analyzed import measurements
from tests.recorded import ROOT
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.report.table_entries.rows import syncs


@pytest.mark.parametrize(("sample", "told"), [("changing_shapes", True), ("sync_bound", False)])
def test_waits_name_calls_that_allocate_where_these_take_long(sample: str, told: bool) -> None:
    asked: Any = SimpleNamespace(measured=measurements(ROOT / "sample_traces" / sample))
    remarks = syncs(asked, RowFilter()).remarks
    assert bool(remarks) == told
    assert all("allocate or free memory" in one for one in remarks)
