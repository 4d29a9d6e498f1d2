"""Models applied to the recorded operators of a trace, each distinct call once; which row stands for which work.

Recorded operators are nested (`aten::linear` calls `aten::addmm`), so a model of each must not count the work
twice. Models of operators that do the work come first: of several nested ones the outermost describes it whole
(`aten::_scaled_dot_product_flash_attention` around `aten::_flash_attention_forward`). Models of operators that
usually call others (`aten::linear`) are only used where nothing beneath them is modelled.
"""

import enum
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.joined.joined import Joined
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.roofline.op_models.call import Call, Link, UnmodelledError, Work
from traceanalyzer.analysis.roofline.op_models.left_out import ON_PARAMETERS, parameters_of
from traceanalyzer.analysis.roofline.op_models.tensors import NAN, Tensor, element_type, parse_inputs, parse_values
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind, Trace, alike, distinct

Model = Callable[[Call], Work]
Found = dict[int, tuple[Model, bool]]
"""The model of a name by its code, and whether it is composite."""

Row = tuple[float, float, float, float, float, float, float]
"""FLOPs, bytes and precision as `Work` has them; bytes of the inputs, entries of a batch; elements of the largest
input, and bytes of one."""


class Figure(enum.IntEnum):
    """Places in a row."""

    FLOPS = 0
    BYTES = 1
    PRECISION = 2
    INPUTS = 3
    ENTRIES = 4
    ELEMENTS = 5
    WIDTH = 6


UNKNOWN_ROW: Row = (NAN, NAN, 0.0, NAN, 1.0, NAN, NAN)
BATCHED = ("aten::bmm", "aten::baddbmm")
NO_TENSOR = Tensor((0,))
OVER_CACHES = frozenset(("unified_attention", "unified_attention_with_output", "mha_batch_prefill"))
"""Attention of serving engines: its shapes do not say how long the requests are."""
MOST = 0.5
"""Of a composite operator's FLOPs: below this share its children are its preparation, not its work."""


@dataclass(frozen=True, eq=False)
class OpWork:
    """What recorded operators have to do at least. Arrays are aligned with rows of the trace's tables."""

    figures: F64
    """`Row`s, one for each distinct call; the first is that of what has no model."""
    kind: I32
    """For each host range its row of the figures."""
    counts: Bool
    """Which host ranges stand for work: figures of these rows may be added up, nothing is counted twice."""
    of_device_op: I64
    """For each device op the host range whose work it is part of, -1 where no model describes it."""

    def of(self, figure: Figure, rows: I64) -> F64:
        """A figure of these host ranges; NaN for row -1, and where it is not known."""
        result: F64 = self.figures[at(self.kind, rows, 0), figure]
        result[rows < 0] = NAN
        return result

    @property
    def flops(self) -> F64:
        """For each host range its floating-point operations (a multiply-add is two), NaN where unmodelled."""
        return self.figures[self.kind, Figure.FLOPS]

    @property
    def bytes(self) -> F64:
        """For each host range its least DRAM traffic (of collectives: bytes over the link), NaN where unmodelled."""
        return self.figures[self.kind, Figure.BYTES]


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


def apply_models(joined: Joined, models: Models) -> OpWork:
    """Model every recorded operator that `models` knows."""
    ranges, count = joined.trace.host_ranges, len(joined.trace.host_ranges)
    composite = np.zeros(count, np.bool_)
    found = _models_of_names(joined.trace, models)
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & np.isin(ranges.name, list(found)))
    groups = _distinct_calls(joined.trace, rows)
    table = _Table(count)
    table.kind[rows] = groups.index + len(table.rows)
    table.rows += [_work(joined.trace, row, found) for row in rows[groups.first]]
    del groups
    composite[rows] = np.isin(ranges.name[rows], [code for code, (_, of_others) in found.items() if of_others])
    _fill_lists(joined, table, found)
    _fill_iterations(joined, table, found)
    counts, of_device_op = _cover(joined, table.figure(Figure.FLOPS)[table.kind], composite)
    _type_lists(joined.trace, table, of_device_op, found)
    return OpWork(np.array(table.rows), table.kind, counts, of_device_op)


class _Table:
    """Rows of figures while they are made."""

    def __init__(self, count: int) -> None:
        """Of so many host ranges."""
        self.rows = [UNKNOWN_ROW]
        self.kind = np.zeros(count, np.int32)

    def figure(self, figure: Figure) -> F64:
        """One of the figures of every row."""
        return np.array([row[figure] for row in self.rows])

    def set(self, ranges: I64 | int, row: Row) -> None:
        """Give host ranges a row of their own."""
        self.kind[ranges] = len(self.rows)
        self.rows.append(row)


def _fill_lists(joined: Joined, table: _Table, found: Found) -> None:
    """Model optimizer calls whose lists were left out of the recording with the parameters known elsewhere."""
    trace = joined.trace
    codes = [code for code in found if trace.strings[code] in ON_PARAMETERS]
    unknown = np.isnan(table.figure(Figure.FLOPS))
    rows = np.flatnonzero(np.isin(trace.host_ranges.name, codes))
    rows = rows[unknown[table.kind[rows]]]
    if not len(rows):
        return
    alike = dict(zip(rows.tolist(), _distinct_calls(trace, rows).index.tolist(), strict=True))
    known: dict[tuple[int, int], Row] = {}
    for row, parameters in parameters_of(joined, rows).items():
        key = alike[row], id(parameters)
        if key not in known:
            known[key] = _work(trace, row, found, partial(Call.with_lists, tensors=parameters))
        table.set(row, known[key])


def _fill_iterations(joined: Joined, table: _Table, found: Found) -> None:
    """Model attention over a cache by the lengths that the marker of the iteration around it says."""
    trace, tree = joined.trace, joined.linked.tree
    said = {code: one for code, text in enumerate(trace.strings) if (one := iteration(text)) and one.pairs is not None}
    codes = [code for code in found if trace.strings[code].partition("::")[2] in OVER_CACHES]
    if not said or not codes:
        return
    rows = np.flatnonzero(np.isin(trace.host_ranges.name, codes))
    marked = tree.innermost(np.isin(tree.names(np.arange(len(tree.start))), list(said)))
    mark = tree.names(at(marked, tree.node_of_range[rows], -1))
    rows, mark = rows[mark >= 0], mark[mark >= 0]
    if not len(rows):
        return
    groups = Groups.of(_distinct_calls(trace, rows).index, mark)
    for group, i in enumerate(groups.first.tolist()):
        within = partial(replace, iteration=said[int(mark[i])])
        table.set(rows[groups.index == group], _work(trace, int(rows[i]), found, within))


def _type_lists(trace: Trace, table: _Table, of_device_op: I64, found: Found) -> None:
    """Model calls on lists of tensors again with the type that the kernel they launched first tells."""
    covered = np.flatnonzero(of_device_op >= 0)
    rows, first = np.unique(of_device_op[covered], return_index=True)
    wanted = np.isnan(table.figure(Figure.BYTES))[table.kind[rows]]
    rows, kernel = rows[wanted], trace.device_ops.name[covered[first[wanted]]]
    if not len(rows):
        return
    groups = Groups.of(_distinct_calls(trace, rows).index, kernel)
    for group, i in enumerate(groups.first.tolist()):
        dtype = element_type(trace.text(int(kernel[i])) or "")
        work = _work(trace, int(rows[i]), found, partial(Call.with_list_dtype, dtype=dtype))
        table.set(rows[groups.index == group], work)


def _models_of_names(trace: Trace, models: Models) -> Found:
    """The model of each distinct range name that has one, by the name's code."""
    codes = distinct(trace.host_ranges.name)
    named = {int(code): models.find(trace.strings[code]) for code in codes if code >= 0}
    return {code: (model, composite) for code, (model, composite) in named.items() if model is not None}


def _distinct_calls(trace: Trace, rows: I64) -> Groups:
    """Rows with the same operator and inputs. One key at a time: the product of all would not fit an integer."""
    ranges = trace.host_ranges
    groups = Groups.of(ranges.name[rows], ranges.shapes[rows])
    for key in (ranges.dtypes, ranges.strides, ranges.concrete, ranges.collective):
        groups = Groups.of(groups.index, key[rows])
    return groups


def _work(trace: Trace, row: int, found: Found, amend: Callable[[Call], Call] | None = None) -> Row:
    """What its model says of this row; nothing where the recording does not suffice."""
    call = _call(trace, row)
    if call is None:
        return UNKNOWN_ROW
    model = found[int(trace.host_ranges.name[row])][0]
    try:
        amended = amend(call) if amend else call
        work = model(amended)
    except (UnmodelledError, IndexError, ArithmeticError):
        return UNKNOWN_ROW
    largest = max(amended.tensors, key=lambda tensor: tensor.numel, default=NO_TENSOR)
    entries = largest.shape[0] if amended.name in BATCHED else 1
    inputs = sum(tensor.bytes for tensor in amended.tensors)
    known = float(work.flops), float(work.bytes), float(work.precision)
    return (*known, inputs, float(max(entries, 1)), float(largest.numel), largest.dtype.bytes)


def _call(trace: Trace, row: int) -> Call | None:
    ranges = trace.host_ranges
    shapes = trace.text(ranges.shapes[row])
    inputs = parse_inputs(shapes or "[]", trace.text(ranges.dtypes[row]), trace.text(ranges.strides[row]))
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


def _cover(joined: Joined, flops: F64, composite: Bool) -> tuple[Bool, I64]:
    """Which host ranges stand for work, and for each device op the one whose work it is part of."""
    tree = joined.linked.tree
    if not np.isfinite(flops).any():
        return np.zeros(len(flops), np.bool_), alike(-1, len(joined.trace.device_ops), np.int64)
    row = np.where(tree.is_call, -1, tree.row[:])
    here = at(flops, row, NAN)
    working = np.isfinite(here) & ~at(composite, row, False)
    whole = np.isfinite(here) & ~working & ~_done_below(joined.linked, np.where(working, here, 0.0), working, here)
    covering = tree.outermost(working | whole)
    counts = np.zeros(len(flops), np.bool_)
    counts[tree.row[np.flatnonzero(covering == np.arange(len(covering)))]] = True
    of_device_op = np.full(len(joined.trace.device_ops), -1, np.int64)
    node = joined.launch_node
    inside = np.flatnonzero(node >= 0)
    cover = covering[node[inside]]
    of_device_op[inside] = np.where(cover >= 0, tree.row[cover], -1)
    return counts, of_device_op


def _done_below(linked: Linked, flops: F64, working: Bool, own: F64) -> Bool:
    """For each node whether working operators beneath it do what its own model says: most of its FLOPs, or, where
    it has none, anything. (A transposed convolution that clears its result has a child, but that is not the work.)"""
    end = linked.tree.subtree_end[:]
    many = np.concatenate((np.zeros(1, np.int32), np.cumsum(working, dtype=np.int32)))
    done: Bool = many.take(end) > many[:-1]
    del many
    before = np.concatenate(([0.0], np.cumsum(flops)))
    done &= before.take(end) - before[:-1] >= own * MOST
    return done
