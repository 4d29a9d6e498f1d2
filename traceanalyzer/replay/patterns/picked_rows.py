"""Rows of a table in memory that a loader takes one by one and stacks."""

from traceanalyzer.base import regex
from traceanalyzer.replay.patterns.named import nodes_named, operators_named
from traceanalyzer.replay.tape import Tape

BATCH = regex(r"^enumerate\(DataLoader\)")
ROW = regex(r"^aten::select$")
STACKS = regex(r"^aten::stack$")
LEAST_ROWS = 128
"""In a batch: fewer take the host a millisecond or two."""
LONGEST_ROW_NS = 100_000
"""What a row takes at most, with the profiler: what takes longer is decoded or transformed."""


def rows_one_by_one(tape: Tape) -> int:
    """How many rows each tensor of a batch is stacked of, taken one by one; 0 where they are few, or
    what is done to each takes longer than taking it."""
    linked = tape.source.linked
    tree = linked.tree
    batches = nodes_named(linked, BATCH)
    inside = tree.innermost(batches) >= 0
    stacks = int((operators_named(linked, STACKS) & inside).sum())
    taken = int((operators_named(linked, ROW) & inside).sum())
    if not stacks or taken < LEAST_ROWS * stacks:
        return 0
    loading_ns = int((tree.end[batches] - tree.start[batches]).sum())
    return taken // stacks if loading_ns <= LONGEST_ROW_NS * taken else 0
