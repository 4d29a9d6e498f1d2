"""Models applied to the recorded operators of a trace, each distinct call once; which row stands
for which work.

Recorded operators are nested (`aten::linear` calls `aten::addmm`), so a model of each must not
count the work twice. Models of operators that do the work come first: of several nested ones the
outermost describes it whole (`aten::_scaled_dot_product_flash_attention` around
`aten::_flash_attention_forward`). Models of operators that usually call others (`aten::linear`) are
only used where nothing beneath them is modelled. An operator around one of its own name with the same
FLOPs (autocast) only converts its inputs: the inner one counts."""

import enum
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.joined.host_tree import HostTree
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.analysis.roofline.op_models.call import Call, CollectivePayload, Model
from traceanalyzer.analysis.roofline.op_models.convolution import RESULT_BY_VALUES
from traceanalyzer.analysis.roofline.op_models.optimizer import ON_PARAMETERS, updated_parameters
from traceanalyzer.analysis.roofline.op_models.tensors import (
    NAN,
    Tensor,
    element_type,
    parse_inputs,
    parse_values,
)
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind, Trace, distinct

Row = tuple[float, ...]  # a value for each `Figure`


class WorkColumn(enum.IntEnum):
    """Places in a row: FLOPs, bytes and precision as `Work` has them; bytes of the inputs, entries
    of a batch; elements of the largest input, and bytes of one."""

    FLOPS, BYTES, PRECISION, INPUTS, ENTRIES, ELEMENTS, WIDTH = range(7)


UNKNOWN_ROW: Row = (NAN, NAN, 0.0, NAN, 1.0, NAN, NAN)
OVER_CACHES = frozenset(("unified_attention", "unified_attention_with_output", "mha_batch_prefill"))
"""Attention of serving engines: its shapes do not say how long the requests are."""
NEXT_OPERATORS = 4
"""How many operators after one are looked at for its result: before a bias is added it is given its
shape by two."""
MOST = 0.5
"""Of a composite operator's FLOPs: below this share its children are its preparation, not its
work."""


@dataclass(frozen=True, eq=False)
class OpWork:
    """What recorded operators have to do at least. Arrays are aligned with rows of the trace's
    tables."""

    figures: F64  # `Row`s, one for each distinct call; the first is that of what has no model
    kind: I32  # for each host range its row of the figures
    # which host ranges stand for work: figures of these rows may be added up, nothing is counted
    # twice
    counts: Bool
    # for each device op the host range whose work it is part of, -1 where no model describes it
    of_device_op: I64

    def of(self, figure: WorkColumn, rows: I64) -> F64:
        """A figure of these host ranges; NaN for row -1, and where it is not known."""
        return np.where(rows < 0, NAN, self.figures[at(self.kind, rows, 0), figure])

    @property
    def flops(self) -> F64:
        """For each host range its floating-point operations (a multiply-add is two), NaN where
        unmodelled."""
        return self.figures[self.kind, WorkColumn.FLOPS]

    @property
    def bytes(self) -> F64:
        """For each host range its least DRAM traffic (of collectives: bytes over the link), NaN
        where unmodelled."""
        return self.figures[self.kind, WorkColumn.BYTES]


@dataclass(frozen=True)
class Models:
    """The models by operator name."""

    working: dict[
        str, Model
    ]  # operators that do the work themselves, or whose children do just what the model says
    composite: dict[
        str, Model
    ]  # operators that call others which have models; used where none of those was recorded
    prefixes: dict[str, Model]
    """Working operators whose names are made up as the program is compiled, by how these begin."""

    def find(self, name: str) -> tuple[Model | None, bool]:
        """The model of an operator and whether it is composite; an in-place variant has that of its
        namesake."""
        for key in (name, name.removesuffix("_")):
            found = self.working.get(key) or self.composite.get(key)
            if found:
                return found, key not in self.working
        prefix = next(filter(name.startswith, self.prefixes), None)
        return None if prefix is None else self.prefixes[prefix], False


def apply_models(joined: HostAttribution, models: Models) -> OpWork:
    """Model every recorded operator that `models` knows."""
    ranges = joined.trace.host_ranges
    strings = joined.trace.strings
    codes = distinct(ranges.name)
    named = {code: models.find(strings[code]) for code in codes[codes >= 0].tolist()}
    table = _Table(
        joined.trace, {code: model for code, (model, _) in named.items() if model is not None}
    )
    modelled = np.isin(ranges.name, _codes(table.found))
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & modelled)
    table.add(rows)
    of_others = [code for code, (_, is_composite) in named.items() if is_composite]
    composite = np.zeros(len(ranges), np.bool_)
    composite[rows] = np.isin(ranges.name[rows], _codes(of_others))
    _fill_lists(joined, table)
    _fill_iterations(joined, table)
    _fill_results(joined, table)
    counts, of_device_op = _cover(joined, table.figure(WorkColumn.FLOPS)[table.kind], composite)
    _type_lists(joined.trace, table, of_device_op)
    return OpWork(np.array(table.rows), table.kind, counts, of_device_op)


class _Table:
    """Rows of figures while they are made."""

    def __init__(self, trace: Trace, found: dict[int, Model]) -> None:
        """With the models by the codes of their operators' names."""
        self.trace = trace
        self.found = found
        self.rows = [UNKNOWN_ROW]
        self.kind = np.zeros(len(trace.host_ranges), np.int32)

    def figure(self, figure: WorkColumn) -> F64:
        """One of the figures of every row."""
        return np.array([row[figure] for row in self.rows])

    def ranges_of(self, names: Set[str]) -> I64:
        """Host ranges of modelled operators of these names; engines call one by several."""
        strings = self.trace.strings
        codes = [
            code
            for code in self.found
            if strings[code] in names or strings[code].partition("::")[2] in names
        ]
        return np.flatnonzero(np.isin(self.trace.host_ranges.name, _codes(codes)))

    def without_flops(self, ranges: I64) -> I64:
        """The host ranges among these whose FLOPs are not known."""
        unknown = np.isnan(self.figure(WorkColumn.FLOPS))
        return ranges[unknown[self.kind[ranges]]]

    def add(self, ranges: I64) -> None:
        """A row for each distinct call among these host ranges."""
        groups = _distinct_calls(self.trace, ranges)
        self.kind[ranges] = groups.index + len(self.rows)
        self.rows += [self.row_of(row) for row in ranges[groups.first]]

    def amend(
        self, ranges: I64, key: I32 | I64, amend: Callable[[int], Callable[[Call], Call]]
    ) -> None:
        """Give host ranges that are alike in call and key a row of their own: of the call, amended
        as the key says."""
        groups = Groups.of(_distinct_calls(self.trace, ranges).index, key)
        for group, first in enumerate(groups.first.tolist()):
            self.kind[ranges[groups.index == group]] = len(self.rows)
            amended = amend(int(key[first]))
            self.rows.append(self.row_of(int(ranges[first]), amended))

    def _link(self, record: int) -> CollectivePayload | None:
        """What is recorded of a collective; None for -1."""
        if record < 0:
            return None
        text = self.trace.text
        records = self.trace.collectives
        sizes = int(records.in_elements[record]), int(records.out_elements[record])
        return CollectivePayload(
            text(records.name[record]) or "",
            *sizes,
            text(records.dtype[record]) or "",
            int(records.group_size[record]),
        )

    def _call(self, row: int) -> Call | None:
        """The call that a host range is; None where its inputs are not readable."""
        text = self.trace.text
        ranges = self.trace.host_ranges
        shapes = text(ranges.shapes[row]) or "[]"
        inputs = parse_inputs(shapes, text(ranges.dtypes[row]), text(ranges.strides[row]))
        if inputs is None:
            return None
        return Call(
            text(ranges.name[row]) or "",
            inputs,
            parse_values(text(ranges.concrete[row])),
            self._link(int(ranges.collective[row])),
        )

    def tensors_of(self, row: int) -> list[Tensor]:
        """What the operator that a host range is reads; nothing for -1."""
        call = self._call(row) if row >= 0 else None
        return call.tensors if call else []

    def row_of(self, row: int, amend: Callable[[Call], Call] | None = None) -> Row:
        """What its model says of this host range; nothing where the recording does not suffice."""
        call = self._call(row)
        if call is None:
            return UNKNOWN_ROW
        model = self.found[int(self.trace.host_ranges.name[row])]
        try:
            call = amend(call) if amend else call
            work = model(call)
        except (ValueError, IndexError, ArithmeticError):
            return UNKNOWN_ROW
        largest = max(call.tensors, key=lambda tensor: tensor.numel, default=Tensor((0,)))
        entries = largest.shape[0] if call.name in {"aten::bmm", "aten::baddbmm"} else 1
        read = sum(tensor.bytes for tensor in call.tensors)
        figures = (*work, read, max(entries, 1), largest.numel)
        return (*map(float, figures), largest.dtype.bytes)


def _codes(codes: Iterable[int]) -> I32:
    """Codes of names as a column: numpy takes an empty list for one of floats."""
    return np.array(list(codes), np.int32)


def _fill_lists(joined: HostAttribution, table: _Table) -> None:
    """Model optimizer calls whose lists were left out of the recording with the parameters known
    elsewhere."""
    given = updated_parameters(joined, table.without_flops(table.ranges_of(ON_PARAMETERS)))
    lists = {id(parameters): parameters for parameters in given.values()}
    keys = np.array([id(parameters) for parameters in given.values()], np.int64)
    table.amend(
        np.array(list(given), np.int64),
        keys,
        lambda key: partial(Call.with_lists, tensors=lists[key]),
    )


def _fill_iterations(joined: HostAttribution, table: _Table) -> None:
    """Model attention over a cache by the lengths that the marker of the iteration around it
    says."""
    rows = table.ranges_of(OVER_CACHES)
    if not len(rows):
        return
    tree = joined.linked.tree
    texts = joined.trace.strings
    iterations = ((code, iteration(text)) for code, text in enumerate(texts))
    iterations_by_name = {
        code: found for code, found in iterations if found and found.pairs is not None
    }
    if not iterations_by_name:
        return
    names = tree.names(np.arange(len(tree.start)))
    marked = tree.innermost(np.isin(names, _codes(iterations_by_name)))
    mark = tree.names(at(marked, tree.node_of_range[rows], -1))
    table.amend(
        rows[mark >= 0],
        mark[mark >= 0],
        lambda code: partial(replace, iteration=iterations_by_name[code]),
    )


def _fill_results(joined: HostAttribution, table: _Table) -> None:
    """Model operators whose values were left out of the recording with what the next operators
    read: strides and paddings of a convolution are values."""
    ranges = joined.trace.host_ranges
    rows = table.ranges_of(RESULT_BY_VALUES)
    rows = rows[ranges.concrete[rows] < 0]
    if not len(rows):
        return
    rows = table.without_flops(rows)
    readers = _next_operators(joined.linked.tree, rows)
    shapes = [at(ranges.shapes, reader, -1) for reader in readers]
    dtypes = [at(ranges.dtypes, reader, -1) for reader in readers]
    kinds = Groups.of(*shapes, *dtypes)

    def with_readers(kind: int) -> Callable[[Call], Call]:
        first = kinds.first[kind]
        tensors = [table.tensors_of(int(reader[first])) for reader in readers]
        return partial(replace, read_after=tuple(chain.from_iterable(tensors)))

    table.amend(rows, kinds.index, with_readers)


def _next_operators(tree: HostTree, rows: I64) -> list[I64]:
    """The host ranges of the `NEXT_OPERATORS` operators that follow each of these on its thread, an
    array for each place; -1 behind the last."""
    operators = np.append(np.flatnonzero(tree.kind == RangeKind.OP), -1)
    node = tree.node_of_range[rows]
    after = np.searchsorted(operators[:-1], tree.subtree_end[node])
    found = []
    for place in range(NEXT_OPERATORS):
        following = operators[np.minimum(after + place, len(operators) - 1)]
        same_thread = at(tree.thread, following, -1) == tree.thread[node]
        found.append(at(tree.row, np.where(same_thread, following, -1), -1))
    return found


def _type_lists(trace: Trace, table: _Table, of_device_op: I64) -> None:
    """Model calls on lists of tensors again with the type that the kernel they launched first
    tells."""
    covered = np.flatnonzero(of_device_op >= 0)
    rows, first = np.unique(of_device_op[covered], return_index=True)
    wanted = np.isnan(table.figure(WorkColumn.BYTES))[table.kind[rows]]

    def typed(kernel: int) -> Callable[[Call], Call]:
        return partial(Call.with_list_dtype, dtype=element_type(trace.text(kernel) or ""))

    table.amend(rows[wanted], trace.device_ops.name[covered[first[wanted]]], typed)


def _distinct_calls(trace: Trace, rows: I64) -> Groups:
    """Rows with the same operator and inputs. One key at a time: the product of all would not fit
    an integer."""
    ranges = trace.host_ranges
    groups = Groups.of(ranges.name[rows], ranges.shapes[rows])
    for key in (ranges.dtypes, ranges.strides, ranges.concrete, ranges.collective):
        groups = Groups.of(groups.index, key[rows])
    return groups


def _cover(joined: HostAttribution, flops: F64, composite: Bool) -> tuple[Bool, I64]:
    """Which host ranges stand for work, and for each device op the one whose work it is part of."""
    tree = joined.linked.tree
    node = joined.launch_node
    counts = np.zeros(len(flops), np.bool_)
    of_device_op = np.full(len(joined.trace.device_ops), -1, np.int64)
    if not np.isfinite(flops).any():
        return counts, of_device_op
    row = np.where(tree.is_call, -1, tree.row[:])
    own = at(flops, row, NAN)
    working = np.isfinite(own) & ~at(composite, row, False)
    working &= ~_dispatches(joined.linked, working, own)
    composites = (
        np.isfinite(own)
        & ~working
        & ~_done_below(joined.linked, np.where(working, own, 0.0), working, own)
    )
    covering = tree.outermost(working | composites)
    counts[tree.row[np.flatnonzero(covering == np.arange(len(covering)))]] = True
    inside = np.flatnonzero(node >= 0)
    cover = covering[node[inside]]
    of_device_op[inside] = np.where(cover >= 0, tree.row[cover], -1)
    return counts, of_device_op


def _dispatches(linked: TraceJoins, working: Bool, flops: F64) -> Bool:
    """For each node whether it only converts its inputs and hands them to an operator of its name
    that does the work: autocast's `aten::addmm` in fp32 around the one in bf16."""
    tree = linked.tree
    result = np.zeros(len(working), np.bool_)
    nodes = np.flatnonzero(working)
    around = tree.enclosing(tree.innermost(working), nodes)
    inside = around >= 0
    nodes = nodes[inside]
    around = around[inside]
    alike_work = (tree.names(nodes) == tree.names(around)) & (flops[nodes] == flops[around])
    result[around[alike_work]] = True
    return result


def _done_below(linked: TraceJoins, flops: F64, working: Bool, own: F64) -> Bool:
    """For each node whether working operators beneath it do what its own model says: most of its
    FLOPs, or, where it has none, anything. (A transposed convolution that clears its result has a
    child, but that is not the work.)"""
    end = linked.tree.subtree_end[:]
    first = np.zeros(1, np.int32)
    many = np.concatenate((first, np.cumsum(working, dtype=np.int32)))
    done: Bool = many.take(end) > many[:-1]
    del many
    before = np.concatenate(([0.0], np.cumsum(flops)))
    done &= before.take(end) - before[:-1] >= own * MOST
    return done
