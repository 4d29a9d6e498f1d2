"""What is known of an event of the timeline beyond its name and times, in lines for its details."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.joined.attribution import owner_nodes
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.cut import cut
from traceanalyzer.report.format import figure

if TYPE_CHECKING:
    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.trace import I64

MAX_LINE = 200
"""Characters: shapes of fused optimizers name hundreds of tensors."""
MAX_OUTER = 3
"""Operators and annotations around an event that are named."""
STACKS = 1_000
"""Events whose line of Python is looked up; each costs a search."""


def device_facts(m: Measurements, rows: I64) -> list[list[str]]:
    """Of device ops (rows): who launched them, with which inputs, and how fast they could be."""
    operator = owner_nodes(m, m.launch_node[rows])
    return [
        [*_around(m, node), *_launched(m, row), *_work(m, row)]
        for row, node in zip(rows.tolist(), operator.tolist(), strict=True)
    ]


def host_facts(m: Measurements, nodes: I64) -> list[list[str]]:
    """Of nodes of the host tree: their inputs, and the line of Python they come from."""
    lines = _lines(m, nodes)
    return [[*_inputs(m, node), *lines.get(node, [])] for node in nodes.tolist()]


def _around(m: Measurements, node: int) -> list[str]:
    """The operators and annotations around a node, innermost last, and the inputs of the innermost."""
    tree, at = m.tree, node
    names: list[str] = []
    while at >= 0 and len(names) < MAX_OUTER:
        if not tree.is_call[at]:
            names.append(m.trace.text(int(m.trace.host_ranges.name[tree.row[at]])) or "?")
        at = int(tree.parent[at])
    return [f"in {cut(' > '.join(reversed(names)), MAX_LINE)}", *_inputs(m, node)] if names else []


def _inputs(m: Measurements, node: int) -> list[str]:
    if node < 0 or m.tree.is_call[node]:
        return []
    ranges, row = m.trace.host_ranges, m.tree.row[node]
    return m.once(_Inputs)[int(ranges.shapes[row]), int(ranges.dtypes[row])]


class _Inputs(dict[tuple[int, int], list[str]]):
    """Lines about inputs by the codes of their shapes and types: many events have the same."""

    def __init__(self, m: Measurements) -> None:
        super().__init__()
        self._text = m.trace.text

    def __missing__(self, codes: tuple[int, int]) -> list[str]:
        said = zip(("shapes", "types"), map(self._text, codes), strict=True)
        self[codes] = [f"{what} {cut(text, MAX_LINE)}" for what, text in said if text and text.strip("[]")]
        return self[codes]


def _launched(m: Measurements, row: int) -> list[str]:
    ops = m.trace.device_ops
    if ops.blocks[row] <= 0:
        return [f"{figure(int(ops.bytes[row]), 'bytes')}"] if ops.bytes[row] > 0 else []
    grid = f"{ops.blocks[row]:,} blocks of {ops.threads[row]} threads"
    return [grid + (f", {ops.registers[row]} registers each" if ops.registers[row] > 0 else "")]


def _work(m: Measurements, row: int) -> list[str]:
    """What limits it, and the least time that the GPU needs for it."""
    if not m.is_kernel[row]:
        return []
    of, bound = m.roofline, Bound(int(m.roofline.bound[row]))
    limited = "" if bound == Bound.UNKNOWN else f"limited by {bound.name.lower()}"
    least = of.attainable[row]
    reach = f"could take {figure(float(least), 'ns')} at the GPU's limits" if np.isfinite(least) else ""
    said = ", ".join(text for text in (limited, reach) if text)
    return [said] if said else []


def _lines(m: Measurements, nodes: I64) -> dict[int, list[str]]:
    """The line of Python that each node comes from; of the longest ones, where stacks were recorded."""
    if not len(m.python.start):
        return {}
    length = m.tree.end[nodes] - m.tree.start[nodes]
    chosen = nodes[np.argsort(-length, kind="stable")[:STACKS]].tolist()
    found = {node: m.python.source_line(int(m.tree.thread[node]), int(m.tree.start[node])) for node in chosen}
    return {node: [f"at {cut(line, MAX_LINE)}"] for node, line in found.items() if line}
