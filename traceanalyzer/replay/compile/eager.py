"""Operators that run eager in the step, outside of compiled code."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base.figures import NS_PER_MS
from traceanalyzer.replay.compile.model import EagerRow
from traceanalyzer.replay.compile.traced import Traced
from traceanalyzer.trace import I32, I64, Bool, RangeKind

MAX_EAGER = 20
"""Eager operators that are listed."""
OPTIMIZER = "Optimizer.step#"
BACKWARD = "autograd::engine::evaluate_function"


def eager_operators(traced: Traced) -> list[EagerRow]:
    """Operators outside of compiled code that have GPU work in the steady step, those with most first."""
    rated, code = traced.rated, traced.code
    ops, tree = rated.trace.device_ops, rated.linked.tree
    chosen = np.flatnonzero(traced.steady & ~code.is_compiled & (code.launched_at >= 0))
    if not len(chosen):
        return []
    names = _names_of_nodes(rated)
    operator = tree.outermost(_operators(rated))[code.launched_at[chosen]]
    where = _where(traced, chosen)
    time: dict[tuple[str, str], float] = defaultdict(float)
    nodes: dict[tuple[str, str], set[int]] = defaultdict(set)
    for op, node, place in zip(chosen.tolist(), operator.tolist(), where, strict=True):
        key = (names[node] if node >= 0 else "no operator", place)
        time[key] += float(ops.end[op] - ops.start[op])
        nodes[key].add(node)
    rows = [
        EagerRow(name, traced.per_step(len(nodes[name, place])), traced.per_step(spent) / NS_PER_MS, place)
        for (name, place), spent in time.items()
    ]
    return sorted(rows, key=lambda row: -row.gpu_ms)[:MAX_EAGER]


def _operators(rated: Rated) -> Bool:
    """Which nodes are operators of the program: not regions and not what the autograd engine puts around them."""
    plain = np.array([_is_operator(text) for text in [*rated.trace.strings, ""]])
    tree = rated.linked.tree
    result: Bool = tree.kind == RangeKind.OP
    result[result] = plain[rated.trace.host_ranges.name[tree.row[result]]]
    return result


def _is_operator(text: str) -> bool:
    return not text.startswith(("Torch-Compiled", BACKWARD, "## Call", "CompiledFunction", "Optimizer", "ProfilerStep"))


def _names_of_nodes(rated: Rated) -> dict[int, str]:
    tree, ranges = rated.linked.tree, rated.trace.host_ranges
    nodes = np.flatnonzero(tree.kind == RangeKind.OP)
    return {int(n): rated.trace.strings[ranges.name[tree.row[n]]] for n in nodes.tolist()}


def _where(traced: Traced, chosen: I64) -> list[str]:
    """What each of these device ops was launched for: optimizer, backward, between compiled regions, or the rest."""
    rated, code = traced.rated, traced.code
    at = code.launched_at[chosen]
    optimizer = _inside(rated, OPTIMIZER, at)
    backward = _inside(rated, BACKWARD, at)
    inside = code.region_of_op[chosen] >= 0
    return [
        "optimizer" if o else "backward" if b else "in a compiled function" if i else "rest"
        for o, b, i in zip(optimizer.tolist(), backward.tolist(), inside.tolist(), strict=True)
    ]


def _inside(rated: Rated, prefix: str, at: I32 | I64) -> Bool:
    tree, ranges = rated.linked.tree, rated.trace.host_ranges
    named = np.array([text.startswith(prefix) for text in [*rated.trace.strings, ""]])
    chosen = np.zeros(len(tree.start), bool)
    rows = np.flatnonzero(~tree.is_call)
    chosen[rows] = named[ranges.name[tree.row[rows]]]
    return tree.innermost(chosen)[at] >= 0
