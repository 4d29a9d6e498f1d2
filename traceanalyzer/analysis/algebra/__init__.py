"""Arrays in, arrays out: intervals, nesting, grouping. Nothing here knows a trace."""

from traceanalyzer.analysis.algebra.blocks import (
    RowNumbers,
    Rows,
    blockwise,
    blockwise_found,
    running_sums,
    scatter,
)
from traceanalyzer.analysis.algebra.columns import (
    Coded,
    compact,
    dedup_constant,
    dedup_each,
    dictionary_encoded,
    run_lengths,
)
from traceanalyzer.analysis.algebra.grouping import Groups, counts, sums, weighted_mode
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
    flatnonzero32,
    isin_few,
    largest,
    local_searchsorted,
    look_up,
    robust_sigma,
    rows_or_slice,
    sorted_values,
    stable_order,
    texts_where,
    where_changed,
)
from traceanalyzer.analysis.algebra.nesting import (
    Nesting,
    innermost_open_at,
    levels,
    levels_deepest_first,
    nest,
    subtree_ends,
)

__all__ = [
    "EMPTY",
    "Coded",
    "Column",
    "Groups",
    "IntervalSet",
    "LookedUp",
    "Nesting",
    "RowNumbers",
    "Rows",
    "at",
    "blockwise",
    "blockwise_found",
    "clip",
    "coded",
    "compact",
    "complement",
    "contains",
    "counts",
    "covered_before",
    "dedup_constant",
    "dedup_each",
    "dictionary_encoded",
    "first_with",
    "flat",
    "flat_each",
    "flatnonzero32",
    "from_below",
    "innermost_open_at",
    "intersect",
    "isin_few",
    "join",
    "largest",
    "lean",
    "levels",
    "levels_deepest_first",
    "local_searchsorted",
    "look_up",
    "measure",
    "mostly",
    "nest",
    "one_of",
    "overlaps",
    "places",
    "robust_sigma",
    "rows_or_slice",
    "run_lengths",
    "running_sums",
    "scatter",
    "shared_time",
    "sorted_values",
    "stable_order",
    "still_open",
    "stretch",
    "subtract",
    "subtree_ends",
    "sums",
    "texts_where",
    "union",
    "weighted_mode",
    "where",
    "where_changed",
]

lean = compact
flat = dedup_constant
flat_each = dedup_each
coded = dictionary_encoded
places = local_searchsorted
one_of = isin_few
where = flatnonzero32
stretch = rows_or_slice
mostly = weighted_mode
from_below = levels_deepest_first
still_open = innermost_open_at
