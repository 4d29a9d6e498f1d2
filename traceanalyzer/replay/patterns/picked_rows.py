"""Rows of a table in memory that a loader takes one by one and stacks."""

from traceanalyzer.analysis.tables.throughput import LOADER_RANGE
from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import nodes_named, operators_named
from traceanalyzer.replay.tape import Tape

ROW = regex(r"^aten::select$")
STACKS = regex(r"^aten::stack$")
LEAST_ROWS = 128
"""In a batch: fewer take the host a millisecond or two."""
LONGEST_ROW_NS = 100_000
"""What a row takes at most, with the profiler: what takes longer is decoded or transformed."""


def takes_rows_one_by_one(tape: Tape) -> bool:
    """Whether the tensors of a batch are stacked of many rows, and what is done to each takes no longer
    than taking it. How many rows a batch has is not told: some take several operators each."""
    linked = tape.source.linked
    tree = linked.tree
    batches = nodes_named(linked, LOADER_RANGE)
    inside = tree.innermost(batches) >= 0
    stacks = int((operators_named(linked, STACKS) & inside).sum())
    taken = int((operators_named(linked, ROW) & inside).sum())
    if not stacks or taken < LEAST_ROWS * stacks:
        return False
    loading_ns = int((tree.end[batches] - tree.start[batches]).sum())
    return loading_ns <= LONGEST_ROW_NS * taken
