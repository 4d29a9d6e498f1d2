"""What a recording with shapes alone (PyTorch's ranges of NVTX) tells of operators' other inputs:
element types by the kernels that they launched, the type that a tensor is cast to, and the dimension
along which one is taken apart."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, starmap
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, texts_where
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.element_types import (
    BFLOAT16,
    FLOAT,
    HALF,
    LONG,
    NAMES_OF_TYPES,
    SIXTEEN_BITS,
    Cast,
    bytes_told,
    cast_told,
    is_of_16_bits,
    type_told,
)
from traceanalyzer.trace import I32, I64, Bool, HostRanges, RangeKind, Trace

COPY = "aten::copy_"
CONVERTS = frozenset({"aten::to", "aten::_to_copy"})
NUMBERS_OF_TYPES = {
    name: str(number) for number, name in NAMES_OF_TYPES.items() if name in (HALF, FLOAT, BFLOAT16)
}
"""Types that are cast to, by their numbers in `c10::ScalarType`."""
UNBIND = "aten::unbind"
SELECT = "aten::select"
"""Taking a tensor apart calls the other for each item."""
_PLACES: dict[str, dict[int, str]] = {
    "aten::embedding": {1: LONG},
    "aten::embedding_dense_backward": {1: LONG},
    "aten::gather": {2: LONG},
    "aten::index_add_": {2: LONG},
    "aten::index_select": {2: LONG},
    "aten::masked_fill_": {1: "bool"},
    "aten::native_dropout_backward": {1: "bool"},
    "aten::nll_loss_backward": {2: LONG},
    "aten::nll_loss_forward": {1: LONG},
    "aten::scatter_": {2: LONG},
    "aten::scatter_add_": {2: LONG},
    "aten::where": {0: "bool"},
}
"""Inputs that are indices and masks, by operator and place."""
BY_BYTES = {1: "bool", 4: "float", 8: LONG}
"""What rows that are picked by an index are of, by the bytes of an element: masks, activations,
indices. Of 16 bits are those of the other kernels."""
WIDENED = Cast("", "float")
"""A cast to fp32. Beside kernels of 16 bits nearly all of them are of what such a kernel made, or of
its gradients."""
_Text = Callable[..., int]
_Dims = msgspec.json.Decoder(list[list[Any]])


def with_told_inputs(linked: TraceJoins) -> Trace | None:
    """The recording with what is told of operators that have shapes and nothing else of their
    inputs; None where there are none."""
    ranges = linked.trace.host_ranges
    bare = (ranges.shapes >= 0) & (ranges.dtypes < 0) & (ranges.concrete < 0)
    bare &= ranges.kind == RangeKind.OP
    if not bare.any():
        return None
    types = _types_of_kernels(linked.trace)
    texts = _Texts(linked.trace.strings, types)
    kernel = _telling_kernels(linked, bare, types)
    casts = texts.of_casts(ranges, _narrowed_first(linked))
    given = (ranges.name, ranges.shapes, kernel, casts)
    dtypes = _replaced(ranges.dtypes, kernel >= 0, texts.types, *given)
    items = np.where(bare, _items(linked), 0)
    concrete = _replaced(ranges.concrete, items > 0, texts.dimension, ranges.shapes, items)
    converting = texts_where(linked.trace.strings, CONVERTS.__contains__)
    converts = (kernel >= 0) & converting[ranges.name]
    concrete = _replaced(concrete, converts, texts.target, kernel)
    told = replace(ranges, dtypes=dtypes, concrete=concrete)
    return replace(linked.trace, strings=texts.strings, host_ranges=told)


def _replaced(column: I32, chosen: Bool, text: _Text, *given: I32 | I64) -> I32:
    """The column with `text` of what is given for the chosen rows, asked once for each kind."""
    result = column.copy()
    rows = np.flatnonzero(chosen)
    kinds = zip(*(values[rows].tolist() for values in given), strict=True)
    result[rows] = list(starmap(cache(text), kinds))
    return result


class _Texts:
    """Texts of inputs, by the codes of a recording's strings, which grow."""

    def __init__(self, strings: list[str], types_of_kernels: dict[int, str]) -> None:
        self.strings = list(strings)
        self._types_of_kernels = types_of_kernels
        self._codes = {text: code for code, text in enumerate(strings)}

    def types(self, operator: int, shapes: int, kernel: int, casts: int) -> int:
        """The types of inputs: the kernel's for tensors, another where the operator takes indices
        or masks, copies to another type or casts all tensors of a shape first, nothing for what has
        no dimensions; -1 where the shapes cannot be read."""
        places = _PLACES.get(self.strings[operator], {})
        dtype = self._types_of_kernels[kernel]
        cast = cast_told(self.strings[kernel])
        if cast is not None and self.strings[operator] == COPY:
            places = {0: cast.target}
        inputs = self._sizes(shapes)
        cast_first = self._sizes(casts) if casts >= 0 else []
        named = []
        for place, sizes in enumerate(inputs):
            is_list = bool(sizes) and isinstance(sizes[0], list)
            is_cast = cast_first.count(sizes) >= inputs.count(sizes)
            own = FLOAT if is_cast else dtype
            tensor = "TensorList" if is_list else places.get(place, own)
            named.append(tensor if sizes else "")
        return self._code(named)

    def target(self, kernel: int) -> int:
        """The values of a change of type by this kernel; -1 where it is none."""
        cast = cast_told(self.strings[kernel])
        code = NUMBERS_OF_TYPES.get(cast.target) if cast else None
        return self._code(["", code] if code else [])

    def of_casts(self, ranges: HostRanges, casts: dict[int, list[int]]) -> I32:
        """For each host range the shapes of what it casts first, -1 without; `casts`: the shapes of
        each of these copies, by the row of the operator that makes them."""
        result = np.full(len(ranges.start), -1, np.int32)
        for row, copies in casts.items():
            copied = (self._sizes(shapes)[:1] for shapes in copies)
            result[row] = self._code(list(chain.from_iterable(copied)))
        return result

    def dimension(self, shapes: int, items: int) -> int:
        """The values of taking a tensor apart into so many items: the first dimension that is as
        long; -1 where none is."""
        first = next(iter(self._sizes(shapes)), [])
        return self._code(["", str(first.index(items))] if items in first else [])

    def _sizes(self, shapes: int) -> list[list[Any]]:
        try:
            return _Dims.decode(self.strings[shapes])
        except msgspec.DecodeError:
            return []

    def _code(self, inputs: list[Any]) -> int:
        if not inputs:
            return -1
        text = msgspec.json.encode(inputs).decode()
        code = self._codes.setdefault(text, len(self.strings))
        if code == len(self.strings):
            self.strings.append(text)
        return code


def _types_of_kernels(trace: Trace) -> dict[int, str]:
    """The element types that kernels read, where they tell one, by the codes of their names. Those
    that say 16 bits, and casts to fp32, have the type of 16 bits in which the other kernels are
    longest; without one they tell nothing."""
    ops = trace.device_ops
    names = Groups.of(ops.name)
    codes = ops.name[names.first].tolist()
    lengths = names.sum(ops.end - ops.start).tolist()
    told: dict[int, str] = {}
    of_16_bits: list[int] = []
    spent = dict.fromkeys(SIXTEEN_BITS, 0)
    for code, length in zip(codes, lengths, strict=True):
        name = trace.text(code) or ""
        dtype = type_told(name)
        if dtype:
            told[code] = dtype
        elif is_of_16_bits(name) or bytes_told(name) == 2 or cast_told(name) == WIDENED:
            of_16_bits.append(code)
        elif bytes_told(name) in BY_BYTES:
            told[code] = BY_BYTES[bytes_told(name)]
        if dtype in spent:
            spent[dtype] += length
    longest = max(spent, key=spent.__getitem__)
    if spent[longest]:
        told |= dict.fromkeys(of_16_bits, longest)
    return told


def _telling_kernels(linked: TraceJoins, bare: Bool, types: dict[int, str]) -> I64:
    """For each host range the name (code) of the kernel that tells its type: the longest that it or
    what it calls launched; -1 where none tells one, or the range is not bare."""
    ops = linked.trace.device_ops
    tree = linked.tree
    node = at(tree.node_of_call, linked.launch, -1)
    kernels = np.flatnonzero((node >= 0) & np.isin(ops.name, list(types)))
    by_length = kernels[np.argsort((ops.end - ops.start)[kernels], kind="stable")]
    longest = np.full(len(tree.start), -1, np.int64)  # for each node the place in `by_length`
    for nodes, places in _upwards(tree.parent[:], node[by_length]):
        np.maximum.at(longest, nodes, places)
    of_range = at(longest, np.where(bare, tree.node_of_range, -1), -1)
    return at(ops.name[by_length].astype(np.int64), of_range, -1)


def _upwards(parent: I32, node: I64 | I32) -> Iterator[tuple[I64, I64]]:
    """These nodes, then what is around each, and so on to the roots, each with its place."""
    places = np.arange(len(node))
    nodes = node.astype(np.int64)
    while len(places):
        yield nodes, places
        nodes = at(parent, nodes, -1).astype(np.int64)
        inside = nodes >= 0
        nodes = nodes[inside]
        places = places[inside]


def _narrowed_first(linked: TraceJoins) -> dict[int, list[int]]:
    """By the row of an outermost operator the shapes (codes) of the copies from fp32 to 16 bits that it
    makes before it launches anything else: copies of what it was given, as under an autocast."""
    trace = linked.trace
    tree = linked.tree
    node = at(tree.node_of_call, linked.launch, -1)
    outer = at(tree.outer_operator, node, -1)
    launched = np.flatnonzero(outer >= 0)
    launched = launched[np.argsort(node[launched], kind="stable")]
    outer = outer[launched]
    copy = at(tree.operator, node[launched], -1)
    narrowing = texts_where(trace.strings, _narrows)[trace.device_ops.name[launched]]
    narrowing &= at(tree.named(texts_where(trace.strings, COPY.__eq__)), copy, False)
    others = np.append(0, np.cumsum(~narrowing))
    others_before = others[:-1] - others[np.searchsorted(outer, outer)]
    first = narrowing & (others_before == 0) & (copy != outer)
    result = defaultdict[int, list[int]](list)
    shapes = trace.host_ranges.shapes[tree.row[copy[first]]]
    for row, code in zip(tree.row[outer[first]].tolist(), shapes.tolist(), strict=True):
        if code >= 0:
            result[row].append(code)
    return result


def _narrows(kernel: str) -> bool:
    cast = cast_told(kernel)
    return cast is not None and cast.source == FLOAT


def _items(linked: TraceJoins) -> I64:
    """For each host range into how many items it takes a tensor apart; 0 for others."""
    tree = linked.tree
    strings = linked.trace.strings
    selects = np.flatnonzero(tree.named(texts_where(strings, SELECT.__eq__)))
    around = tree.parent[selects]
    each = np.bincount(around[around >= 0], minlength=len(tree.start))
    apart = tree.named(texts_where(strings, UNBIND.__eq__))
    return at(np.where(apart, each, 0), tree.node_of_range, 0)
