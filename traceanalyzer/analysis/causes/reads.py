"""Operators whose only purpose is to bring a value to the host."""

from traceanalyzer.analysis.algebra.intervals import IntervalSet, union
from traceanalyzer.analysis.algebra.lookup import texts_where
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.trace import RangeKind

READS = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"})
"""Without the read these operators are gone, too."""


def read_ranges(linked: Linked) -> IntervalSet:
    """When the host is in operators that exist only to bring a value to it."""
    ranges = linked.trace.host_ranges
    rows = texts_where(linked.trace.strings, READS.__contains__)[ranges.name] & (ranges.kind == RangeKind.OP)
    return union(ranges.start[rows], ranges.end[rows])
