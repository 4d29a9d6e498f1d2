"""Operators of the kernels that a CUDA graph replays, which a recording has as one opaque launch.

They come from the graph's capture (its launches, in order), or from the same kernels launched one
by one elsewhere. The ranges around those launches are put into the call that launches the graph,
each as wide as its share of the kernels, so that operators, modules and lines are found there as
for any launch. What is not found stays unnamed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import at, isin_few
from traceanalyzer.analysis.joined.graph_annotations import NOTHING, UNNAMED, parsed, ranges_around
from traceanalyzer.analysis.joined.graph_captures import (
    LAUNCHES,
    GraphReplay,
    Launched,
    Source,
    capture_of,
    captured_launches,
    launch_order,
    launches_of,
    ranges_around_launches,
)
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.serving import VLLM, Iteration, iteration
from traceanalyzer.base import regex
from traceanalyzer.trace import I32, I64, HostRanges, RangeKind, Trace

MOST_RANGES = 2_000_000  # ranges put into replays at most
FEWEST = 4  # fewer kernels in a row are found anywhere
OF_INPUTS = ("shapes", "dtypes", "strides", "concrete")
_GRAPH_LAUNCH = regex(r"GraphLaunch")


Sizes = dict[int, int | None]
"""By the name of an iteration the size that its graph was captured for, None where not told."""


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
    graph, or nothing marks iterations or nodes and no capture is there."""
    strings = linked.trace.strings
    annotation = linked.trace.device_ops.annotation
    if not any(map(_GRAPH_LAUNCH.search, strings)):
        return None
    is_marked = bool((annotation >= 0).any()) or any(map(iteration, strings))
    captured = list(chain.from_iterable(map(captured_launches, (linked, *beside))))
    if not is_marked and not captured:
        return None
    graft = _Graft(linked, [linked, *beside], captured)
    for replay in _replays(linked):
        if (annotation[replay.ops] >= 0).any():
            graft.add_annotated(replay)
        elif not graft.add(replay) and is_marked:
            graft.add_unnamed(replay)
    return graft.made()


def named_in_graphs(linked: TraceJoins, launch_node: I32) -> tuple[int, int]:
    """How many ops of CUDA graphs have an operator, and how many there are."""
    inside = np.flatnonzero(
        at(linked.api_kind, linked.launch, ApiKind.OTHER) == ApiKind.GRAPH_LAUNCH
    )
    names = linked.tree.names(linked.tree.operator[launch_node[inside]])
    unnamed = linked.trace.strings.index(UNNAMED) if UNNAMED in linked.trace.strings else -1
    return int(((names >= 0) & (names != unnamed)).sum()), len(inside)


def has_unordered(linked: TraceJoins) -> bool:
    """Whether of the ops of some CUDA graph the order of launches is not known."""
    return not all(replay.is_ordered for replay in _replays(linked))


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
    """The graph launches."""
    ops = linked.trace.device_ops
    launch = linked.launch
    inside = np.flatnonzero(at(linked.api_kind, launch, ApiKind.OTHER) == ApiKind.GRAPH_LAUNCH)
    if not len(inside):
        return
    order = np.lexsort((ops.start[inside], launch[inside]))
    inside = inside[order]
    each = np.split(inside, np.flatnonzero(np.diff(launch[inside])) + 1)
    calls = [int(launch[rows[0]]) for rows in each]
    sizes = _sizes_told(linked.trace.strings)
    marks = _marks_around(linked, calls, sizes)
    of_mark = Counter(marks)
    before: Counter[int] = Counter()
    for call, rows, mark in zip(calls, each, marks, strict=True):
        ordered = launch_order(linked, rows)
        if mark < 0:
            yield GraphReplay(call, rows, *ordered, None)
            continue
        size = sizes[int(linked.trace.host_ranges.name[mark])]
        yield GraphReplay(call, rows, *ordered, size, before[mark], of_mark[mark])
        before[mark] += 1


def _marks_around(linked: TraceJoins, calls: list[int], sizes: Sizes) -> list[int]:
    """For each API call the row of the innermost mark of an iteration around it; -1 without."""
    ranges = linked.trace.host_ranges
    is_mark = np.isin(ranges.name, list(sizes)) & (ranges.kind == RangeKind.ANNOTATION)
    marks = np.flatnonzero(is_mark)
    start = ranges.start[marks]
    end = ranges.end[marks]
    found = []
    for call in calls:
        begin = linked.trace.api_calls.start[call]
        around = marks[(start <= begin) & (end > begin)]
        found.append(int(around[-1]) if len(around) else -1)
    return found


def _sizes_told(strings: list[str]) -> Sizes:
    """By the name of a serving engine's iteration the size that its graph was captured for: tokens,
    or where these are not told or (SGLang's decodes) not what it goes by, requests."""
    iterations = ((code, iteration(text)) for code, text in enumerate(strings))
    return {code: _size(found) for code, found in iterations if found is not None}


def _size(told: Iteration) -> int | None:
    by_tokens = told.framework == VLLM or told.phase in ("prefill", "mixed")
    return told.tokens if by_tokens and told.tokens is not None else told.requests


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
            launches = linked.launch[rows[first : first + len(wanted)]].astype(np.int64)
            return _alone_at(linked, launches)
    return None


def _alone_at(linked: TraceJoins, rows: I64) -> Launched:
    """These calls, with what is inside the innermost annotation around the first of them."""
    calls = linked.trace.api_calls
    ranges = linked.trace.host_ranges
    start = int(calls.start[rows[0]])
    around = (ranges.kind == RangeKind.ANNOTATION) & (ranges.thread == calls.thread[rows[0]])
    around &= (ranges.start <= start) & (ranges.end > start)
    return launches_of(linked, rows, int(ranges.start[around].max(initial=-1)) + 1)


def _eager_launches(
    sources: list[tuple[TraceJoins, I64, I64]], replay: GraphReplay, keys: I64
) -> Source | None:
    """Launches of these kernels one by one, in the first source that has them."""
    found = (_same_kernels(*source, keys[replay.nodes]) for source in sources)
    launched = next((one for one in found if one is not None), None)
    return None if launched is None else Source(launched, True, replay.turn)


class _Graft:
    """Ranges to add to a recording's own."""

    def __init__(
        self, linked: TraceJoins, sources: Sequence[TraceJoins], captured: Sequence[Launched]
    ) -> None:
        self.linked = linked
        self._captured = captured
        codes: Codes = {}
        self._eager = [(source, *_alone(source, codes)) for source in sources]
        self._keys = _keys(linked, codes)
        self._known: dict[tuple[Any, ...], Source | None] = {}
        self.strings = list(linked.trace.strings)
        self.code = {text: code for code, text in enumerate(self.strings)}
        self.tables: list[HostRanges] = [linked.trace.host_ranges]
        self.external = linked.trace.device_ops.external_id.astype(np.int64)
        self.next = 1 + int(
            max(self.external.max(initial=0), linked.trace.host_ranges.external_id.max(initial=0))
        )
        self.room = MOST_RANGES
        self.used = set[Trace]()

    def add(self, replay: GraphReplay) -> bool:
        """The ranges of one replay; whether something is known of it."""
        found = self._source(replay)
        if found is None:
            return False
        if self._place(replay, self._ranges(found), found.launch):
            self.used.add(found.launched.linked.trace)
        return True

    def _source(self, replay: GraphReplay) -> Source | None:
        """Where its operators come from, looked for once for all replays like it."""
        which = self._keys[replay.ops].tobytes(), replay.turn.tobytes(), *replay[3:]
        if which not in self._known:
            eager = _eager_launches(self._eager, replay, self._keys)
            found = eager or capture_of(self.linked, replay, self._captured)
            self._known[which] = found
        return self._known[which]

    def add_unnamed(self, replay: GraphReplay) -> None:
        """A range that stands for all of a replay of which nothing is known."""
        self._place(replay, self._unnamed(len(replay.nodes)), replay.turn)

    def add_annotated(self, replay: GraphReplay) -> None:
        """The ranges of one replay of whose nodes the program said something."""
        ops = self.linked.trace.device_ops
        codes = ops.annotation[replay.nodes].tolist()
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
        self._place(replay, ranges, replay.turn)

    def _place(self, replay: GraphReplay, ranges: _Ranges, launch: I64) -> bool:
        """Put ranges into the call that launches the graph, each as wide as its share of the
        launches (for each op the place of its own); whether there is room."""
        calls = self.linked.trace.api_calls
        table, first, until, owner, depth = ranges
        count = len(owner)
        begin = int(calls.start[replay.call])
        end = int(calls.end[replay.call])
        self.room -= len(table)
        each = (end - begin - 1) / count
        if self.room < 0 or each < 1:
            return False
        inset = np.zeros(len(table), np.int64) if depth is None else depth
        if len(inset) and each <= 2 * int(inset.max()) + 1:
            inset = np.zeros(len(table), np.int64)
        known = owner[launch] >= 0
        self.external[replay.ops[known]] = self.next + owner[launch[known]]
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

    def _ranges(self, found: Source) -> _Ranges:
        """The ranges around these launches, with this recording's codes, and without inputs where
        those are of another batch."""
        trace = found.launched.linked.trace
        rows, *around = ranges_around_launches(found.launched)
        table = self._recoded(trace.host_ranges.take(rows), trace.strings, exact=found.is_exact)
        return _Ranges(table, *around)

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
        """The recording with all of them, and of its captures those that they come from, if any;
        None without ranges."""
        if len(self.tables) == 1:
            return None
        columns = {
            f.name: np.concatenate([getattr(one, f.name) for one in self.tables])
            for f in fields(HostRanges)
        }
        given = self.linked.trace.captures
        return replace(
            self.linked.trace,
            strings=self.strings,
            host_ranges=HostRanges.from_columns(columns),
            device_ops=replace(self.linked.trace.device_ops, external_id=self.external),
            captures=tuple(filter(self.used.__contains__, given)) or given,
        )
