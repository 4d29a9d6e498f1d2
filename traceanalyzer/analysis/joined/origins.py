"""Where in the model and in the program device work comes from: the call of a module, and the line
of Python.

Work of the backward pass belongs to the module and the line whose forward operator made its
autograd node; what is launched inside a module's call on the same thread (also there: forward
passes done again) belongs to that call. Modules of one class inside the same modules, such as the
twelve layers of a stack, are one place."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, texts_where
from traceanalyzer.analysis.joined.backward import forward_makers
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.joined.python_stacks import PythonStacks
from traceanalyzer.analysis.names.pytorch import module_of
from traceanalyzer.base import dataclass
from traceanalyzer.trace import I32, I64, Bool, RangeKind, Trace, constant_column, distinct

MOST_DEPTH = 64
"""Modules in modules beyond this belong to the one around them; models nest about ten."""
SHOWN = 2  # modules of a path that tell where in the model a kernel is


class Places(NamedTuple):
    """Places in the model, from the outermost modules down, those inside after the one that holds
    them."""

    of_call: I64  # for each call of a module its place
    above: I64  # for each place the one around it, -1 without
    paths: list[
        tuple[str, ...]
    ]  # for each place the classes of the modules around it and its own, outermost first

    def shown(self, place: int) -> str | None:
        """A place in few words, None for -1."""
        return " > ".join(self.paths[place][-SHOWN:]) if place >= 0 else None


def places_of(calls: PythonStacks) -> Places:
    """The places of calls of modules."""
    names = {code: module_of(calls.strings[code]) for code in distinct(calls.name).tolist()}
    found = _FoundPlaces()
    of_call = list[int]()
    for code, outer in zip(calls.name.tolist(), calls.parent.tolist(), strict=True):
        name = names[code]
        around = of_call[outer] if outer >= 0 else -1
        of_call.append(found.inside(around, "" if name is None else name.kind))
    order = found.in_order()
    moved = np.full(len(order) + 1, -1, np.int64)
    moved[order] = np.arange(len(order))
    return Places(
        moved[np.array(of_call, np.int64)],
        moved[np.array(found.above, np.int64)[order]],
        [found.paths[place] for place in order],
    )


class _FoundPlaces:
    """Places numbered as they are met: one inside of another comes after it."""

    def __init__(self) -> None:
        self.paths: list[tuple[str, ...]] = []  # kinds of the modules around each and its own
        self.above: list[int] = []  # the place around each, -1 for none
        self._index: dict[tuple[int, str], int] = {}

    def inside(self, around: int, kind: str) -> int:
        """The place of a module of this kind in that place (-1: in none); that place itself where
        it is too deep."""
        path = self.paths[around] if around >= 0 else ()
        if len(path) >= MOST_DEPTH:
            return around
        place = self._index.setdefault((around, kind), len(self.paths))
        if place == len(self.paths):
            self.above.append(around)
            self.paths.append((*path, kind))
        return place

    def in_order(self) -> list[int]:
        """The places, each followed by those inside of it."""
        chains: list[tuple[int, ...]] = []  # each place with those around it, outermost first
        for place, outer in enumerate(self.above):
            chains.append((*(chains[outer] if outer >= 0 else ()), place))
        return sorted(range(len(chains)), key=chains.__getitem__)


@dataclass(frozen=True, eq=False)
class Origins:
    """Where nodes of the host tree, and the device ops launched at them, come from."""

    linked: TraceJoins
    launch_node: I32  # for each device op the node that launched it
    in_backward: Bool  # for each node whether it runs in the backward pass
    python: PythonStacks

    @cached_property
    def calls(self) -> PythonStacks:
        """Calls of modules, sorted by (thread, start, longest first)."""
        return module_calls(self.linked.trace)

    @property
    def known(self) -> bool:
        """Whether calls of modules or lines of Python were recorded."""
        return len(self.calls.start) > 0 or len(self.python.start) > 0

    @cached_property
    def _maker(self) -> I32:
        """For each node the forward operator that made its autograd node; -1 without, and where
        nothing is known of modules and lines."""
        if not self.known:
            return constant_column(-1, len(self.linked.tree.start), np.int32)
        return forward_makers(self.linked).astype(np.int32)

    @cached_property
    def call(self) -> I64:
        """For each device op the innermost call of a module that it belongs to, -1 without."""
        return self.call_of(self.launch_node)

    @cached_property
    def backward(self) -> Bool:
        """For each device op whether it was launched in the backward pass."""
        return at(self.in_backward, self.launch_node, False)

    def call_of(self, node: I32 | I64) -> I64:
        """The innermost call of a module that each of these nodes belongs to, -1 for -1 and
        without."""
        own = self._at(self.calls, node)
        forward = at(self._maker, node, -1)
        return np.where(own >= 0, own, self._at(self.calls, forward))

    def line_of(self, node: I32 | I64) -> I64:
        """Name code of the line of Python that each of these nodes comes from, -1 for -1 and
        without stacks."""
        maker = self._at(self.python, at(self._maker, node, -1))
        frame = np.where(maker >= 0, maker, self._at(self.python, node))
        return at(self.python.name[self.python.line], frame, -1).astype(np.int64)

    def _at(self, stacks: PythonStacks, node: I32 | I64) -> I64:
        """The innermost of these frames in which each of these nodes begins, -1 for -1 and
        without."""
        result = np.full(len(node), -1, np.int64)
        known = np.flatnonzero(node >= 0)
        if len(stacks.start) and len(known):
            tree = self.linked.tree
            at = node[known]
            result[known] = stacks.frames_at(tree.thread[at], tree.start[at])
        return result


def module_calls(trace: Trace) -> PythonStacks:
    """The calls of modules: Python frames where stacks were recorded, else annotations."""
    ranges = trace.host_ranges
    named = texts_where(trace.strings, module_of)[ranges.name]
    frames = named & (ranges.kind == RangeKind.PYTHON)
    chosen = frames if frames.any() else named & (ranges.kind == RangeKind.ANNOTATION)
    return PythonStacks.of_rows(trace, np.flatnonzero(chosen))
