"""What is around a tape's events is what the whole host tree says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.replay.tape import Around

NAMES = ("aten::mm", "aten::linear", "loss")
INTERVALS = st.tuples(st.integers(0, 40), st.integers(1, 30), st.sampled_from(NAMES), st.integers(0, 1), st.booleans())


@given(st.lists(INTERVALS, min_size=1, max_size=30), st.data())
def test_as_the_whole_tree(intervals, data):
    made = TraceBuilder().call("cudaLaunchKernel", 0, 1)
    for start, length, name, thread, is_call in intervals:
        (made.call if is_call else made.op)(name, start, start + length, thread=thread)
    trace = made.build()
    tree = HostTree.build(trace)
    calls = data.draw(st.lists(st.integers(0, len(trace.api_calls) - 1), max_size=10))
    node = tree.node_of_call[calls].astype(np.int64)
    around = Around.of(tree, node)
    names = np.array([text == NAMES[0] for text in trace.strings] + [False])
    expected = tree.innermost(tree.named(names))[node] >= 0
    assert around.inside(names[around.name]).tolist() == expected.tolist()
    assert (around.row[around.event] == -1).all()
