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
from traceanalyzer.trace import F64, RangeKind, distinct

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
        time.setdefault(int(name[row]), np.zeros(len(timed.steps)))[timed.steps.of_op[row]] = total[
            group
        ]
    kinds = _kinds(timed, list(time))
    names = sorted(kinds, key=lambda name: -float(time[name].sum()))
    return [_row(timed, name, kinds[name], time[name]) for name in names if time[name].sum() > 0]


Kind = frozenset[
    tuple[int, int]
]  # input shapes (codes of their text) of a step's calls, and how many calls have each


def _kinds(timed: Timed, names: list[int]) -> dict[int, dict[int, Kind]]:
    """For each of these operators (codes of names) whose input shapes change those in each steady
    step that calls it."""
    ranges = timed.trace.host_ranges
    steps = timed.steps
    wanted = np.zeros(len(timed.trace.strings) + 1, bool)
    wanted[names] = True
    rows = np.flatnonzero(
        wanted[ranges.name] & (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    )
    rows = rows[timed.steady_host(ranges.start[rows])]
    step = np.searchsorted(steps.host_start, ranges.start[rows], side="right") - 1
    groups = Groups.of(ranges.name[rows], step, ranges.shapes[rows])
    name = ranges.name[rows[groups.first]]
    shapes = ranges.shapes[rows[groups.first]]
    step = step[groups.first]
    # Steps of a name are not all alike where some shapes are not in every step that calls it, or
    # not as often.
    by_step = Groups.of(name, step)
    alike = Groups.of(name, shapes, groups.count)
    steps_of = np.bincount(name[by_step.first], minlength=len(wanted))
    changes = np.unique(name[alike.first[alike.count != steps_of[name[alike.first]]]])
    collected: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for one in np.flatnonzero(np.isin(name, changes)).tolist():
        of_step = collected.setdefault(int(name[one]), {}).setdefault(int(step[one]), [])
        of_step.append((int(shapes[one]), int(groups.count[one])))
    return {
        name: {one: frozenset(v) for one, v in sorted(of.items())} for name, of in collected.items()
    }


Shape = tuple[int, ...]


@lru_cache(maxsize=4096)
def _shapes_in(text: str | None) -> frozenset[Shape]:
    """The shapes of all tensors in a text of input shapes."""
    tensors = (t for one in inputs_of(text) for t in (one if isinstance(one, tuple) else (one,)))
    return frozenset(t.shape for t in tensors if isinstance(t, Tensor))


def _row(timed: Timed, name: int, by_step: dict[int, Kind], time: F64) -> ShapeRow:
    kinds = list(by_step.values())
    spent = time[list(by_step)]
    text = timed.trace.text
    inputs = [
        frozenset[Shape]().union(*(_shapes_in(text(code)) for code, _ in one)) for one in kinds
    ]
    always = frozenset.intersection(*inputs)
    largest = [
        max(one - always or one or {()}, key=lambda shape: (math.prod(shape), shape))
        for one in inputs
    ]
    common = Counter(largest).most_common()
    more = f", {len(common) - SHOWN_SHAPES} more" if len(common) > SHOWN_SHAPES else ""
    elements = [math.prod(shape) for shape in largest]
    return ShapeRow(
        rank=timed.trace.rank,
        name=timed.trace.strings[name],
        steps=len(kinds),
        different=len(set(kinds)),
        changed=sum(a != b for a, b in pairwise(kinds)),
        shapes=", ".join(f"{list(shape)} in {count}" for shape, count in common[:SHOWN_SHAPES])
        + more,
        least_elements=min(elements),
        median_elements=float(np.median(elements)),
        most_elements=max(elements),
        shortest_ms=ms(spent.min()),
        longest_ms=ms(spent.max()),
    )


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


def new_shapes(explained: Causes, pattern: str) -> NewShapes | None:
    """Operators with such a name (regular expression) whose shapes change; None where they do
    not."""
    ranges = explained.trace.host_ranges
    gaps = explained.gaps
    steps = explained.timed.steps
    named = texts_where(explained.trace.strings, re.compile(pattern).search)
    rows = np.flatnonzero((ranges.kind == RangeKind.OP) & (ranges.shapes >= 0) & named[ranges.name])
    rows = rows[explained.timed.steady_host(ranges.start[rows])]
    name = ranges.name[rows]
    shape = ranges.shapes[rows]
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    by_step = [frozenset(shape[step == one].tolist()) for one in distinct(step)]
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return None
    names, counts = np.unique(np.unique(np.stack((name, shape)), axis=1)[0], return_counts=True)
    charged = (
        (gaps.cause == IdleCause.HOST)
        & (gaps.device == explained.timed.device)
        & (gaps.step >= steps.warmup)
    )
    idle = measure(
        union(ranges.start[rows], ranges.end[rows]), gaps.start[charged], gaps.end[charged]
    )
    return NewShapes(
        changed=changed,
        steps=len(by_step),
        shapes=len(frozenset().union(*by_step)),
        operators=[explained.trace.strings[code] for code in names[counts > 1]],
        idle_ms=ms(int(idle.sum()) / steps.steady_count),
    )
