"""Gaps as rows for people: each with its cause in words, by length, and by place (which call,
operator or line of the program stands behind them)."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import (
    Groups,
    at,
    blockwise,
    compact,
    flatnonzero32,
    isin_few,
    largest,
    look_up,
)
from traceanalyzer.analysis.algebra.lazy_rows import lazy_rows
from traceanalyzer.analysis.causes.asleep import asleep_in
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import OF_NO_CALL, IdleDetail
from traceanalyzer.analysis.causes.frames import python_frames
from traceanalyzer.analysis.causes.gaps import Gaps, GapSide
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.causes.idle_left import IdleLeft, Place
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.path_rows import (
    LEAST_SPLIT_NS,
    NodeNames,
    is_named,
    main_nodes,
    outside,
    place_times,
    within,
)
from traceanalyzer.analysis.tables.step_figures import Idle
from traceanalyzer.analysis.tables.syncs import op_path, same_path, steady_lengths
from traceanalyzer.analysis.time.host_timeline import dominant_nodes
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_US, cut, dataclass, digits, maybe, metric, ms
from traceanalyzer.trace import F64, I32, I64, Bool, distinct, narrowed

_CAUSES = [cause.label for cause in IdleCause]


@dataclass(frozen=True)
class GapRow:
    """A stretch in which a device had no work."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device")
    start_ns: int = metric("start on the recording's own clock")
    duration_ns: int = metric("length of the gap")
    step: int | None = metric("index of the step whose work ended the gap")
    cause: str = metric("what the device was waiting for", text="own")
    detail: str = metric("what the host was doing, and the op that ended the gap", text="sentence")


@dataclass(frozen=True)
class GapHistogramRow:
    """Gaps of the steady state whose length lies in a decade."""

    length: str = metric("range of gap lengths")
    scale: str = metric(
        "micro: latency between ops that follow each other; macro: the device ran dry", text="own"
    )
    gaps: float = metric("gaps a step")
    idle_ms: float = metric("idle time a step in them")
    launch_ms: float = metric("part of it caused by launching")
    sync_ms: float = metric("part of it caused by waits for the device")
    host_ms: float = metric("part of it caused by other CPU work")
    other_ms: float = metric("part of it with any other cause")


BOUNDS_US = (0, 2, 5, 10, 50, 100, 1_000, 10_000, float("inf"))
MICRO_GAP_US = 10
"""Gaps up to this are latency of launching and of the device's front end; longer ones mean that it
ran dry."""


IN_COLUMNS = (IdleCause.LAUNCH, IdleCause.SYNC, IdleCause.HOST)
"""Causes with a column of their own in the histogram."""
PART_OF_GAP = 0.01
"""What takes less of a gap counts to where the host was for longest in it ..."""
TOLD_PART = 0.1
"""... and what takes less than this is not in the gap's sentence."""
LONGEST_NAME = 60  # characters of an op's name in a sentence
NOWHERE = "(launch not recorded)"
OUTSIDE = "(outside operators and calls)"
NO_GAP = "(in no recorded gap)"


def gap_rows(timed: Timed, gaps: Gaps, chosen: I64) -> list[GapRow]:
    """Rows for the chosen gaps, in the order given."""
    first = timed.steps.first
    some = gaps.take(chosen)
    rank = timed.trace.rank
    labels = [cause.label for cause in IdleCause]
    step = [
        first + step if timed.steps.found and step >= 0 else None for step in some.step.tolist()
    ]
    columns = (some.device.tolist(), some.start.tolist(), some.duration.tolist(), step)
    causes = (labels[cause] for cause in some.cause.tolist())
    return [
        GapRow(rank, *row)
        for row in zip(*columns, causes, gap_details(timed, gaps, chosen), strict=True)
    ]


def longest_gaps(explained: Causes, top: int | None, min_us: float) -> list[GapRow]:
    """Rows of the gaps of at least that length, in time order; of all, or of the `top` longest that
    reach into the steady steps. Of the longest ones those are listed, too, that a step begins or ends
    with: they are part of its idle time."""
    gaps = explained.gaps
    steps = explained.timed.steps
    listed = gaps.side == GapSide.INSIDE
    if top is not None and steps.found:
        listed = listed | (gaps.step >= 0)
        listed &= gaps.end > steps.start[steps.warmup]
        listed &= gaps.start < steps.end[-1]
    chosen = listed & (gaps.duration >= min_us * NS_PER_US)
    if explained.timed.only_step is not None:
        chosen &= (gaps.end > steps.start[0]) & (gaps.start < steps.end[-1])
    index = np.flatnonzero(chosen)
    if top is not None:
        index = np.sort(index[largest(gaps.duration[index], top)])
    return gap_rows(explained.timed, gaps, index)


def gap_histogram(timed: Timed, gaps: Gaps) -> list[GapHistogramRow]:
    """Gaps of the steady state on the step's device by length, clipped to the steps' windows."""
    steps = timed.steps.steady_count
    rows = []
    for length, cause, low, high in _by_length(timed, gaps):
        total = ms(length.sum() / steps)
        launch, sync, host = (ms(length[cause == one].sum() / steps) for one in IN_COLUMNS)
        scale = "micro" if high <= MICRO_GAP_US * NS_PER_US else "macro"
        other = max(total - launch - sync - host, 0.0)
        count = len(length) / steps
        name = _range(low, high)
        rows.append(GapHistogramRow(name, scale, count, total, launch, sync, host, other))
    return rows


def idle_by_length(timed: Timed, gaps: Gaps) -> dict[str, Idle]:
    """Idle time of the mean steady step by cause for each length of the histogram."""
    steps = timed.steps.steady_count
    return {
        _range(low, high): Idle(
            *(ms(ns / steps) for ns in np.bincount(cause, length, len(IdleCause)).tolist())
        )
        for length, cause, low, high in _by_length(timed, gaps)
    }


def _by_length(timed: Timed, gaps: Gaps) -> Iterator[tuple[I64, I64, float, float]]:
    """Lengths and causes of the gaps of each range that has some, and its ends."""
    length = steady_lengths(timed, gaps)
    cause = gaps.cause[length > 0]
    length = length[length > 0]
    for low, high in pairwise((np.array(BOUNDS_US) * NS_PER_US).tolist()):
        inside = (length >= low) & (length < high)
        if inside.any():
            yield length[inside], cause[inside], low, high


def _range(low: float, high: float) -> str:
    def text(ns: float) -> str:
        return f"{ns / 1e3:g} us" if ns < 1e6 else f"{ns / 1e6:g} ms"

    return f"{text(low)} to {text(high)}" if high != float("inf") else f"over {text(low)}"


def gap_details(timed: Timed, gaps: Gaps, chosen: I64) -> list[str]:
    """For each of these gaps (rows) its cause in words: what the host was doing, and the op that
    ended it."""
    some = gaps.take(chosen)
    followed = some.next_op >= 0
    launched = some.end.copy()
    launched[followed] = timed.linked.launch_times_of(some.next_op[followed])
    on_host = (
        (some.cause != IdleCause.SYNC) & ~isin_few(some.detail, OF_NO_CALL) & (some.queued == 0)
    )
    on_host &= (some.cause == IdleCause.HOST) | ~followed | (launched >= 0)
    host = _host_activities(timed, some.take(on_host))

    @cache
    def ended_by(code: int, is_kernel: bool) -> str:
        name = timed.trace.strings[code]
        return f"; ended by {cut(short_name(name) if is_kernel else name, LONGEST_NAME)}"

    names = at(timed.trace.device_ops.name, some.next_op, -1)
    kernels = at(timed.linked.is_kernel, some.next_op, False)
    columns = zip(
        on_host.tolist(), followed.tolist(), names.tolist(), kernels.tolist(), strict=True
    )
    return [
        (next(host) if told else _other_cause(timed, some, i))
        + (ended_by(*op) if follows else "; nothing follows")
        for i, (told, follows, *op) in enumerate(columns)
    ]


def _other_cause(timed: Timed, gaps: Gaps, i: int) -> str:
    """The cause of a gap in which it does not matter what the host did, or is not known."""
    cause = IdleCause(gaps.cause[i])
    named = IdleDetail(gaps.detail[i])
    if cause == IdleCause.SYNC:
        call = int(gaps.sync[i])
        name = timed.trace.strings[timed.trace.api_calls.name[call]]
        path = op_path(timed.linked, int(timed.linked.tree.node_of_call[call]))
        return f"queue drained by {name}" + (f" in {path}" if path else "")
    if named in OF_NO_CALL:
        return named.label
    if gaps.queued[i]:
        known = (
            "device-side latency"
            if cause == IdleCause.LAUNCH
            else "it waited for something not recorded"
        )
        return f"the next op was already queued: {known}"
    return "the launch of the next op was not recorded"


def _host_activities(timed: Timed, gaps: Gaps) -> Iterator[str]:
    """What the host did for the longest time between the start of each gap and the launch."""
    start, until, launching_thread = _until_launched(timed, gaps)
    nodes, threads = main_nodes(NodeNames.of(timed), start, until, launching_thread)
    stretches = _Stretches(start, until, nodes, threads)
    before = _calls_before(timed, start, np.where(nodes < 0, threads, -1))
    texts = _in_words(timed, gaps, nodes, threads)
    more = zip(texts, _other_parts(timed, stretches), before, strict=True)
    for (text, parts, call), stretch in zip(more, stretches.extents(), strict=True):
        where = python_frames(timed, *stretch) or asleep_in(timed, *stretch)
        told = text + (f" with {parts}" if parts else "") + (f" after {call}" if call else "")
        yield told + (f" at {where}" if where else "")


class _Stretches(NamedTuple):
    """Stretches of time, each with the node of the host tree and the thread that it is told of."""

    start: I64
    end: I64
    node: I64
    thread: I64

    def extents(self) -> Iterator[tuple[int, int, int]]:
        """Thread, start and end of each."""
        columns = (self.thread, self.start, self.end)
        return zip(*(column.tolist() for column in columns), strict=True)


def _other_parts(timed: Timed, stretches: _Stretches) -> list[str]:
    """Places, other than those of their nodes, that take much of these stretches, each with its
    time; empty without."""
    start, end, nodes, threads = stretches
    long = np.flatnonzero(end - start >= LEAST_SPLIT_NS)
    names = NodeNames.of(timed)
    places = place_times(names, start[long], end[long], threads[long])
    stretch = long[places.stretch]
    is_told = places.spent >= TOLD_PART * (end - start)[stretch]
    is_told &= (places.name != names.places(nodes)[stretch]) & (places.name != outside(timed))
    rows = np.flatnonzero(is_told)
    found: list[list[str]] = [[] for _ in start]
    for row in rows[np.argsort(-places.spent[rows], kind="stable")].tolist():
        name = cut(timed.trace.strings[places.name[row]], LONGEST_NAME)
        found[stretch[row]].append(f"{name} {digits(ms(places.spent[row]))} ms")
    return [", ".join(parts) for parts in found]


def _calls_before(timed: Timed, start: I64, threads: I64) -> list[str]:
    """The name of the last call that each of these threads made before a moment; empty for no
    thread (-1), and where it made none."""
    calls = timed.trace.api_calls
    names = [""] * len(start)
    for thread in distinct(threads[threads >= 0]).tolist():
        own = np.flatnonzero(calls.thread == thread)
        own = own[np.argsort(calls.start[own], kind="stable")]
        asked = np.flatnonzero(threads == thread)
        last = np.searchsorted(calls.start[own], start[asked], side="right") - 1
        for gap, row in zip(asked.tolist(), last.tolist(), strict=True):
            if row >= 0:
                names[gap] = timed.trace.strings[calls.name[own[row]]]
    return names


def _in_words(timed: Timed, gaps: Gaps, nodes: I32 | I64, threads: I64) -> Iterator[str]:
    """For each gap the node of the host tree that the host was in, and the thread, in words. Most
    gaps are told in words that others are told in, too."""
    names = _names_of(timed, nodes)
    launching = gaps.cause == IdleCause.LAUNCH
    path = same_path(timed.linked, at(timed.linked.tree.parent, nodes, -1))
    alike = Groups.of(names, path, threads, launching, gaps.detail)
    texts = []
    for gap in alike.first.tolist():
        in_launching = bool(launching[gap])
        place = _host_place(timed, int(nodes[gap]), int(names[gap]), launching=in_launching)
        texts.append(_told(timed, place, IdleDetail(gaps.detail[gap]), int(threads[gap])))
    return (texts[group] for group in alike.index.tolist())


def _names_of(timed: Timed, nodes: I32 | I64) -> I32:
    """The name (code) of each of these nodes of the host tree, range or call; -1 for -1."""
    tree = timed.linked.tree
    names = tree.names(nodes)
    calls = np.flatnonzero(at(tree.is_call, nodes, False))
    names[calls] = timed.trace.api_calls.name[tree.row[nodes[calls]]]
    return names


def _told(timed: Timed, place: str, detail: IdleDetail, thread: int) -> str:
    """A place of the host with the detail before it and the thread (-1: the usual one) behind."""
    on = f" on thread {timed.trace.threads[thread].tid}" if thread >= 0 else ""
    return f"{detail.label}: {place}{on}" if detail else f"{place}{on}"


def _host_place(timed: Timed, node: int, name: int, *, launching: bool) -> str:
    """Where the host was, in words: in the call or range of this name, that node of the tree (-1:
    in none)."""
    if node < 0:
        return "host between launches" if launching else "nothing recorded on the host"
    around = op_path(timed.linked, int(timed.linked.tree.parent[node]))
    inside = f" (in {around})" if around else ""
    return f"host in {timed.trace.strings[name]}{inside}"


@dataclass(frozen=True)
class GapPlaceRow:
    """Gaps of one cause that one place of the program ended, in a mean steady step."""

    rank: int | None = metric("rank of the process")
    cause: str = metric("what the device was waiting for", text="own")
    name: str = metric(
        "where the host was: in the call that had drained the device (cause sync), the operator that launched the next "
        "op (cause launch), else the operator or call in which it was for longest"
    )
    within: str | None = metric("outermost operator or annotation around the longest of them")
    python: str | None = metric(
        "function of the program at the longest of them, with the line of its `def`, where stacks were recorded"
    )
    gaps: float = metric("gaps a step of which it has the most")
    idle_ms: float = metric("idle time a step that it has, of these and of other gaps")
    share_of_idle: float = metric(
        "that time as a share of the device's idle time: the rows sum to 1", "share"
    )
    longest_us: float = metric("the longest time that it has of a gap")
    unprofiled_idle_ms: float | None = maybe(
        "idle time there of the step without the profiler; null where that is not known, and of "
        "ranks that the report does not speak of"
    )


def gap_places(
    causes: Causes, min_us: float = 0.0, left: IdleLeft | None = None
) -> Sequence[GapPlaceRow]:
    """A row for each cause and place of the steady state's gaps, of at least that length, on the
    step's device, by idle time; last what only the step without the profiler has. Where nothing comes
    last, they are made when asked for."""
    rows = _recorded_places(causes, min_us, left)
    if left is None or min_us or not left.elsewhere:
        return rows
    elsewhere = dict(left.elsewhere)
    with_new = [_with_new(row, elsewhere.pop((row.cause, row.name), 0.0)) for row in rows]
    return [*with_new, *_new_places(causes.timed, elsewhere)]


def _with_new(row: GapPlaceRow, new_ms: float) -> GapPlaceRow:
    if not new_ms:
        return row
    return replace(row, unprofiled_idle_ms=(row.unprofiled_idle_ms or 0.0) + new_ms)


def _new_places(timed: Timed, elsewhere: dict[Place, float]) -> list[GapPlaceRow]:
    """Rows of idle time that no recorded gap holds, by cause."""
    by_cause: dict[str, float] = {}
    for (cause, _), time_ms in elsewhere.items():
        by_cause[cause] = by_cause.get(cause, 0.0) + time_ms
    return [
        GapPlaceRow(timed.trace.rank, cause, NO_GAP, None, None, 0.0, 0.0, 0.0, 0.0, time_ms)
        for cause, time_ms in by_cause.items()
        if time_ms > 0
    ]


def _recorded_places(causes: Causes, min_us: float, left: IdleLeft | None) -> Sequence[GapPlaceRow]:
    timed = causes.timed
    gaps = causes.gaps
    chosen, length = _steady_gaps(timed, gaps, min_us)
    if not len(chosen):
        return []
    parts = parts_of_gaps(causes, chosen)
    spent = parts.of(length)
    groups = Groups.of(parts.name, gaps.cause[chosen][parts.index])
    total = groups.sum(spent)
    idle = total.sum()
    counted = groups.sum(parts.is_main)
    longest = _last_longest(groups, spent)
    names = place_names(timed)
    outermost = timed.linked.tree.outermost(is_named(timed))
    left_ms = None if left is None else groups.sum(parts.of(left.of_gap[chosen]))

    def row(group: int) -> GapPlaceRow:
        gap = int(longest[group])  # a part
        return GapPlaceRow(
            rank=timed.trace.rank,
            cause=_CAUSES[int(gaps.cause[chosen[parts.index[gap]]])],
            name=names[parts.name[gap]],
            within=within(timed.linked, outermost, int(parts.node[gap])),
            python=_source_line(timed, int(parts.node[gap])),
            gaps=float(counted[group]) / timed.steps.steady_count,
            idle_ms=ms(total[group] / timed.steps.steady_count),
            share_of_idle=float(total[group] / idle),
            longest_us=float(spent[gap]) / NS_PER_US,
            unprofiled_idle_ms=None if left_ms is None else float(left_ms[group]),
        )

    return lazy_rows(np.argsort(-total, kind="stable").tolist(), row)


def _steady_gaps(timed: Timed, gaps: Gaps, min_us: float) -> tuple[I32, I32 | I64]:
    """The gaps of at least that length of which any part lies in steady steps, and these parts,
    ns."""
    length = steady_lengths(timed, gaps)
    chosen = flatnonzero32((length > 0) & (gaps.duration >= min_us * NS_PER_US))
    return chosen, compact(length[chosen])


@dataclass(frozen=True, eq=False)
class GapParts:
    """Gaps in parts, by where the host was: those of a gap make it up."""

    index: I64  # of the gap, among those asked for
    node: I32  # node of the host tree behind the part, -1: none
    name: I32  # code of its place, among `place_names`
    share: F64  # of the gap
    is_main: Bool  # whether it is the place where the host was longest

    def take(self, rows: I64) -> "GapParts":
        """Some of the parts."""
        return GapParts(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def followed_by(self, other: "GapParts") -> "GapParts":
        """These parts and those."""
        names = [f.name for f in fields(self)]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return GapParts(**dict(zip(names, map(np.concatenate, pairs), strict=True)))

    def of(self, values: I32 | I64 | F64) -> F64:
        """What each part has of a value of its gap."""
        return values[self.index] * self.share


def parts_of_gaps(causes: Causes, chosen: I32 | I64) -> GapParts:
    """These gaps (rows, ascending) in parts: those in which the host worked by what it was in and
    for how long, the others whole."""
    split = causes.memo(_worked_parts)
    place = look_up(chosen, split.index)
    known = np.flatnonzero(place >= 0)
    is_whole = np.ones(len(chosen), bool)
    is_whole[place[known]] = False
    index = np.flatnonzero(is_whole)
    rows = chosen[index]
    node = causes.memo(nodes_behind_all)[rows]
    name = causes.memo(place_codes_all)[rows].astype(np.int32)
    all_of_it = np.ones(len(rows))
    undivided = GapParts(index, node, name, all_of_it, all_of_it > 0)
    return undivided.followed_by(replace(split.take(known), index=place[known]))


def _worked_parts(causes: Causes) -> GapParts:
    """The parts of the gaps (rows) in which the host worked, in more than one place. What takes
    little of a gap is counted to its main place, where the host was longest."""
    timed = causes.timed
    gaps = causes.gaps
    rows, threads = _worked_gaps(causes)
    places = place_times(NodeNames.of(timed), gaps.start[rows], gaps.end[rows], threads)
    name = causes.memo(place_codes_all)[rows].astype(np.int32)
    share = places.spent / gaps.duration[rows][places.stretch]
    is_other = _codes(timed, places.name) != name[places.stretch]
    others = np.flatnonzero(is_other & (share >= PART_OF_GAP))
    left = np.ones(len(rows))
    np.subtract.at(left, places.stretch[others], share[others])
    node = causes.memo(nodes_behind_all)[rows]
    main = GapParts(rows, node, name, left, np.ones(len(rows), bool))
    main = main.take(np.flatnonzero(left < 1.0))
    other = GapParts(
        rows[places.stretch[others]],
        places.node[others],
        _codes(timed, places.name[others]),
        share[others],
        np.zeros(len(others), bool),
    )
    return main.followed_by(other)


def _worked_gaps(causes: Causes) -> tuple[I64, I64]:
    """The long gaps (rows) in which the host worked in calls and ranges, and the thread that did."""
    timed = causes.timed
    gaps = causes.gaps
    rows = np.flatnonzero((gaps.cause == IdleCause.HOST) & (gaps.duration >= LEAST_SPLIT_NS))
    rows = rows[~isin_few(gaps.detail[rows], OF_NO_CALL)]
    rows = rows[on_host(timed, gaps, rows)]
    return rows, dominant_nodes(timed.timeline, *_until_launched(timed, gaps.take(rows)))[1]


def _codes(timed: Timed, name: I32) -> I32:
    """The codes, among `place_names`, of places where the host worked."""
    return np.where(name == outside(timed), name + 1, name).astype(np.int32)


def _last_longest(groups: Groups, length: I32 | I64 | F64) -> I64:
    """The row of the longest of each group, of several the last one."""
    most = np.zeros(len(groups), length.dtype)
    np.maximum.at(most, groups.index, length)
    rows = flatnonzero32(length == most[groups.index])
    longest = np.zeros(len(groups), np.int64)
    longest[groups.index[rows]] = rows
    return longest


def _source_line(timed: Timed, node: int) -> str | None:
    """The line of the program in which a node of the host tree begins; None for -1."""
    if node < 0 or not len(timed.joined.python.start):
        return None
    tree = timed.linked.tree
    return timed.joined.python.source_line(int(tree.thread[node]), int(tree.start[node]))


def place_codes(timed: Timed, gaps: Gaps, chosen: I32 | I64, node: I32) -> I32:
    """For each of these gaps the code, among `place_names`, of the place that stands behind it;
    `node` is its node of the host tree (`nodes_behind`)."""
    nowhere = len(timed.trace.strings)
    name = NodeNames.of(timed).at(node, nowhere)
    name[(name == nowhere) & ((node >= 0) | on_host(timed, gaps, chosen))] = nowhere + 1
    sync = gaps.sync[chosen]
    waits = (gaps.cause[chosen] == IdleCause.SYNC) & (sync >= 0)
    name[waits] = timed.trace.api_calls.name[sync[waits]]
    launching = gaps.detail[chosen] == IdleDetail.GRAPH_LAUNCH
    call = timed.linked.launch[gaps.next_op[chosen[launching]]]
    name[launching] = timed.trace.api_calls.name[call]
    of_no_call = isin_few(gaps.detail[chosen], OF_NO_CALL)
    name[of_no_call] = nowhere + 2 + gaps.detail[chosen][of_no_call].astype(np.int64)
    return name


def place_codes_all(causes: Causes) -> I32:
    """The code of the place behind each gap (`place_codes`)."""
    every = np.arange(len(causes.gaps))
    return narrowed(place_codes(causes.timed, causes.gaps, every, causes.memo(nodes_behind_all)))


def place_names(timed: Timed) -> list[str]:
    """The names that the codes of places stand for."""
    details = [f"({detail.label})" for detail in IdleDetail]
    return [*timed.trace.strings, NOWHERE, OUTSIDE, *details]


def nodes_behind(timed: Timed, gaps: Gaps, chosen: I32 | I64) -> I32:
    """For each gap the node of the host tree that stands behind it: the wait, the next op's launch,
    or what the host was in for longest until then; -1: none."""

    names = NodeNames.of(timed)

    def behind(gap: I32 | I64) -> I32:
        sync = gaps.sync[gap]
        node = at(timed.joined.launch_node, gaps.next_op[gap], -1)
        node = node.astype(np.int32, copy=False)
        waits = sync >= 0
        node[waits] = timed.linked.tree.node_of_call[sync[waits]]
        launching = gaps.detail[gap] == IdleDetail.GRAPH_LAUNCH
        call = timed.linked.launch[gaps.next_op[gap[launching]]]
        node[launching] = timed.linked.tree.node_of_call[call]
        host = on_host(timed, gaps, gap)
        asked = _until_launched(timed, gaps.take(gap[host].astype(np.int64)))
        node[host] = main_nodes(names, *asked)[0]
        return node

    return blockwise(behind, chosen)


def _until_launched(timed: Timed, gaps: Gaps) -> tuple[I64, I64, I64]:
    """What lies of each gap before the launch that ends it, start and end; and the thread that
    launches, -1 where that is not known."""
    issued = timed.linked.launch_times_of(np.maximum(gaps.next_op, 0))
    issued = np.where((gaps.next_op >= 0) & (issued >= 0), issued, gaps.end)
    call = at(timed.linked.launch, gaps.next_op, -1)
    thread = at(timed.trace.api_calls.thread, call, -1)
    return gaps.start, np.clip(issued, gaps.start + 1, gaps.end), thread


def nodes_behind_all(causes: Causes) -> I32:
    """The node of the host tree behind each gap (`nodes_behind`)."""
    return nodes_behind(causes.timed, causes.gaps, np.arange(len(causes.gaps)))


def on_host(timed: Timed, gaps: Gaps, rows: I32 | I64) -> Bool:
    """In which of these gaps the host did something else than launch or wait, until it launched
    what ended it."""
    cause = gaps.cause[rows]
    next_op = gaps.next_op[rows]
    known = (next_op < 0) | (timed.linked.launch_times_of(np.maximum(next_op, 0)) >= 0)
    # What no call launches are migrations; some of them a call has moved.
    known |= (cause == IdleCause.HOST) & ~isin_few(gaps.detail[rows], OF_NO_CALL)
    other = ~isin_few(cause, (IdleCause.LAUNCH, IdleCause.SYNC)) & (gaps.queued[rows] == 0)
    return other & known & (gaps.sync[rows] < 0)
