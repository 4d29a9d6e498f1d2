"""Phases of a step (forward, backward, optimizer, data loading, ...) on the host and on the device.

Phases are what the program or its libraries annotated inside a step (`record_function`, NVTX,
PyTorch's own `Optimizer.step#...`). In a recording of operators whose annotations do not tell
forward from backward these are derived from autograd (`derived_phases`). Modules that are annotated
have a table of their own."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    IntervalSet,
    clip,
    counts,
    flatnonzero32,
    levels,
    measure,
    stable_order,
    union,
)
from traceanalyzer.analysis.causes.gaps import Gaps
from traceanalyzer.analysis.causes.idle_left import IdleLeft
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.phase_names import INPUT_NAMES, Role, role_of
from traceanalyzer.analysis.phases.derived_phases import derived_phases, host_time
from traceanalyzer.analysis.phases.phase_ranges import PhaseRanges
from traceanalyzer.analysis.phases.roles import NUMBER, Phases
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, maybe, metric, ms, ratio
from traceanalyzer.trace import I32, I64, distinct_places


@dataclass(frozen=True)
class PhaseStats:
    """One phase in the steady state. Phases inside phases follow the one that holds them."""

    rank: int | None = metric("rank of the process")
    name: str = metric("name of the annotation; # stands for numbers in which its instances differ")
    depth: int = metric("how many phases enclose it")
    within: str | None = metric("phases that enclose it, outermost first")
    derived: bool = metric("whether it was derived from autograd instead of an annotation")
    is_input: bool = metric("whether it is named like loading of input data")
    calls: float | None = metric("instances a step; null where it was derived")
    host_ms: float = metric(
        "host time inside it a step (union on each thread); of a derived phase the time "
        "of its operators"
    )
    host_share: float | None = metric(
        "host time as a share of the step's wall-clock time, at most 1"
    )
    device_ms: float | None = metric(
        "time with work on the device (union) that was launched inside it, or on its behalf by a thread in no "
        "phase while its own thread was blocked in it, a step; null without device work"
    )
    device_share: float | None = metric("device time as a share of the step's wall-clock time")
    device_span_ms: float | None = metric(
        "from the first start to the last end of the device work of an instance, summed over a step's instances; "
        "null where the phase was derived"
    )
    role: str | None = maybe(
        "what it is for: forward, backward, optimizer, data, logging or checkpoint; null "
        "where its name does not say"
    )
    gpu_idle_ms: float | None = maybe(
        "idle time of the GPU a step while the host was in it, whatever the cause; null "
        "without device work"
    )
    waits: float | None = maybe(
        "calls a step inside it that block the CPU until the GPU has finished something; null where API calls were not "
        "recorded"
    )
    unprofiled_idle_ms: float | None = maybe(
        "what is left of that idle time in the step without the profiler; null where that is not known, and of ranks "
        "that the report does not speak of"
    )


@dataclass(frozen=True, eq=False)
class PhaseIdle:
    """The recorded gaps, and what is left of each without the profiler."""

    gaps: Gaps
    left: IdleLeft

    def inside_ms(self, host: IntervalSet) -> float:
        """Idle time without the profiler, a step, of what lies in these stretches of the host."""
        some = np.flatnonzero(self.left.of_gap > 0)
        start = self.gaps.start[some]
        end = self.gaps.end[some]
        share = measure(host, start, end) / np.maximum(end - start, 1)
        return float((share * self.left.of_gap[some]).sum())


class _Phase(NamedTuple):
    """What a row is made of."""

    path: tuple[str, ...]  # names from the outermost phase down
    calls: int | None
    rows: I32 | I64  # host ranges: its instances, or of a derived phase its operators
    ops: I32 | I64  # device ops, and ...
    instance: I32 | I64 | None  # ... the instance that each belongs to; None in a derived phase.
    role: Role


def phase_stats(
    timed: Timed, phases: Phases, unprofiled: PhaseIdle | None = None
) -> list[PhaseStats]:
    """A row for each phase, in the order of the program, phases inside others after them."""
    step_ns = float(timed.steps.duration[timed.steps.steady].mean())
    derived = derived_phases(timed, phases.ranges, phases.by_autograd)
    others = (
        _Phase((role.label,), calls=None, rows=rows, ops=ops, instance=None, role=role)
        for role, rows, ops in derived
    )
    found = [*_annotated(timed, phases.ranges), *others]
    # What of the forward pass runs again in the backward pass.
    tree = timed.linked.tree
    ops = timed.trace.device_ops
    again = timed.joined.run_again
    nodes = np.flatnonzero(again[:-1] & ~again[tree.parent[:]] & ~tree.is_call)
    rows = tree.row[nodes[timed.steady_host(tree.start[nodes])]]
    if len(rows):
        recomputed = np.flatnonzero(
            again[timed.joined.launch_node] & timed.steady_ops & (ops.device == timed.device)
        )
        found.append(
            _Phase((Role.BACKWARD.label, "recomputation"), None, rows, recomputed, None, Role.NONE)
        )
    return [_row(timed, step_ns, phase, unprofiled) for phase in found]


def _annotated(timed: Timed, ranges: PhaseRanges) -> Iterator[_Phase]:
    """The annotated phases, one after the other: an op belongs to all that enclose it."""
    table = timed.trace.host_ranges
    names, texts = _shared_names(timed.trace.strings, table.name[ranges.row])
    path_of, paths = _paths(names, texts, ranges.parent)
    steady = timed.steady_host(table.start[ranges.row])
    steady_path = np.where(steady, path_of, np.int32(len(paths)))
    instances = _by_path(steady_path, len(paths) + 1)
    launched = _LaunchedIn.of(timed, ranges, path_of, paths)
    for path in _in_program_order(timed.linked, ranges, path_of, paths):
        chosen = ranges.row[instances[path]]
        if len(chosen):
            ops, instance = launched.inside(path)
            yield _Phase(
                path=paths[path],
                calls=len(chosen),
                rows=chosen,
                ops=ops,
                instance=instance,
                role=role_of(paths[path][-1]),
            )


@dataclass(frozen=True, eq=False)
class _LaunchedIn:
    """Device ops of the steady state by the phase that launched them."""

    ranges: PhaseRanges
    paths: list[tuple[str, ...]]
    inner: list[list[int]]  # for each path itself and those that go on from it
    ops: I32  # device ops
    members: list[I64]  # for each path which of the ops its instances launched

    @classmethod
    def of(
        cls, timed: Timed, ranges: PhaseRanges, path_of: I32, paths: list[tuple[str, ...]]
    ) -> "_LaunchedIn":
        """The ops on the steps' device; `path_of`: the path of each instance."""
        of_device = timed.trace.device_ops.device == timed.device
        ops = flatnonzero32((ranges.of_op >= 0) & timed.steady_ops & of_device)
        members = _by_path(path_of[ranges.of_op[ops]], len(paths))
        return cls(ranges, paths, _inside(paths), ops, members)

    def inside(self, path: int) -> tuple[I32, I32]:
        """The ops launched anywhere inside of instances of this path, and the instance of each."""
        ops = []
        instances = []
        for inner in self.inner[path]:
            launched = self.ops[self.members[inner]]
            instance = self.ranges.of_op[launched]
            for _ in range(len(self.paths[inner]) - len(self.paths[path])):
                instance = self.ranges.parent[instance]
            ops.append(launched)
            instances.append(instance)
        return np.concatenate(ops), np.concatenate(instances)


def _row(timed: Timed, step_ns: float, phase: _Phase, unprofiled: PhaseIdle | None) -> PhaseStats:
    ops = timed.trace.device_ops
    table = timed.trace.host_ranges
    steps = timed.steps.steady_count
    start = ops.start[phase.ops]
    end = ops.end[phase.ops]
    device = span = idle = left_ms = None
    if timed.device is not None:
        device = _in_steps(timed, start, end).total / steps
        span = None if phase.instance is None else _spans(start, end, phase.instance) / steps
        inside = _in_steps(timed, table.start[phase.rows], table.end[phase.rows])
        gaps = timed.activity[timed.device].gaps
        idle = int(measure(gaps, inside.start, inside.end).sum()) / steps
        left_ms = None if unprofiled is None else unprofiled.inside_ms(inside)
    host_ns = host_time(timed, phase.rows)
    return PhaseStats(
        rank=timed.trace.rank,
        name=phase.path[-1],
        depth=len(phase.path) - 1,
        within=" > ".join(phase.path[:-1]) or None,
        derived=phase.instance is None,
        is_input=bool(INPUT_NAMES.search(phase.path[-1])),
        calls=ratio(phase.calls, steps),
        host_ms=ms(host_ns / steps),
        host_share=min(host_ns / steps / step_ns, 1.0) if step_ns else None,
        device_ms=None if device is None else ms(device),
        device_share=ratio(device, step_ns),
        device_span_ms=None if span is None else ms(span),
        role=phase.role.label if phase.role else None,
        gpu_idle_ms=None if idle is None else ms(idle),
        waits=_waits(timed, phase.rows),
        unprofiled_idle_ms=left_ms,
    )


def _in_steps(timed: Timed, start: I64, end: I64) -> IntervalSet:
    """The union of these, as far as it lies in steady steps: what is launched in one may run before
    it or after it."""
    steady = timed.steps.steady
    begin = int(timed.steps.start[steady][0])
    end_of_all = int(timed.steps.end[steady][-1])
    return clip(union(start, end), (begin, end_of_all))


def _waits(timed: Timed, rows: I32 | I64) -> float | None:
    """Blocking calls a step in these ranges, on their own threads."""
    if not len(timed.trace.api_calls):
        return None
    if not len(rows):
        return 0.0
    waiting = timed.memo(_waiting)
    node = np.sort(timed.linked.tree.node_of_range[rows])
    last = np.searchsorted(node, waiting, side="right") - 1
    reach = np.maximum.accumulate(timed.linked.tree.subtree_end[node])
    inside = (last >= 0) & (waiting < reach[last])
    return float(inside.sum()) / timed.steps.steady_count


def _waiting(timed: Timed) -> I32:
    """Nodes of the calls that wait for the device in steady steps."""
    return timed.linked.tree.node_of_call[timed.joined.blocks & timed.steady_calls]


def _spans(start: I64, end: I64, instance: I32 | I64) -> int:
    """Time from the first start to the last end in each instance, summed, ns."""
    instances, index = distinct_places(instance)
    first = np.full(len(instances), np.iinfo(np.int64).max)
    last = np.zeros(len(instances), np.int64)
    np.minimum.at(first, index, start)
    np.maximum.at(last, index, end)
    return int((last - first).sum())


def _shared_names(strings: list[str], names: I32) -> tuple[I32, list[str]]:
    """Which of some texts is the name of each instance (given by code): with # for numbers, where
    several names differ in nothing else."""
    codes, place = distinct_places(names)
    texts = [strings[code] for code in codes.tolist()]
    general = {text: NUMBER.sub("#", text) for text in texts}
    instances = Counter(general.values())
    shared = [general[text] if instances[general[text]] > 1 else text for text in texts]
    index = {name: i for i, name in enumerate(dict.fromkeys(shared))}
    return np.array([index[name] for name in shared], np.int32)[place], list(index)


def _paths(
    names: I32,
    texts: list[str],
    parent: I32,
) -> tuple[I32, list[tuple[str, ...]]]:
    """The path (names from the outermost phase down) of each instance as an index, and the paths,
    each after the one that it goes on from."""
    result = np.empty(len(names), np.int32)
    paths = list[tuple[str, ...]]()
    depth = np.zeros(len(parent), np.int32)
    rows = flatnonzero32(parent >= 0)
    above = parent[rows]
    while len(rows):
        depth[rows] += 1
        above = parent[above]
        rows = rows[above >= 0]
        above = above[above >= 0]
    for level, rows in enumerate(levels(depth)):
        key = names[rows].astype(np.int64)
        if level:
            key += np.multiply(result[parent[rows]], len(texts), dtype=np.int64)
        known, place = distinct_places(key)
        result[rows] = place + len(paths)
        own = (divmod(one, len(texts)) for one in known.tolist())
        paths += [(*(paths[around] if level else ()), texts[name]) for around, name in own]
    return result, paths


def _inside(paths: list[tuple[str, ...]]) -> list[list[int]]:
    """For each path itself and those that go on from it."""
    inside: dict[tuple[str, ...], list[int]] = {path: [] for path in paths}
    for i, path in enumerate(paths):
        for length in range(len(path)):
            inside[path[: length + 1]].append(i)
    return list(inside.values())


def _by_path(path: I32, count: int) -> list[I64]:
    """Positions of each path."""
    return np.split(stable_order(path), np.cumsum(counts(path, count))[:-1])


def _in_program_order(
    linked: TraceJoins, ranges: PhaseRanges, path_of: I32, paths: list[tuple[str, ...]]
) -> list[int]:
    """Paths by first start, each before those inside it."""
    first = np.full(len(paths), np.iinfo(np.int64).max)
    np.minimum.at(first, path_of, linked.trace.host_ranges.start[ranges.row])
    begin = dict(zip(paths, first.tolist(), strict=True))

    def place(number: int) -> tuple[tuple[int, str], ...]:
        path = paths[number]
        until = (path[: level + 1] for level in range(len(path)))
        return tuple((begin[outer], outer[-1]) for outer in until)

    return sorted(range(len(paths)), key=place)
