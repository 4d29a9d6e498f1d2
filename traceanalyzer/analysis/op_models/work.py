"""Models applied to the recorded operators of a trace, each distinct call once; which row stands for which work.

Recorded operators are nested (`aten::linear` calls `aten::addmm`), so a model of each must not count the work
twice. Models of operators that do the work come first: of several nested ones the outermost describes it whole
(`aten::_scaled_dot_product_flash_attention` around `aten::_flash_attention_forward`). Models of operators that
usually call others (`aten::linear`) are only used where nothing beneath them is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.ancestors import outermost
from traceanalyzer.analysis.attribution import launch_nodes
from traceanalyzer.analysis.grouping import Groups
from traceanalyzer.analysis.op_models.call import Call, Link, UnmodelledError, Work
from traceanalyzer.analysis.op_models.tensors import NAN, parse_inputs, parse_values
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from traceanalyzer.analysis.context import Context
    from traceanalyzer.trace import F64, I64, Bool, Trace

    Model = Callable[[Call], Work]

UNMODELLED = Work(NAN, NAN)


@dataclass(frozen=True, eq=False)
class OpWork:
    """What recorded operators have to do at least. Arrays are aligned with rows of the trace's tables."""

    flops: F64
    """For each host range its floating-point operations (a multiply-add is two), NaN where unmodelled."""
    bytes: F64
    """For each host range its least DRAM traffic (of collectives: bytes over the link), NaN where unmodelled."""
    precision: NDArray[np.int8]
    """For each host range the `Precision` it calculates in."""
    counts: Bool
    """Which host ranges stand for work: figures of these rows may be added up, nothing is counted twice."""
    of_device_op: I64
    """For each device op the host range whose work it is part of, -1 where no model describes it."""


@dataclass(frozen=True)
class Models:
    """The models by operator name."""

    working: dict[str, Model]
    """Operators that do the work themselves, or whose children do just what the model says."""
    composite: dict[str, Model]
    """Operators that call others which have models; used where none of those was recorded."""
    prefixes: dict[str, Model]
    """Working operators whose names are made up as the program is compiled, by how these begin."""

    def find(self, name: str) -> tuple[Model | None, bool]:
        """The model of an operator and whether it is composite; an in-place variant has that of its namesake."""
        for key in (name, name.removesuffix("_")):
            if key in self.working:
                return self.working[key], False
            if key in self.composite:
                return self.composite[key], True
        return next((m for prefix, m in self.prefixes.items() if name.startswith(prefix)), None), False


def apply_models(ctx: Context, models: Models) -> OpWork:
    """Model every recorded operator that `models` knows."""
    ranges, count = ctx.trace.host_ranges, len(ctx.trace.host_ranges)
    flops, traffic, precision = np.full(count, NAN), np.full(count, NAN), np.zeros(count, np.int8)
    composite = np.zeros(count, np.bool_)
    found = _models_of_names(ctx.trace, models)
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & np.isin(ranges.name, list(found)) & (ranges.shapes >= 0))
    groups = _distinct_calls(ctx.trace, rows)
    work = [_work(ctx.trace, int(row), found[int(ranges.name[row])][0]) for row in rows[groups.first]]
    for values, column in ((flops, 0), (traffic, 1), (precision, 2)):
        values[rows] = np.array([w[column] for w in work], values.dtype)[groups.index]
    composite[rows] = np.array([found[int(code)][1] for code in ranges.name[rows]], np.bool_)
    counts, of_device_op = _cover(ctx, np.isfinite(flops), composite)
    return OpWork(flops, traffic, precision, counts, of_device_op)


def _models_of_names(trace: Trace, models: Models) -> dict[int, tuple[Model, bool]]:
    """The model of each distinct range name that has one, by the name's code."""
    codes = np.unique(trace.host_ranges.name)
    named = {int(code): models.find(trace.strings[code]) for code in codes if code >= 0}
    return {code: (model, composite) for code, (model, composite) in named.items() if model is not None}


def _distinct_calls(trace: Trace, rows: I64) -> Groups:
    """Rows with the same operator and inputs. One key at a time: the product of all would not fit an integer."""
    ranges = trace.host_ranges
    groups = Groups.of(ranges.name[rows], ranges.shapes[rows])
    for key in (ranges.dtypes, ranges.strides, ranges.concrete, ranges.collective):
        groups = Groups.of(groups.index, key[rows])
    return groups


def _work(trace: Trace, row: int, model: Model) -> Work:
    """What the model says of this row; nothing where the recording does not suffice."""
    call = _call(trace, row)
    if call is None:
        return UNMODELLED
    try:
        work = model(call)
        return Work(float(work.flops), float(work.bytes), work.precision)
    except (UnmodelledError, IndexError, ArithmeticError):
        return UNMODELLED


def _call(trace: Trace, row: int) -> Call | None:
    ranges = trace.host_ranges
    shapes = trace.text(ranges.shapes[row])
    inputs = parse_inputs(shapes or "", trace.text(ranges.dtypes[row]), trace.text(ranges.strides[row]))
    if inputs is None:
        return None
    values = parse_values(trace.text(ranges.concrete[row]))
    return Call(trace.text(ranges.name[row]) or "", inputs, values, _link(trace, int(ranges.collective[row])))


def _link(trace: Trace, row: int) -> Link | None:
    if row < 0:
        return None
    made = trace.collectives
    return Link(
        trace.text(made.name[row]) or "",
        int(made.in_elements[row]),
        int(made.out_elements[row]),
        trace.text(made.dtype[row]) or "",
        int(made.group_size[row]),
    )


def _cover(ctx: Context, modelled: Bool, composite: Bool) -> tuple[Bool, I64]:
    """Which host ranges stand for work, and for each device op the one whose work it is part of."""
    tree = ctx.tree
    row = np.where(tree.is_call, -1, tree.row)
    model_here = _at(modelled, row)
    working = model_here & ~_at(composite, row)
    alone = model_here & ~working & (tree.subtree_sum(working.astype(np.int64)) == 0)
    covering = outermost(tree, working | alone)
    counts = np.zeros(len(modelled), np.bool_)
    counts[tree.row[np.flatnonzero(covering == np.arange(len(covering)))]] = True
    of_device_op = np.full(len(ctx.trace.device_ops), -1, np.int64)
    node = launch_nodes(ctx)
    inside = np.flatnonzero(node >= 0)
    cover = covering[node[inside]]
    of_device_op[inside] = np.where(cover >= 0, tree.row[cover], -1)
    return counts, of_device_op


def _at(of_range: Bool, row: I64) -> Bool:
    """A property of host ranges at the nodes of the tree; false at API calls."""
    result = np.zeros(len(row), np.bool_)
    inside = row >= 0
    result[inside] = of_range[row[inside]]
    return result
