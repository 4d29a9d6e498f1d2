"""Arrays in, arrays out: intervals, nesting, grouping. Nothing here knows a trace."""

from traceanalyzer.analysis.algebra.blocks import RowNumbers, Rows, blockwise, blockwise_found, running_sums, scatter
from traceanalyzer.analysis.algebra.columns import Coded, coded, flat, flat_each, lean, run_lengths
from traceanalyzer.analysis.algebra.grouping import Groups, counts, mostly, sums
from traceanalyzer.analysis.algebra.intervals import (
    EMPTY,
    IntervalSet,
    clip,
    complement,
    contains,
    covered_before,
    intersect,
    join,
    measure,
    overlaps,
    shared_time,
    subtract,
    union,
)
from traceanalyzer.analysis.algebra.lookup import (
    Column,
    LookedUp,
    at,
    first_with,
    largest,
    look_up,
    one_of,
    places,
    robust_sigma,
    sorted_values,
    stable_order,
    stretch,
    texts_where,
    where,
    where_changed,
)
from traceanalyzer.analysis.algebra.nesting import Nesting, from_below, levels, nest, still_open

__all__ = [
    "EMPTY", "Coded", "Column", "Groups", "IntervalSet", "LookedUp", "Nesting", "RowNumbers", "Rows", "at",
    "blockwise", "blockwise_found", "clip", "coded", "complement", "contains", "counts", "covered_before",
    "first_with", "flat", "flat_each", "from_below", "intersect", "join", "largest", "lean", "levels", "look_up",
    "measure", "mostly", "nest", "one_of", "overlaps", "places", "robust_sigma", "run_lengths", "running_sums",
    "scatter", "shared_time", "sorted_values", "stable_order", "still_open", "stretch", "subtract", "sums",
    "texts_where", "union", "where", "where_changed",
]  # fmt: skip
