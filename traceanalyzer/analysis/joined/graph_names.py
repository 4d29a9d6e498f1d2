"""Operators of the kernels that a CUDA graph replays, which a recording has as one opaque launch.

They come from the graph's capture (its launches, in order), or from the same kernels launched one
by one elsewhere. The ranges around those launches are put into the call that launches the graph,
each as wide as its share of the kernels, so that operators, modules and lines are found there as
for any launch. What is not found stays unnamed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, isin_few
from traceanalyzer.analysis.joined.graph_annotations import NOTHING, UNNAMED, parsed, ranges_around
from traceanalyzer.analysis.joined.launched import bore_work, captures, is_nested
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.serving import iteration
from traceanalyzer.trace import I32, I64, HostRanges, RangeKind, Trace

LAUNCHES = (ApiKind.LAUNCH, ApiKind.COPY, ApiKind.SET)
"""In the order of the first kinds of device ops: kernels, copies, memsets."""
MOST_RANGES = 2_000_000  # ranges put into replays at most
FEWEST = 4  # fewer kernels in a row are found anywhere
OF_INPUTS = ("shapes", "dtypes", "strides", "concrete")
_GRAPH_LAUNCH = re.compile(r"GraphLaunch")
_NUMBER = re.compile(r"capture_(\d{1,18})")


class Launched(NamedTuple):
    """Launches on one thread, in order."""

    linked: TraceJoins
    thread: int
    begin: int  # ranges that began before are around all of them
    time: I64
    kind: I64  # place in `LAUNCHES`
    number: int | None = None  # the batch that a capture is named for


class GraphReplay(NamedTuple):
    """A graph launch: its API call, its ops in the order of their launches, and the requests that
    its mark tells."""

    call: int
    ops: I64
    requests: int | None


class _Ranges(NamedTuple):
    """Ranges around launches."""

    table: HostRanges
    first: I64  # for each range the first launch in it
    until: I64  # and the one behind its last
    owner: I64  # for each launch the place of the innermost operator among the ranges, -1: none
    depth: I64 | None = None  # ranges around each, where several are around the same launches


def with_operators(linked: TraceJoins, beside: Sequence[TraceJoins] = ()) -> Trace | None:
    """The recording with ranges inside its graph launches, from what the program said of their
    nodes, else from itself and the recordings of captures beside it; None where it replays no
    graph, or nothing marks iterations or nodes."""
    strings = linked.trace.strings
    annotation = linked.trace.device_ops.annotation
    is_annotated = bool((annotation >= 0).any())
    if not any(map(_GRAPH_LAUNCH.search, strings)):
        return None
    if not is_annotated and not any(map(iteration, strings)):
        return None
    codes: dict[tuple[str, int, int], int] = {}
    known: dict[tuple[bytes, int | None], tuple[Launched, bool] | None] = {}
    sources = [(one, *_alone(one, codes)) for one in (linked, *beside)]
    captured = list(chain.from_iterable(map(_captures, (linked, *beside))))
    graft = _Graft(linked)
    keys = _keys(linked, codes)
    for replay in _replays(linked):
        if (annotation[replay.ops] >= 0).any():
            graft.add_annotated(replay)
            continue
        own = keys[replay.ops]
        which = own.tobytes(), replay.requests
        if which not in known:
            eager = _eager_launches(sources, own)
            known[which] = (eager, True) if eager else _captured(linked, replay, captured)
        graft.add(replay, known[which])
    return graft.made()


def named_in_graphs(linked: TraceJoins, launch_node: I32) -> tuple[int, int]:
    """How many ops of CUDA graphs have an operator, and how many there are."""
    inside = np.flatnonzero(
        at(linked.api_kind, linked.launch, ApiKind.OTHER) == ApiKind.GRAPH_LAUNCH
    )
    names = linked.tree.names(linked.tree.operator[launch_node[inside]])
    unnamed = linked.trace.strings.index(UNNAMED) if UNNAMED in linked.trace.strings else -1
    return int(((names >= 0) & (names != unnamed)).sum()), len(inside)


def _keys(linked: TraceJoins, codes: dict[tuple[str, int, int], int]) -> I64:
    """For each device op the number of its kernel and grid."""
    ops = linked.trace.device_ops
    strings = linked.trace.strings
    columns = np.column_stack((ops.name, ops.blocks, ops.threads)).astype(np.int64)
    each, of_op = np.unique(columns, axis=0, return_inverse=True)
    if not len(ops):
        return np.empty(0, np.int64)
    numbers = []
    for name, blocks, threads in each.tolist():
        key = (strings[name], blocks, threads)
        numbers.append(codes.setdefault(key, len(codes)))
    return np.array(numbers, np.int64)[of_op.reshape(-1)]


def _replays(linked: TraceJoins) -> Iterator[GraphReplay]:
    """The graph launches. Where nodes are recorded they tell the order, else the starts of the
    ops."""
    ops = linked.trace.device_ops
    calls = linked.trace.api_calls
    launch = linked.launch
    inside = np.flatnonzero(at(linked.api_kind, launch, ApiKind.OTHER) == ApiKind.GRAPH_LAUNCH)
    order = np.lexsort((ops.start[inside], ops.graph_node[inside], launch[inside]))
    inside = inside[order]
    if not len(inside):
        return
    ranges = linked.trace.host_ranges
    told = _requests_told(linked.trace.strings)
    is_told = np.isin(ranges.name, list(told)) & (ranges.kind == RangeKind.ANNOTATION)
    marks = np.flatnonzero(is_told)
    for rows in np.split(inside, np.flatnonzero(np.diff(launch[inside])) + 1):
        call = int(launch[rows[0]])
        begun = ranges.start[marks] <= calls.start[call]
        around = marks[begun & (ranges.end[marks] >= calls.end[call])]
        requests = told[int(ranges.name[around[-1]])] if len(around) else None
        yield GraphReplay(call, rows, requests)


def _requests_told(strings: list[str]) -> dict[int, int | None]:
    """The requests that names of a serving engine's iterations tell, by the name's code."""
    iterations = ((code, iteration(text)) for code, text in enumerate(strings))
    return {code: found.requests for code, found in iterations if found is not None}


Codes = dict[tuple[str, int, int], int]
"""Numbers of kernels with their grids: name, blocks, threads of a block."""


def _alone(linked: TraceJoins, codes: Codes) -> tuple[I64, I64]:
    """The ops that were launched one by one, in the order of their launches, and their kernels."""
    rows = np.flatnonzero(isin_few(at(linked.api_kind, linked.launch, ApiKind.OTHER), LAUNCHES))
    calls = linked.trace.api_calls
    launch = linked.launch[rows]
    rows = rows[np.lexsort((calls.start[launch], calls.thread[launch]))]
    return rows, _keys(linked, codes)[rows]


def _same_kernels(linked: TraceJoins, rows: I64, keys: I64, wanted: I64) -> Launched | None:
    """Launches, one behind the other, of just these kernels with these grids."""
    if len(wanted) < FEWEST or len(keys) < len(wanted):
        return None
    occurrences = np.bincount(keys, minlength=int(wanted.max()) + 1)
    rarest = int(occurrences[wanted].argmin())
    for first in (np.flatnonzero(keys == wanted[rarest]) - rarest).tolist():
        if first >= 0 and np.array_equal(keys[first : first + len(wanted)], wanted):
            return _launched(
                linked, linked.launch[rows[first : first + len(wanted)]].astype(np.int64), None
            )
    return None


def _launched(
    linked: TraceJoins, rows: I64, begin: int | None, number: int | None = None
) -> Launched:
    """These calls; without a `begin` what is inside the innermost annotation around the first of
    them."""
    calls = linked.trace.api_calls
    ranges = linked.trace.host_ranges
    thread = int(calls.thread[rows[0]])
    start = int(calls.start[rows[0]])
    if begin is None:
        around = (ranges.kind == RangeKind.ANNOTATION) & (ranges.thread == thread)
        around &= (ranges.start <= start) & (ranges.end > start)
        begin = int(ranges.start[around].max(initial=-1)) + 1
    kind = np.select([linked.api_kind[rows] == one for one in LAUNCHES], range(len(LAUNCHES)))
    return Launched(linked, thread, begin, calls.start[rows], kind.astype(np.int64), number)


def _eager_launches(sources: list[tuple[TraceJoins, I64, I64]], wanted: I64) -> Launched | None:
    """Launches of these kernels one by one, in the first source that has them."""
    found = (_same_kernels(*source, wanted) for source in sources)
    return next((launched for launched in found if launched is not None), None)


def _captures(linked: TraceJoins) -> Iterator[Launched]:
    """What was launched into each graph while its stream was captured: a launch with a device op of
    its own ran at once (a warm-up, a copy of inputs) and is in no graph."""
    calls = linked.trace.api_calls
    ranges = linked.trace.host_ranges
    launching = isin_few(linked.api_kind, LAUNCHES) & ~linked.memo(is_nested)
    launching &= ~linked.memo(bore_work)
    numbers = ((code, _NUMBER.match(text)) for code, text in enumerate(linked.trace.strings))
    batch_of = {code: int(match[1]) for code, match in numbers if match is not None}
    is_batch = np.isin(ranges.name, list(batch_of))
    for capture in linked.memo(captures):
        during = (calls.start >= capture.start) & (calls.start < capture.end)
        launches = np.flatnonzero(launching & during & (calls.thread == capture.thread))
        around = (ranges.start <= capture.start) & (ranges.end > capture.start)
        batches = ranges.name[around & is_batch].tolist()
        if len(launches):
            number = batch_of[batches[-1]] if batches else None
            yield _launched(linked, launches, capture.start + 1, number)


def _captured(
    linked: TraceJoins, replay: GraphReplay, captures: Iterable[Launched]
) -> tuple[Launched, bool] | None:
    """The capture of as many launches of the same kinds, and whether it is that of this batch: the
    smallest that holds it."""
    kind = linked.trace.device_ops.kind[replay.ops].astype(np.int64) - 1
    alike = [one for one in captures if np.array_equal(one.kind, kind)]
    large = [
        one for one in alike if one.number is not None and one.number >= (replay.requests or 0)
    ]
    best = min(large, key=attrgetter("number"), default=None)
    if best is None or replay.requests is None:
        return (alike[0], len(alike) == 1) if alike else None
    return best, True


class _Graft:
    """Ranges to add to a recording's own."""

    def __init__(self, linked: TraceJoins) -> None:
        self.linked = linked
        self.strings = list(linked.trace.strings)
        self.code = {text: code for code, text in enumerate(self.strings)}
        self.tables: list[HostRanges] = [linked.trace.host_ranges]
        self.external = linked.trace.device_ops.external_id.astype(np.int64)
        self.next = 1 + int(
            max(self.external.max(initial=0), linked.trace.host_ranges.external_id.max(initial=0))
        )
        self.room = MOST_RANGES
        self.used = set[Trace]()

    def add(self, replay: GraphReplay, found: tuple[Launched, bool] | None) -> None:
        """The ranges of one replay; one that stands for all where nothing is known of it."""
        ranges = self._ranges(*found) if found else self._unnamed(len(replay.ops))
        if self._place(replay, ranges) and found:
            self.used.add(found[0].linked.trace)

    def add_annotated(self, replay: GraphReplay) -> None:
        """The ranges of one replay of whose nodes the program said something."""
        ops = self.linked.trace.device_ops
        codes = ops.annotation[replay.ops].tolist()
        told = {code: parsed(self.strings[code]) if code >= 0 else NOTHING for code in set(codes)}
        around = ranges_around([told[code] for code in codes])
        owner = np.full(len(codes), -1, np.int64)
        for place, part in enumerate(around):
            if part.kind == RangeKind.OP:
                owner[part.first : part.until] = place
        columns = {
            "kind": [one.kind for one in around],
            "name": [self._code(one.name) for one in around],
            "start": [0] * len(around),
            "end": [0] * len(around),
            "thread": [0] * len(around),
        }
        ranges = _Ranges(
            table=HostRanges.from_columns(columns),
            first=np.array([one.first for one in around], np.int64),
            until=np.array([one.until for one in around], np.int64),
            owner=owner,
            depth=np.array([one.depth for one in around], np.int64),
        )
        self._place(replay, ranges)

    def _place(self, replay: GraphReplay, ranges: _Ranges) -> bool:
        """Put ranges into the call that launches the graph, each as wide as its share of the
        launches; whether there is room."""
        calls = self.linked.trace.api_calls
        count = len(replay.ops)
        table, first, until, owner, depth = ranges
        begin = int(calls.start[replay.call])
        end = int(calls.end[replay.call])
        self.room -= len(table)
        each = (end - begin - 1) / count
        if self.room < 0 or each < 1:
            return False
        inset = np.zeros(len(table), np.int64) if depth is None else depth
        if len(inset) and each <= 2 * int(inset.max()) + 1:
            inset = np.zeros(len(table), np.int64)
        known = owner >= 0
        self.external[replay.ops[known]] = self.next + owner[known]
        self.tables.append(
            replace(
                table,
                start=begin + np.floor(first * each).astype(np.int64) + 1 + inset,
                end=begin + np.floor(until * each).astype(np.int64) - inset,
                thread=np.full(len(table), calls.thread[replay.call], np.int32),
                external_id=np.arange(self.next, self.next + len(table)),
            )
        )
        self.next += len(table)
        return True

    def _unnamed(self, count: int) -> _Ranges:
        """One range around so many launches, of which nothing is known."""
        columns = {
            "kind": [RangeKind.OP],
            "name": [self._code(UNNAMED)],
            "start": [0],
            "end": [0],
            "thread": [0],
        }
        return _Ranges(
            table=HostRanges.from_columns(columns),
            first=np.array([0], np.int64),
            until=np.array([count], np.int64),
            owner=np.zeros(count, np.int64),
        )

    def _ranges(self, launched: Launched, exact: bool) -> _Ranges:
        """The ranges around these launches, with this recording's codes, and without inputs where
        those are of another batch."""
        ranges = launched.linked.trace.host_ranges
        rows = np.flatnonzero((ranges.thread == launched.thread) & (ranges.start >= launched.begin))
        rows = rows[ranges.start[rows] <= launched.time[-1]]
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
        table = self._recoded(ranges.take(rows), launched.linked.trace.strings, exact=exact)
        return _Ranges(table, first, until, owner)

    def _recoded(self, table: HostRanges, strings: list[str], *, exact: bool) -> HostRanges:
        """The ranges with codes of this recording's strings."""
        columns = {
            "sequence": np.full(len(table), -1),
            "collective": np.full(len(table), -1, np.int32),
        }
        for name in (field.name for field in fields(table) if field.metadata["text"]):
            kept = exact or name not in OF_INPUTS
            codes = getattr(table, name).tolist()
            own = [self._code(strings[code]) if code >= 0 and kept else -1 for code in codes]
            columns[name] = np.array(own, np.int32)
        return replace(table, **columns)

    def _code(self, text: str) -> int:
        if text not in self.code:
            self.code[text] = len(self.strings)
            self.strings.append(text)
        return self.code[text]

    def made(self) -> Trace | None:
        """The recording with all of them, and of its captures those that they come from; None
        without any."""
        if len(self.tables) == 1:
            return None
        columns = {
            f.name: np.concatenate([getattr(one, f.name) for one in self.tables])
            for f in fields(HostRanges)
        }
        return replace(
            self.linked.trace,
            strings=self.strings,
            host_ranges=HostRanges.from_columns(columns),
            device_ops=replace(self.linked.trace.device_ops, external_id=self.external),
            captures=tuple(filter(self.used.__contains__, self.linked.trace.captures)),
        )
