"""Operators whose input shapes differ from step to step, and how large their inputs are in each."""

import math
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import numpy as np

from traceanalyzer.analysis.algebra import Groups, measure, texts_where, union
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.joined.linked import owner_nodes
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, inputs_of
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric, ms
from traceanalyzer.trace import F64, I32, I64, RangeKind, distinct

SHOWN_SHAPES = 4  # shapes that are named; the others are counted


@dataclass(frozen=True)
class ShapeRow:
    """An operator with GPU work whose input shapes are not the same in every steady step."""

    rank: int | None = metric("rank of the process")
    name: str = metric("operator")
    steps: int = metric("steady steps that call it")
    different: int = metric(
        "of them with other input shapes than all before: as many as there are kinds of steps"
    )
    changed: int = metric("of them with other input shapes than the one before")
    shapes: str = metric(
        "largest input of a step that not every step has, and in how many steps it has "
        "this shape, most steps first"
    )
    least_elements: int = metric("elements of that input in the step where it is smallest")
    median_elements: float = metric("median of that over the steps")
    most_elements: int = metric("elements in the step where it is largest")
    shortest_ms: float = metric(
        "GPU time of the kernels and copies that it launches itself, shortest step"
    )
    longest_ms: float = metric("longest step")


def shape_rows(timed: Timed) -> list[ShapeRow]:
    """A row for each operator with GPU work whose shapes change, by GPU time; none without steps or
    shapes."""
    if not timed.steps.found or not (timed.trace.host_ranges.shapes >= 0).any():
        return []
    # For each name the GPU time, ns, in each step of what operators of this name launch themselves.
    ops = timed.trace.device_ops
    tree = timed.linked.tree
    owner = owner_nodes(timed.linked, np.where(timed.steady_ops, timed.joined.launch_node, -1))
    name = tree.names(owner).astype(np.int64)
    rows = np.flatnonzero(name >= 0)
    groups = Groups.of(name[rows], timed.steps.of_op[rows])
    total = groups.sum((ops.end - ops.start)[rows])
    time = dict[int, F64]()
    for group, row in enumerate(rows[groups.first].tolist()):
        of_name = time.setdefault(int(name[row]), np.zeros(len(timed.steps)))
        of_name[timed.steps.of_op[row]] = total[group]
    kinds = _kinds(timed, list(time))
    names = sorted(kinds, key=lambda name: -float(time[name].sum()))
    working = [name for name in names if time[name].sum() > 0]
    return [_row(timed, name, kinds[name], time[name]) for name in working]


Kind = frozenset[
    tuple[int, int]
]  # input shapes (codes of their text) of a step's calls, and how many calls have each


def _kinds(timed: Timed, names: list[int]) -> dict[int, dict[int, Kind]]:
    """For each of these operators (codes of names) whose input shapes change those in each steady
    step that calls it."""
    ranges = timed.trace.host_ranges
    wanted = np.zeros(len(timed.trace.strings) + 1, bool)
    wanted[names] = True
    with_shapes = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(wanted[ranges.name] & with_shapes)
    rows = rows[timed.steady_host(ranges.start[rows])]
    step = np.searchsorted(timed.steps.host_start, ranges.start[rows], side="right") - 1
    groups = Groups.of(ranges.name[rows], step, ranges.shapes[rows])
    first = groups.first
    name = ranges.name[rows[first]]
    shapes = ranges.shapes[rows[first]]
    changing = np.flatnonzero(np.isin(name, _changing(name, shapes, step[first], groups.count)))
    collected: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for group in changing.tolist():
        of_name = collected.setdefault(int(name[group]), {})
        of_step = of_name.setdefault(int(step[first][group]), [])
        of_step.append((int(shapes[group]), int(groups.count[group])))
    return {name: _by_step(of_name) for name, of_name in collected.items()}


def _by_step(found: dict[int, list[tuple[int, int]]]) -> dict[int, Kind]:
    return {step: frozenset(shapes) for step, shapes in sorted(found.items())}


def _changing(name: I32, shapes: I32, step: I64, count: I64) -> I32:
    """The names of which some shapes are not in every step that calls them, or not as often; `count`
    says how often a step calls a name with some shapes."""
    by_step = Groups.of(name, step)
    alike = Groups.of(name, shapes, count)
    steps_of = np.bincount(name[by_step.first])
    named = name[alike.first]
    return distinct(named[alike.count != steps_of[named]])


Shape = tuple[int, ...]


@lru_cache(maxsize=4096)
def _shapes_in(text: str | None) -> frozenset[Shape]:
    """The shapes of all tensors in a text of input shapes."""
    shapes: set[Shape] = set()
    for given in inputs_of(text):
        tensors = given if isinstance(given, tuple) else (given,)
        shapes |= {tensor.shape for tensor in tensors if isinstance(tensor, Tensor)}
    return frozenset(shapes)


def _row(timed: Timed, name: int, by_step: dict[int, Kind], time: F64) -> ShapeRow:
    kinds = list(by_step.values())
    spent = time[list(by_step)]
    largest = _largest_varying(timed, kinds)
    elements = [math.prod(shape) for shape in largest]
    return ShapeRow(
        rank=timed.trace.rank,
        name=timed.trace.strings[name],
        steps=len(kinds),
        different=len(set(kinds)),
        changed=sum(shapes != before for before, shapes in pairwise(kinds)),
        shapes=_most_common(largest),
        least_elements=min(elements),
        median_elements=float(np.median(elements)),
        most_elements=max(elements),
        shortest_ms=ms(spent.min()),
        longest_ms=ms(spent.max()),
    )


def _largest_varying(timed: Timed, kinds: list[Kind]) -> list[Shape]:
    """The largest input of each step that not every step has."""

    def inputs_of_step(kind: Kind) -> frozenset[Shape]:
        texts = (timed.trace.text(code) for code, _ in kind)
        return frozenset[Shape]().union(*map(_shapes_in, texts))

    inputs = [inputs_of_step(kind) for kind in kinds]
    always = frozenset.intersection(*inputs)
    return [
        max(shapes - always or shapes or {()}, key=lambda shape: (math.prod(shape), shape))
        for shapes in inputs
    ]


def _most_common(shapes: list[Shape]) -> str:
    """The most common of these shapes, with how many steps have each."""
    common = Counter(shapes).most_common()
    shown = [f"{list(shape)} in {count}" for shape, count in common[:SHOWN_SHAPES]]
    more = f", {len(common) - SHOWN_SHAPES} more" if len(common) > SHOWN_SHAPES else ""
    return ", ".join(shown) + more


@dataclass(frozen=True)
class NewShapes:
    """Operators whose input shapes change: steady steps with other shapes than the one before,
    steps that have such an operator, different shapes, names of the operators that have several,
    idle time a step during host work in them."""

    changed: int
    steps: int
    shapes: int
    operators: list[str]
    idle_ms: float


def shape_changes(explained: Causes, pattern: str) -> NewShapes | None:
    """Operators with such a name (regular expression) whose shapes change; None where they do
    not."""
    ranges = explained.trace.host_ranges
    named = texts_where(explained.trace.strings, re.compile(pattern).search)
    with_shapes = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(with_shapes & named[ranges.name])
    rows = rows[explained.timed.steady_host(ranges.start[rows])]
    shape = ranges.shapes[rows]
    begun = explained.timed.steps.host_start[explained.timed.steps.steady]
    step = np.searchsorted(begun, ranges.start[rows], side="right")
    by_step = [frozenset(shape[members].tolist()) for members in Groups.of(step).rows]
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return None
    return NewShapes(
        changed=changed,
        steps=len(by_step),
        shapes=len(frozenset().union(*by_step)),
        operators=_with_several_shapes(explained, rows),
        idle_ms=_idle_in(explained, rows),
    )


def _with_several_shapes(explained: Causes, rows: I64) -> list[str]:
    """The names of these operators that have several input shapes."""
    ranges = explained.trace.host_ranges
    name = ranges.name[rows]
    kinds = Groups.of(name, ranges.shapes[rows])
    names, counts = np.unique(name[kinds.first], return_counts=True)
    return [explained.trace.strings[code] for code in names[counts > 1]]


def _idle_in(explained: Causes, rows: I64) -> float:
    """Idle time a step that is charged to host work, during these host ranges."""
    ranges = explained.trace.host_ranges
    gaps = explained.gaps
    steps = explained.timed.steps
    on_device = (gaps.device == explained.timed.device) & (gaps.step >= steps.warmup)
    charged = on_device & (gaps.cause == IdleCause.HOST)
    during = union(ranges.start[rows], ranges.end[rows])
    idle = measure(during, gaps.start[charged], gaps.end[charged])
    return ms(int(idle.sum()) / steps.steady_count)
