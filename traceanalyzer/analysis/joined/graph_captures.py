"""Which capture of a CUDA graph a replay is of, and which of its launches each replayed op is.

Every replay runs what was launched while the stream was captured, in that order. Kinds of launches
tell a capture from others, and where the recorder says so (AMD) the names of their kernels. Where a
graph has parallel branches, ops start in another order than they were launched in: only ids of the
graph's nodes or names then tell which is which."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.joined.launched import Capture, bore_work, captures, is_nested
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.base import regex
from traceanalyzer.trace import I64, RangeKind

LAUNCHES = (ApiKind.LAUNCH, ApiKind.COPY, ApiKind.SET)
"""In the order of the first kinds of device ops: kernels, copies, memsets."""
KERNEL = 0  # place of kernels in `LAUNCHES`
MOSTLY = 0.5
"""Share of the kernels that a capture of another batch has in common with a replay at least."""
_NUMBER = regex(r"capture_(\d{1,18})")
_BY_KERNEL = (
    ("__amd_rocclr_copy", LAUNCHES.index(ApiKind.COPY)),
    ("__amd_rocclr_fill", LAUNCHES.index(ApiKind.SET)),
)
"""Kernels by which AMD's graphs copy and set memory."""


What = tuple[int, str]
"""What is the same of a launch and of the op that it becomes: the kind, and of kernels the name."""


class Launched(NamedTuple):
    """Launches in order, of one thread, or of several that launched into one capture."""

    linked: TraceJoins
    threads: tuple[int, ...]
    begin: int  # ranges that began before are around all of them
    time: I64
    kind: I64  # place in `LAUNCHES`
    kernels: tuple[str, ...]  # empty where the recorder does not say
    number: int | None = None  # the batch that a capture is named for
    group: int = -1  # row of the range that names it, in which other graphs may be captured too


class GraphReplay(NamedTuple):
    """A graph launch, with what tells its capture."""

    call: int
    ops: I64  # in the order of their starts
    turn: I64  # for each op its place in the order of launches; a node that runs again has its own
    is_ordered: bool  # whether that order is certain
    size: int | None  # requests or tokens that its mark tells, whichever captures are named for
    part: int = 0  # which launch of a graph it is in its iteration
    parts: int = 1  # and of how many

    @property
    def nodes(self) -> I64:
        """An op of each node, in the order of launches."""
        return self.ops[np.unique(self.turn, return_index=True)[1]]


class Source(NamedTuple):
    """Where a replay's operators come from."""

    launched: Launched
    # whether inputs are those of the replay, too: of its batch
    is_exact: bool
    launch: I64  # for each op of the replay the place of its launch


class RangesAround(NamedTuple):
    """Ranges around launches, each before those inside of it."""

    rows: I64
    first: I64  # for each range the first launch in it
    until: I64  # and the one behind its last
    owner: I64  # for each launch the place of the innermost operator among the ranges, -1: none


def launch_order(linked: TraceJoins, rows: I64) -> tuple[I64, bool]:
    """For each op of a replay, in the order of their starts, its place in the order of launches, and
    whether that is certain: on a single stream ops start in it, else the ids of nodes tell it."""
    ops = linked.trace.device_ops
    node = ops.graph_node[rows]
    streams = np.column_stack((ops.context[rows], ops.stream[rows]))
    on_one_stream = len(np.unique(streams, axis=0)) == 1
    each, place = np.unique(node, return_inverse=True)
    ran_again = len(each) < len(rows)
    if (node >= 0).all() and (ran_again or not on_one_stream):
        return place.reshape(-1).astype(np.int64), True
    return np.arange(len(rows)), on_one_stream


def launches_of(
    linked: TraceJoins, rows: I64, begin: int, number: int | None = None, group: int = -1
) -> Launched:
    """These API calls."""
    calls = linked.trace.api_calls
    strings = linked.trace.strings
    kind = np.select([linked.api_kind[rows] == one for one in LAUNCHES], range(len(LAUNCHES)))
    names = tuple(strings[code] if code >= 0 else "" for code in calls.kernel[rows].tolist())
    return Launched(
        linked,
        tuple(sorted(set(calls.thread[rows].tolist()))),
        begin,
        calls.start[rows],
        kind.astype(np.int64),
        names if any(names) else (),
        number,
        group,
    )


def captured_launches(linked: TraceJoins) -> Iterator[Launched]:
    """What was launched into each graph while its stream was captured, also by other threads (a
    backward pass): a launch with a device op of its own ran at once (a warm-up, a copy of inputs)
    and is in no graph."""
    calls = linked.trace.api_calls
    launching = isin_few(linked.api_kind, LAUNCHES) & ~linked.memo(is_nested)
    launching &= ~linked.memo(bore_work)
    every = linked.memo(captures)
    for capture in every:
        during = (calls.start >= capture.start) & (calls.start < capture.end)
        elsewhere = np.isin(calls.thread, _capturing_beside(capture, every))
        launches = np.flatnonzero(launching & during & ~elsewhere)
        if len(launches):
            launches = launches[np.argsort(calls.start[launches], kind="stable")]
            number, group = _named_for(linked, capture)
            yield launches_of(linked, launches, capture.start + 1, number, group)


def _capturing_beside(capture: Capture, every: Sequence[Capture]) -> list[int]:
    """The other threads that capture a graph of their own meanwhile."""
    return [
        other.thread
        for other in every
        if other.thread != capture.thread
        and other.start < capture.end
        and other.end > capture.start
    ]


def _named_for(linked: TraceJoins, capture: Capture) -> tuple[int | None, int]:
    """The batch that a range around the capture names, and that range's row; None and -1 without
    one."""
    ranges = linked.trace.host_ranges
    around = (ranges.start <= capture.start) & (ranges.end > capture.start)
    for row in np.flatnonzero(around)[::-1].tolist():
        found = _NUMBER.match(linked.trace.strings[ranges.name[row]])
        if found is not None:
            return int(found[1]), row
    return None, -1


class _Alike(NamedTuple):
    """A capture with the launches of a replay."""

    launched: Launched
    launch: I64  # for each op of the replay the place of its launch
    same: float  # share of the kernels that have the same name


def capture_of(
    linked: TraceJoins, replay: GraphReplay, captured: Sequence[Launched]
) -> Source | None:
    """The capture that a replay is of: of those with its launches the one of the smallest batch
    that holds it. None where none has them, or where several do that differ in operators."""
    compared = (_compared(linked, replay, one) for one in captured)
    alike = [one for one in compared if one is not None]
    told = _part(replay, captured, _of_batch(alike, replay.size))
    if not told or len({operators_of(one.launched) for one in told}) > 1:
        return None
    launched, launch, same = told[0]
    is_of_batch = launched.number is not None and replay.size is not None
    return Source(launched, same == 1 and (is_of_batch or len(alike) == 1), launch)


def _of_batch(alike: list[_Alike], size: int | None) -> list[_Alike]:
    """The captures of the smallest batch that holds so many; where the batch is not told, those
    with most of the same kernels."""
    sizes = [one.launched.number or 0 for one in alike]
    wanted = sorted(number for number in sizes if size and number >= size)
    if wanted:
        return [one for one in alike if one.launched.number == wanted[0]]
    most = max((one.same for one in alike), default=0.0)
    return [one for one in alike if one.same == most]


def _part(replay: GraphReplay, captured: Sequence[Launched], alike: list[_Alike]) -> list[_Alike]:
    """Where an iteration launches as many graphs as were captured for its batch, these are the
    parts of its model, in order: the one at its place, else all."""
    groups: dict[tuple[int, int], list[Launched]] = defaultdict(list)
    for launched in captured:
        groups[id(launched.linked), launched.group].append(launched)
    for launched, *_ in alike:
        parts = groups[id(launched.linked), launched.group]
        if launched.group >= 0 and len(parts) == replay.parts > 1:
            return [other for other in alike if other.launched is parts[replay.part]]
    return alike


def ranges_around_launches(launched: Launched) -> RangesAround:
    """The ranges around these launches, but those that began before."""
    ranges = launched.linked.trace.host_ranges
    inside = isin_few(ranges.thread, launched.threads) & (ranges.start >= launched.begin)
    rows = np.flatnonzero(inside & (ranges.start <= launched.time[-1]))
    first = np.searchsorted(launched.time, ranges.start[rows])
    until = np.searchsorted(launched.time, ranges.end[rows])
    order = np.lexsort((-ranges.end[rows], ranges.start[rows]))
    order = order[until[order] > first[order]]
    rows = rows[order]
    first = first[order]
    until = until[order]
    owner = np.full(len(launched.time), -1, np.int64)
    for i in np.flatnonzero(ranges.kind[rows] == RangeKind.OP).tolist():
        owner[first[i] : until[i]] = i
    return RangesAround(rows, first, until, owner)


def operators_of(launched: Launched) -> tuple[str, ...]:
    """For each launch the name of its operator, empty without one."""
    around = ranges_around_launches(launched)
    names = launched.linked.trace.host_ranges.name[around.rows].tolist()
    strings = launched.linked.trace.strings
    return tuple(strings[names[i]] if i >= 0 else "" for i in around.owner.tolist())


def _compared(linked: TraceJoins, replay: GraphReplay, launched: Launched) -> _Alike | None:
    """The capture beside the replay; None where it has other launches, or where it is not told
    which op is of which."""
    nodes = replay.nodes
    if len(nodes) != len(launched.kind):
        return None
    kinds, names = _kinds_and_names(linked, nodes)
    run = _whats(kinds, names)
    wanted = _whats(launched.kind, launched.kernels or names)
    if replay.is_ordered:
        share = _same_share(run, wanted)
        is_alike = np.array_equal(kinds, launched.kind) and share >= MOSTLY
        return _Alike(launched, replay.turn, share) if is_alike else None
    of_node = _by_name(run, wanted) if launched.kernels else None
    return None if of_node is None else _Alike(launched, of_node[replay.turn], 1.0)


def _same_share(run: list[What], wanted: list[What]) -> float:
    """Share of the kernels that have the name of their launch."""
    kernels = [place for place, (kind, _) in enumerate(run) if kind == KERNEL]
    same = sum(run[place] == wanted[place] for place in kernels)
    return same / len(kernels) if kernels else 1.0


def _kinds_and_names(linked: TraceJoins, rows: I64) -> tuple[I64, list[str]]:
    """For each device op the place in `LAUNCHES` of what launches such, and its name."""
    ops = linked.trace.device_ops
    strings = linked.trace.strings
    names = [strings[code] for code in ops.name[rows].tolist()]
    kinds = ops.kind[rows].astype(np.int64) - 1
    for prefix, kind in _BY_KERNEL:
        kinds[[name.startswith(prefix) for name in names]] = kind
    return kinds, names


def _by_name(run: list[What], wanted: list[What]) -> I64 | None:
    """For each node the place of its launch, the first of a kernel's to the first; None where they
    are not the same kernels."""
    if sorted(run) != sorted(wanted):
        return None
    launches: dict[What, deque[int]] = defaultdict(deque)
    for place, what in enumerate(wanted):
        launches[what].append(place)
    of_node = [launches[what].popleft() for what in run]
    return np.array(of_node, np.int64)


def _whats(kinds: I64, names: Sequence[str]) -> list[What]:
    """`What` each of them is."""
    return [
        (kind, name if kind == KERNEL else "")
        for kind, name in zip(kinds.tolist(), names, strict=True)
    ]
