"""Anomaly detection of autograd, left on: after each node of the backward pass the host reads whether
a gradient is NaN, and each operator of the forward pass keeps a stack of Python.

The checks are operators that autograd's engine calls beside a node's own."""

import numpy as np

from traceanalyzer.analysis.algebra import at
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.syncs.syncs import is_read
from traceanalyzer.replay.patterns.named import operators_named
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import Bool, distinct

NODE = regex(r"^autograd::engine::evaluate_function: (?!torch::autograd::AccumulateGrad)")
TEST = regex(r"^aten::isnan$")
CHECK = regex(r"^aten::(isnan|any|_is_any_true|item|is_nonzero)$")
LEAST_CHECKED = 0.5
"""Share of the backward pass's nodes that are checked: a program's own tests are of a few."""


def detects_anomalies(tape: Tape) -> bool:
    """Whether the backward pass is checked node by node."""
    linked = tape.source.linked
    nodes = operators_named(linked, NODE)
    tests = _called_by_engine(tape, operators_named(linked, TEST))
    checked = distinct(linked.tree.parent[np.flatnonzero(tests)])
    return len(checked) > 0 and len(checked) >= LEAST_CHECKED * int(nodes.sum())


def without_anomaly_detection(tape: Tape) -> Tape | None:
    """No node is checked, and what the host does between the launches of the forward pass, where it
    keeps stacks, is gone; None where nothing is checked."""
    found = without_checks(tape)
    if found is None:
        return None
    forward = ~tape.source.joined.in_backward[tape.nodes]
    kept = tape.events_of(~tape.in_backward & ~tape.in_optimizer) & forward
    usual_ns = tape.usual_dispatch_ns(tape.in_backward & ~_checks(tape))
    return found.without_work(kept).dispatch_at_most(kept, usual_ns)


def without_checks(tape: Tape) -> Tape | None:
    """No node is checked; the stacks are still kept."""
    if not detects_anomalies(tape):
        return None
    checks = _checks(tape)
    events = tape.events_of_only(checks) | (is_read(tape) & _within_checks(tape)[tape.nodes])
    return tape.without(checks).without_dispatch(events).without_work(events)


def _checks(tape: Tape) -> Bool:
    """Ops that checks launch."""
    return tape.of_launches(_within_checks(tape))


def _within_checks(tape: Tape) -> Bool:
    """Nodes of the host tree within a check."""
    linked = tape.source.linked
    calling = _called_by_engine(tape, operators_named(linked, CHECK))
    return linked.tree.innermost(calling) >= 0


def _called_by_engine(tape: Tape, nodes: Bool) -> Bool:
    """Which of these nodes of the host tree stand right below a node of the backward pass."""
    linked = tape.source.linked
    engine = operators_named(linked, NODE)
    chosen = np.flatnonzero(nodes)
    result = np.zeros(len(nodes), bool)
    result[chosen] = at(engine, linked.tree.parent[chosen], False)
    return result
