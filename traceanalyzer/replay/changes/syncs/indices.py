"""Indices that are made again and again of the same integers, sizes read from the GPU among them: each
layer of a network for graphs fills molecules up anew (`to_dense_batch`), or takes the rows of a mask
out.

Operators that take integers and truth values alone give what follows from those. Where such a run
of them comes again with the same shapes and values, the sizes that the host read included, and
nothing in between makes other integers, it gives the same. A mask whose rows are picked again, as
many as before, is the same, too."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.roofline.op_models.tensors import SCALAR_TYPES, ElementKind, Tensor
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.changes.syncs.sizes import is_whole
from traceanalyzer.replay.patterns.named import nodes_named
from traceanalyzer.replay.patterns.operators import Operator, operators
from traceanalyzer.replay.patterns.repeats import split_where
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace import I32, I64, Bool, CopyKind, distinct

FEWEST_AGAIN = 3
"""What comes twice may be of two inputs."""
PICKS = regex(r"^aten::(index|masked_select)$")
COUNTS = regex(r"^aten::(nonzero|masked_select)$")
FILLED = regex(r"^aten::(zeros|ones|empty)$")
FILLED_TYPE = 1
"""Place of the element type among their values."""
RANGE = regex(r"^aten::arange$")
READS = regex(r"^aten::(item|is_nonzero|_local_scalar_dense)$")
INTEGER_TYPES = frozenset(
    str(code) for code, one in SCALAR_TYPES.items() if one.kind <= ElementKind.INTEGER
)
FOUND = regex(
    r"^aten::(arg\w+|topk|sort|kthvalue|mode|median|multinomial|bernoulli_?|eq|ne|lt|le|gt|ge|is(nan|inf|finite|close)"
    r"|logical_\w+|signbit|searchsorted|bucketize|histc|nonzero\w*|unique\w*|_unique2?)$"
)
"""Operators that find integers or truth values in floats."""
LARGEST = regex(r"^aten::(max|min)$")  # of a dimension: finds where that is, too
DRAWN = regex(r"^aten::(rand(int|perm)\w*|random_|bernoulli_?|multinomial)$")
IN_PLACE = regex(r"^aten::(add|sub|mul|floor_divide|remainder|bitwise_\w+|logical_\w+)_$")
"""What makes other integers of those that are there: positions that are counted on. What counts in
one number (`num_batches_tracked`) makes no indices."""
CONVERTS = regex(r"^aten::(to|_to_copy|copy_)$")


@dataclass(frozen=True)
class Again:
    """What is made once more, operators as nodes of the host tree."""

    indices: I64
    """Those that make the same integers as before."""
    picks: I64
    """Those that pick rows by the same mask as before..."""
    first_picks: I64
    """... and those that did so first."""


class _Launch(NamedTuple):
    """An operator that launches something."""

    node: int
    operator: Operator
    waits: bool
    searches: bool
    """Whether it looks for the rows of a mask."""
    other: bool
    """Whether integers may be others after it: it makes or changes some, or is no part of a forward
    pass."""


Keyed = tuple[tuple[Operator, ...], Sequence[int]]
"""Operators, nodes of the host tree, and what they have in common with those that do the same."""


def indices_again(tape: Tape) -> Bool:
    """Which events make integers that are there already."""
    return _within(tape, tape.memo(made_again).indices) >= 0


def picks_again(tape: Tape) -> I64:
    """For each event the operator, a node of the host tree, that picks rows by a mask as before;
    -1 for other events."""
    return _within(tape, tape.memo(made_again).picks)


def searches_in_backward(tape: Tape) -> Bool:
    """Which events search a mask for rows in the backward pass of a pick: where these are is
    known."""
    linked = tape.source.linked
    again = tape.memo(made_again)
    picked = np.append(again.picks, again.first_picks)
    forward = np.isin(linked.tree.outer_operator, picked)
    search = linked.tree.innermost(nodes_named(linked, COUNTS)) >= 0
    return (made_by(linked, forward) & search)[tape.nodes]


def _within(tape: Tape, nodes: I64) -> I64:
    outer = tape.source.linked.tree.outer_operator[tape.nodes].astype(np.int64)
    return np.where(np.isin(outer, nodes), outer, -1)


def made_again(tape: Tape) -> Again:
    """What the forward passes of all steps make once more, and wait within."""
    indices = list[int]()
    picks = list[int]()
    first_picks = list[int]()
    known = _Known.of(tape)
    for nodes in _of_steps(tape) if len(known.waiting) >= FEWEST_AGAIN else ():
        found = operators(tape.source.linked).of_nodes(nodes)
        launches = list(map(known.launch, nodes.tolist(), found))
        for stretch in _stretches(launches):
            for _, *later in _alike(_integer_runs(stretch)):
                indices += chain.from_iterable(later)
            for first, *later in _alike(_picks(stretch)):
                first_picks += first
                picks += chain.from_iterable(later)
    return Again(*(np.array(nodes, np.int64) for nodes in (indices, picks, first_picks)))


def _of_steps(tape: Tape) -> list[I64]:
    """The outermost operators of each step that launch something, in the order of time."""
    tree = tape.source.linked.tree
    outer = tree.outer_operator[tape.nodes[tape.launching_events]]
    nodes = distinct(outer[outer >= 0])
    nodes = nodes[np.argsort(tree.start[nodes], kind="stable")].astype(np.int64)
    step = np.searchsorted(tape.source.timed.steps.host_start, tree.start[nodes], side="right")
    return split_where(nodes, np.diff(step) != 0)


@dataclass(frozen=True)
class _Known:
    """Outermost operators, nodes of the host tree, by what they do."""

    waiting: frozenset[int]
    copying: frozenset[int]  # from the host
    searching: frozenset[int]
    backward: Bool  # for each node

    @classmethod
    def of(cls, tape: Tape) -> "_Known":
        """The operators of a tape."""
        linked = tape.source.linked
        outer = linked.tree.outer_operator
        of_event = outer[tape.nodes]
        copying = tape.events_of(tape.copies_of(CopyKind.HOST_TO_DEVICE))
        return cls(
            waiting=_set_of(of_event[tape.waits]),
            copying=_set_of(of_event[copying]),
            searching=_set_of(outer[nodes_named(linked, COUNTS)]),
            backward=tape.source.joined.in_backward,
        )

    def launch(self, node: int, operator: Operator) -> _Launch:
        """The launch that such an operator makes."""
        other = bool(self.backward[node]) or _makes_others(operator, copies=node in self.copying)
        return _Launch(node, operator, node in self.waiting, node in self.searching, other)


def _set_of(nodes: I32) -> frozenset[int]:
    return frozenset(distinct(nodes[nodes >= 0]).tolist())


def _makes_others(operator: Operator, *, copies: bool) -> bool:
    """Whether integers may be others after an operator: it finds some in floats, draws or changes
    some, or brings (`copies`) some from the host."""
    takes_integers = bool(operator.typed) and is_whole(operator.typed[0])
    if operator.named(CONVERTS):
        becomes_whole = not INTEGER_TYPES.isdisjoint(operator.values[1:3])
        return (copies and takes_integers and operator.first != ()) or (
            not takes_integers and becomes_whole
        )
    finds = operator.named(FOUND) or (operator.named(LARGEST) and len(operator.typed) > 1)
    changes = operator.named(IN_PLACE) and takes_integers and operator.first != ()
    return operator.named(DRAWN) or changes or (finds and not takes_integers)


def _stretches(launches: Sequence[_Launch]) -> Iterator[list[_Launch]]:
    """Operators in a row after which integers are the same as before."""
    stretch = list[_Launch]()
    for launch in launches:
        if launch.other:
            yield stretch
            stretch = []
        else:
            stretch.append(launch)
    yield stretch


def _integer_runs(stretch: Sequence[_Launch]) -> Iterator[Keyed]:
    """Operators in a row that take and give integers, with a wait within."""
    of_integers = zip(stretch, _of_integers(stretch), strict=True)
    for are_integers, run in groupby(of_integers, lambda one: one[1]):
        found = [launch for launch, _ in run]
        if are_integers and any(one.waits for one in found):
            yield tuple(one.operator for one in found), [one.node for one in found]


def _of_integers(stretch: Sequence[_Launch]) -> Iterator[bool]:
    """Which operators take and give integers alone; a read of a value whose type is not recorded is
    of what was made before it."""
    are_integers = False
    for launch in stretch:
        is_typed = any(one is not None for one in launch.operator.typed)
        if is_typed or not launch.operator.named(READS):
            are_integers = _is_of_integers(launch.operator)
        yield are_integers


def _is_of_integers(operator: Operator) -> bool:
    """Whether an operator takes and gives integers or truth values alone."""
    tensors = [one for one in operator.typed if isinstance(one, Tensor)]
    if tensors:
        return all(map(is_whole, tensors)) and not operator.named(CONVERTS, IN_PLACE)
    if operator.named(FILLED):
        return not INTEGER_TYPES.isdisjoint(operator.values[FILLED_TYPE : FILLED_TYPE + 1])
    return operator.named(RANGE) and not any("." in one for one in operator.values)


def _picks(stretch: Sequence[_Launch]) -> Iterator[Keyed]:
    """Operators that pick rows by a mask, each with the one that takes these, which shows how many
    there are, and what was done with integers since the pick before it."""
    done = list[Operator]()
    for launch, taking in pairwise(stretch):
        if _is_of_integers(launch.operator):
            done.append(launch.operator)
        elif launch.searches and launch.operator.named(PICKS) and taking.operator.shapes:
            yield (launch.operator, taking.operator, *done), [launch.node]
            done = []


def _alike(found: Iterable[Keyed]) -> Iterator[list[Sequence[int]]]:
    """Operators, in the order of time, that do the same often enough."""
    alike = defaultdict[tuple[Operator, ...], list[Sequence[int]]](list)
    for key, nodes in found:
        alike[key].append(nodes)
    return (same for same in alike.values() if len(same) >= FEWEST_AGAIN)
