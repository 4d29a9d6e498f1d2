"""Two captures with snapshots: memory by line, where both reports list the line."""

from __future__ import annotations

from traceanalyzer.analysis.memory.measure import Site
from traceanalyzer.comparison.compare import _memory
from traceanalyzer.report.model import TOP_ROWS


def site(name: str, size: int) -> Site:
    return Site(name, "activations", "forward", size, 1)


def test_lines_that_differ_come_by_size() -> None:
    a = [site("a.py:1 f", 100), site("b.py:1 f", 50), site("c.py:1 f", 7)]
    b = [site("a.py:1 f", 130), site("b.py:1 f", 50), site("d.py:1 f", 300)]
    found = [(line.site, line.bytes, line.other_bytes, line.change_bytes) for line in _memory(a, b)]
    assert found == [("d.py:1 f", 0, 300, 300), ("a.py:1 f", 100, 130, 30), ("c.py:1 f", 7, 0, -7)]


def test_a_line_that_the_other_report_may_have_cut_off_is_left_out() -> None:
    """The other table ends at 1,000 bytes: a line of 900 may be below its end."""
    full = [site(f"x.py:{k} f", 1000) for k in range(TOP_ROWS)]
    found = _memory([*full, site("small.py:1 f", 900), site("large.py:1 f", 2000)], full)
    assert [line.site for line in found] == ["large.py:1 f"]


def test_without_a_snapshot_on_both_sides_there_are_none() -> None:
    assert _memory([site("a.py:1 f", 100)], []) == []
