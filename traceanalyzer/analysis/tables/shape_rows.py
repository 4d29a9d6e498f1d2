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
from traceanalyzer.trace import F64, I32, I64, Bool, RangeKind, Trace, distinct

SHOWN_SHAPES = 4
"""Shapes that are named; the others are counted."""


@dataclass(frozen=True)
class ShapeRow:
    """An operator with GPU work whose input shapes are not the same in every steady step."""

    rank: int | None = metric("rank of the process")
    name: str = metric("operator")
    steps: int = metric("steady steps that call it")
    different: int = metric("of them with other input shapes than all before: as many as there are kinds of steps")
    changed: int = metric("of them with other input shapes than the one before")
    shapes: str = metric(
        "largest input of a step that not every step has, and in how many steps it has this shape, most steps first"
    )
    least_elements: int = metric("elements of that input in the step where it is smallest")
    median_elements: float = metric("median of that over the steps")
    most_elements: int = metric("elements in the step where it is largest")
    shortest_ms: float = metric("GPU time of the kernels and copies that it launches itself, shortest step")
    longest_ms: float = metric("longest step")


def shape_rows(timed: Timed) -> list[ShapeRow]:
    """A row for each operator with GPU work whose shapes change, by GPU time; none without steps or shapes."""
    if not timed.steps.found or not (timed.trace.host_ranges.shapes >= 0).any():
        return []
    time = _time(timed)
    kinds = _kinds(timed, list(time))
    names = sorted(kinds, key=lambda name: -float(time[name].sum()))
    return [_row(timed, name, kinds[name], time[name]) for name in names if time[name].sum() > 0]


Kind = frozenset[tuple[int, int]]
"""Input shapes (codes of their text) of a step's calls, and how many calls have each."""


def _kinds(timed: Timed, names: list[int]) -> dict[int, dict[int, Kind]]:
    """For each of these operators (codes of names) whose input shapes change those in each steady step that calls
    it."""
    ranges, steps = timed.trace.host_ranges, timed.steps
    wanted = np.zeros(len(timed.trace.strings) + 1, bool)
    wanted[names] = True
    rows = np.flatnonzero(wanted[ranges.name] & (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0))
    rows = rows[timed.steady_host(ranges.start[rows])]
    step = np.searchsorted(steps.host_start, ranges.start[rows], side="right") - 1
    groups = Groups.of(ranges.name[rows], step, ranges.shapes[rows])
    changing = _changing(ranges.name[rows[groups.first]], step[groups.first], ranges.shapes[rows[groups.first]], groups)
    first = groups.first[changing]
    keys = zip(ranges.name[rows[first]].tolist(), step[first].tolist(), strict=True)
    values = zip(ranges.shapes[rows[first]].tolist(), groups.count[changing].tolist(), strict=True)
    collected: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for (name, one), value in zip(keys, values, strict=True):
        collected.setdefault(name, {}).setdefault(one, []).append(value)
    return {name: {one: frozenset(v) for one, v in sorted(of.items())} for name, of in collected.items()}


def _changing(name: I32, step: I64, shapes: I32, calls: Groups) -> Bool:
    """Which groups of calls, by name, step and shapes, are of names whose steps are not all alike: some shapes are not
    in every step that calls the operator, or not as often."""
    if not len(name):
        return np.zeros(0, bool)
    by_step, alike = Groups.of(name, step), Groups.of(name, shapes, calls.count)
    steps_of = np.bincount(name[by_step.first])
    changes = np.zeros(len(steps_of), bool)
    changes[name[alike.first[alike.count != steps_of[name[alike.first]]]]] = True
    return changes[name]


def _time(timed: Timed) -> dict[int, F64]:
    """For each name the GPU time, ns, in each step of what operators of this name launch themselves."""
    ops, tree = timed.trace.device_ops, timed.linked.tree
    owner = owner_nodes(timed.linked, np.where(timed.steady_ops, timed.joined.launch_node, -1))
    name = tree.names(owner).astype(np.int64)
    rows = np.flatnonzero(name >= 0)
    count = len(timed.steps)
    groups = Groups.of(name[rows], timed.steps.of_op[rows])
    total = groups.sum((ops.end - ops.start)[rows])
    result: dict[int, F64] = {}
    for group, row in enumerate(rows[groups.first].tolist()):
        result.setdefault(int(name[row]), np.zeros(count))[timed.steps.of_op[row]] = total[group]
    return result


Shape = tuple[int, ...]


@lru_cache(maxsize=4096)
def _shapes_in(text: str | None) -> frozenset[Shape]:
    """The shapes of all tensors in a text of input shapes."""
    tensors = (t for one in inputs_of(text) for t in (one if isinstance(one, tuple) else (one,)))
    return frozenset(t.shape for t in tensors if isinstance(t, Tensor))


def _largest(trace: Trace, kinds: list[Kind]) -> list[Shape]:
    """Of each step the largest input among those that not every step has."""
    by_step = [frozenset[Shape]().union(*(_shapes_in(trace.text(code)) for code, _ in one)) for one in kinds]
    always = frozenset.intersection(*by_step)
    return [max(one - always or one or {()}, key=lambda shape: (math.prod(shape), shape)) for one in by_step]


def _row(timed: Timed, name: int, by_step: dict[int, Kind], time: F64) -> ShapeRow:
    kinds, spent = list(by_step.values()), time[list(by_step)]
    largest = _largest(timed.trace, kinds)
    common = Counter(largest).most_common()
    more = f", {len(common) - SHOWN_SHAPES} more" if len(common) > SHOWN_SHAPES else ""
    elements = [math.prod(shape) for shape in largest]
    return ShapeRow(
        rank=timed.trace.rank,
        name=timed.trace.strings[name],
        steps=len(kinds),
        different=len(set(kinds)),
        changed=sum(a != b for a, b in pairwise(kinds)),
        shapes=", ".join(f"{list(shape)} in {count}" for shape, count in common[:SHOWN_SHAPES]) + more,
        least_elements=min(elements),
        median_elements=float(np.median(elements)),
        most_elements=max(elements),
        shortest_ms=ms(spent.min()),
        longest_ms=ms(spent.max()),
    )


@dataclass(frozen=True)
class NewShapes:
    """Operators whose input shapes change."""

    changed: int
    """Steady steps with other shapes than the one before, of ..."""
    steps: int
    """... those that have such an operator."""
    shapes: int
    """Different shapes in the steady steps."""
    operators: list[str]
    """Names of the operators that have several."""
    idle_ms: float
    """Idle time a recorded step during host work in them."""


def new_shapes(explained: Causes, pattern: str) -> NewShapes | None:
    """Operators with such a name (regular expression) whose shapes change; None where they do not."""
    rows, steps = _recorded(explained.timed, pattern), explained.timed.steps
    ranges, gaps = explained.trace.host_ranges, explained.gaps
    name, shape = ranges.name[rows], ranges.shapes[rows]
    step = np.searchsorted(steps.host_start[steps.steady], ranges.start[rows], side="right") - 1
    by_step = [frozenset(shape[step == one].tolist()) for one in distinct(step)]
    changed = sum(shapes != before for before, shapes in pairwise(by_step))
    if not changed:
        return None
    names, counts = np.unique(np.unique(np.stack((name, shape)), axis=1)[0], return_counts=True)
    charged = (gaps.cause == IdleCause.HOST) & (gaps.device == explained.timed.device) & (gaps.step >= steps.warmup)
    idle = measure(union(ranges.start[rows], ranges.end[rows]), gaps.start[charged], gaps.end[charged])
    return NewShapes(
        changed=changed,
        steps=len(by_step),
        shapes=len(frozenset().union(*by_step)),
        operators=[explained.trace.strings[code] for code in names[counts > 1]],
        idle_ms=ms(int(idle.sum()) / steps.steady_count),
    )


def _recorded(timed: Timed, pattern: str) -> I64:
    """Rows of the host ranges of steady steps that are such operators and have recorded shapes."""
    trace = timed.trace
    ranges = trace.host_ranges
    named = texts_where(trace.strings, re.compile(pattern).search)
    recorded = (ranges.kind == RangeKind.OP) & (ranges.shapes >= 0)
    rows = np.flatnonzero(recorded)
    rows = rows[named[ranges.name[rows]]]
    return rows[timed.steady_host(ranges.start[rows])]
