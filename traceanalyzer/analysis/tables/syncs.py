"""Points where the host waits for the device, and what the device lost by it.

How long the host waited says little: waiting for a busy device is benign. What a wait costs is the
device's idle time after it, until the host is ahead again (`gaps`, cause sync)."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import EMPTY, Groups, IntervalSet, at, measure
from traceanalyzer.analysis.causes.gaps import Gaps
from traceanalyzer.analysis.causes.idle_left import IdleLeft
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.phases.roles import Phases
from traceanalyzer.analysis.time.timed import DeviceActivity, Timed
from traceanalyzer.base import dataclass, maybe, metric, ms, span
from traceanalyzer.trace import F64, I32, I64, RangeKind, distinct

BENIGN_IDLE_SHARE = 0.001
"""Waits from one place that cost the device less than this share of the step are called benign."""


@dataclass(frozen=True)
class SyncRow:
    """Waits for the device from one place in the program."""

    rank: int | None = metric("rank of the process")
    call: str = metric("API call that waited")
    op: str | None = metric("operators around the call, outermost first")
    python: str | None = metric(
        "function of the program that calls it, with the line of its `def`, where stacks were recorded"
    )
    calls: float = metric("calls a step")
    host_wait_ms: float = metric("time the host spent in these calls a step")
    device_busy_share: float | None = metric(
        "share of the host's wait in which the device was working"
    )
    gpu_idle_ms: float = metric(
        "device idle time a step because the queue was drained by these syncs"
    )
    benign: bool | None = metric(
        "whether the device lost (almost) nothing by them: it neither idles after them nor copies alone meanwhile; "
        "null where no device work was recorded"
    )
    phase: str | None = maybe(
        "phase that the calls were made in: the innermost annotated one, else what autograd tells, else between which "
        "two; null where nothing tells"
    )
    unprofiled_idle_ms: float | None = maybe(
        "device idle time because of them in the step without the profiler; null where that is not "
        "known, and of ranks that the report does not speak of"
    )


ALLOCATING_SHARE = 0.01
"""Share of the step from which calls that allocate memory are told beside the waits."""
MOST_ALLOCATING = 3  # calls of theirs that are named
MOST_LEVELS = 64  # of a path of operators the innermost: programs nest about ten


def sync_rows(
    timed: Timed, gaps: Gaps, phases: Phases, left: IdleLeft | None = None
) -> list[SyncRow]:
    """A row for each place that waits in the steady state, by device idle time, then host wait."""
    calls = timed.trace.api_calls
    rows = np.flatnonzero(timed.joined.blocks & timed.steady_calls)
    if not len(rows):
        return []
    places, place = _places(timed.joined, rows, phases)
    place = _one_of_each_step(timed, rows, list(places), place)

    def of_places(weights: I64 | F64 | None) -> list[float]:
        return np.bincount(place, weights, len(places)).tolist()

    wait = of_places(calls.end[rows] - calls.start[rows])
    idle = of_places(_idle_after(timed, gaps)[rows])
    busy = of_places(_during(timed, rows, lambda activity: activity.busy))
    copying = of_places(_during(timed, rows, lambda activity: activity.exposed_copy))
    count = of_places(None)
    idle_left = None if left is None else of_places(_left_after(timed, gaps, left)[rows])
    table = [
        _row(
            timed,
            place,
            _Waits(
                count[i],
                wait[i],
                busy[i],
                idle[i],
                copying[i],
                None if idle_left is None else idle_left[i],
            ),
        )
        for place, i in places.items()
        if count[i]
    ]
    return sorted(table, key=lambda row: (-row.gpu_idle_ms, -row.host_wait_ms))


def allocating_sentence(timed: Timed) -> str:
    """What calls that allocate or free memory take of the CPU a step without a wait for GPU work,
    which no row has; empty where that is little."""
    calls = timed.trace.api_calls
    kind = timed.linked.api_kind
    allocates = (kind == ApiKind.FREE) | (kind == ApiKind.ALLOCATE)
    rows = np.flatnonzero(allocates & timed.steady_calls & ~timed.joined.blocks)
    spent_ns = (calls.end - calls.start)[rows]
    steps = timed.steps.steady_count
    step_ns = float(np.mean(timed.steps.duration[timed.steps.steady])) if steps else 0.0
    if not len(rows) or spent_ns.sum() < ALLOCATING_SHARE * step_ns * steps:
        return ""
    names = calls.name[rows]
    counts = Counter(timed.trace.strings[code] for code in names.tolist())
    each = ", ".join(
        f"{count / steps:,.4g} {name}" for name, count in counts.most_common(MOST_ALLOCATING)
    )
    return (
        f"Not in these rows: {each} {timed.steps.per}, which take {span(ms(spent_ns.sum() / steps))} "
        "of the CPU and wait for no GPU work; `explain allocation` says what to do."
    )


class _Waits(NamedTuple):
    """The calls of a place in all steady steps; times in ns."""

    calls: float
    wait: float
    busy: float  # of the device meanwhile
    idle: float  # of the device afterwards
    copying: float  # of the device meanwhile, without compute beside it
    left_ms: float | None  # of that in a mean step without the profiler


def _row(timed: Timed, place: "Place", waits: _Waits) -> SyncRow:
    call, op, python, phase = place
    steps = timed.steps.steady_count
    idle = waits.idle / steps
    mean_step = float(np.mean(timed.steps.duration[timed.steps.steady]))
    known = timed.device is not None
    return SyncRow(
        rank=timed.trace.rank,
        call=call,
        op=op,
        python=python,
        calls=waits.calls / steps,
        host_wait_ms=ms(waits.wait / steps),
        device_busy_share=waits.busy / waits.wait if waits.wait and known else None,
        gpu_idle_ms=ms(idle),
        benign=idle + waits.copying / steps < BENIGN_IDLE_SHARE * mean_step if known else None,
        phase=phase,
        unprofiled_idle_ms=waits.left_ms,
    )


def _during(timed: Timed, rows: I64, time_of: Callable[[DeviceActivity], IntervalSet]) -> I64:
    """How long the device did something during each of these calls, ns."""
    calls = timed.trace.api_calls
    working = EMPTY if timed.device is None else time_of(timed.activity[timed.device])
    return measure(working, calls.start[rows], calls.end[rows])


def _one_of_each_step(timed: Timed, rows: I64, places: "list[Place]", place: I64) -> I64:
    """The places of the calls, where one that is in another phase in some steps is one: of places
    that differ in the phase alone, and that not every step has, the one with most calls."""
    calls = timed.trace.api_calls
    step = np.searchsorted(timed.steps.start, calls.start[rows], "right")
    numbers = len(timed.steps.start) + 1
    place_and_step = distinct(place * numbers + step)
    steps = np.bincount(place_and_step // numbers, minlength=len(places))
    now_and_then: dict[tuple[str | None, ...], list[int]] = {}
    for i, (*same, _) in enumerate(places):
        if steps[i] < timed.steps.steady_count:
            now_and_then.setdefault(tuple(same), []).append(i)
    becomes = np.arange(len(places))
    counts = np.bincount(place, minlength=len(places))
    for alike in now_and_then.values():
        becomes[alike] = max(alike, key=lambda i: counts[i])
    return becomes[place]


def _idle_after(timed: Timed, gaps: Gaps) -> I64:
    """Idle time in steady steps that each API call caused by waiting, ns."""
    caused = np.flatnonzero(gaps.sync >= 0)
    lengths = np.maximum(steady_lengths(timed, gaps)[caused], 0)
    idle = np.zeros(len(timed.trace.api_calls), np.int64)
    np.add.at(idle, gaps.sync[caused], lengths)
    return idle


def _left_after(timed: Timed, gaps: Gaps, left: IdleLeft) -> F64:
    """Idle time of a mean step without the profiler that each API call causes by waiting, ms."""
    caused = np.flatnonzero(gaps.sync >= 0)
    idle = np.zeros(len(timed.trace.api_calls))
    np.add.at(idle, gaps.sync[caused], left.of_gap[caused])
    return idle


Place = tuple[str, str | None, str | None, str | None]


def _places(joined: HostAttribution, rows: I64, phases: Phases) -> tuple[dict[Place, int], I64]:
    """The distinct places of calls, numbered in the order of the calls, and the number of each
    call's place."""
    calls = joined.trace.api_calls
    node = joined.linked.tree.node_of_call[rows].astype(np.int64)
    line = joined.python.line_at(calls.thread[rows], calls.start[rows])
    alike = Groups.of(
        calls.name[rows], same_path(joined.linked, node), line, *phases.named_by(joined.trace, node)
    )
    labels: list[Place] = []
    for i in alike.first.tolist():
        row = int(rows[i])
        around = int(node[i])
        frame = joined.python.source_line(int(calls.thread[row]), int(calls.start[row]))
        call = joined.trace.strings[calls.name[row]]
        phase = phases.name_of(joined.trace, around)
        labels.append((call, op_path(joined.linked, around), frame, phase))
    met = dict.fromkeys(labels[i] for i in np.argsort(alike.first).tolist())
    places = {label: i for i, label in enumerate(met)}
    return places, np.array([places[label] for label in labels])[alike.index]


def op_path(linked: TraceJoins, node: int) -> str | None:
    """Operators that enclose a node of the host tree, outermost first, as `a > b`; None outside
    all."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    names: list[str] = []
    for _ in range(MOST_LEVELS):
        if node < 0:
            break
        row = int(tree.row[node])
        if not tree.is_call[node] and int(ranges.kind[row]) == RangeKind.OP:
            names.append(linked.trace.strings[ranges.name[row]])
        node = int(tree.parent[node])
    return " > ".join(reversed(names)) or None


def same_path(linked: TraceJoins, node: I32 | I64) -> I32 | I64:
    """Numbers that are equal for nodes of the host tree with equal operators around them."""
    tree = linked.tree
    path: I32 | I64 = np.zeros(len(node), np.int64)
    for _ in range(MOST_LEVELS):
        if not (node >= 0).any():
            break
        is_operator = at(tree.kind, node, 0) == RangeKind.OP
        name = np.where(is_operator, tree.names(node), -1)
        path = Groups.of(path, name).index
        node = at(tree.parent, node, -1)
    return path


def steady_lengths(timed: Timed, gaps: Gaps) -> I64:
    """How much of each gap on the steps' device lies in steady steps, ns; 0 or less for what lies
    outside."""
    steps = timed.steps
    device = -1 if timed.device is None else timed.device
    length = np.minimum(gaps.end, int(steps.end[-1])) - np.maximum(
        gaps.start, int(steps.start[steps.warmup])
    )
    return np.where(gaps.device == device, length, 0)
