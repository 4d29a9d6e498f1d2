"""The timeline of one representative step: device streams, idle gaps by cause, host threads, in
bounded size: the longest events of each sort; `Timeline.shown` says how many that is of how
many."""

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Generic, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import Column, at, blockwise_found
from traceanalyzer.analysis.causes.critical_path import PathKind
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.analysis.tables.gap_rows import gap_details
from traceanalyzer.analysis.tables.path_rows import segment_names
from traceanalyzer.base import cut, dataclass
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.timeline import lanes
from traceanalyzer.report.timeline.lanes import Category, CompileSpans, Timeline, extent_of
from traceanalyzer.report.timeline.path_line import OnPath, device_facts, host_facts, path_line
from traceanalyzer.trace import I64, U8, Bool, RangeKind, distinct

Text = TypeVar("Text", str, tuple[str, ...])

MAX_DEVICE_OPS = 8_000
MAX_GAPS = 4_000
MAX_HOST_EVENTS = 10_000
"""Longest ones shown. A step of a large model in eager mode has 800 kernels and 6,000 host events:
nearly every step is shown in full, and a browser still draws all of it at once."""
EXPLAINED_GAPS = 400
"""Longest gaps whose cause is explained in words; each costs a search of the host's timeline."""
MAX_THREADS = 6  # those with the most time, levels of nesting: what a screen can show
MAX_DEPTH = 8
MAX_STREAMS = 16
MAX_NAME = 160  # characters of a name or of its explanation


_OF_PATH = np.array(
    [Category[f"PATH_{kind.name}" if kind >= PathKind.LAUNCH else kind.name] for kind in PathKind]
)
_OF_RANGE = {RangeKind.ANNOTATION: Category.ANNOTATION, RangeKind.LIBRARY: Category.LIBRARY}


def step_timeline(
    m: Measurements, compiling: CompileSpans | None = None, step: int | None = None
) -> Timeline | None:
    """The timeline of a step (its index, one of `shown_steps`; None: the representative one); None
    where neither host nor device was recorded event by event. `compiling` is drawn where the step
    has some."""
    if not len(m.trace.device_ops) and not len(m.linked.tree.start):
        return None
    drawing = _Drawing(m, lanes.representative(m.timed.steps) if step is None else step, compiling)
    parts = [
        part
        for draw in (_critical_path, _gaps, _streams, _threads, _compiling)
        for part in draw(drawing)
    ]
    return drawing.timeline(parts, path_line(drawing.on_path, drawing.extent))


@dataclass(frozen=True, eq=False)
class _Part:
    """Events of one sort: rows of whatever they are, and what is drawn of them."""

    lane: I64
    category: I64
    start: I64
    end: I64
    name: list[str]
    detail: list[str]
    facts: list[list[str]] = field(default_factory=list)
    own: I64 | None = None
    link: I64 | None = None
    on_path: I64 | None = None


class _Drawing:
    """The step being drawn: its window, and the lanes and counts met so far."""

    def __init__(self, m: Measurements, step: int, compiling: CompileSpans | None) -> None:
        steps = m.timed.steps
        self.m = m
        self.step = step
        self.compiling = compiling
        self.window = (int(steps.start[step]), int(steps.end[step]))
        self.extent = extent_of(steps, step)
        self.on_path = OnPath(m)
        self.lanes: list[lanes.Lane] = []
        self.shown: list[lanes.Shown] = []

    def longest(self, what: str, rows: I64, start: Column, end: Column, limit: int) -> I64:
        """The rows that are in the step, at most `limit` of them: the longest."""
        low, high = self.extent

        def in_step(block: I64) -> I64:
            inside: I64 = block[(end[block] > low) & (start[block] < high)]
            return inside

        rows = blockwise_found(in_step, rows)
        kept = rows
        if len(rows) > limit:
            length = np.minimum(end[rows], high) - np.maximum(start[rows], low)
            kept = np.sort(rows[np.argpartition(-length, limit - 1)[:limit]])
        if len(rows):
            self.shown.append(lanes.Shown(what, len(kept), len(rows)))
        return kept

    def add_lanes(self, title: str, levels: int = 1) -> int:
        """New lanes of one title; the first one's index."""
        self.lanes += [lanes.Lane(title, level) for level in range(levels)]
        return len(self.lanes) - levels

    def timeline(self, parts: list[_Part], path: list[tuple[int, int, int]]) -> Timeline:
        """All parts together, times from the step's start."""
        of_lines = [tuple(lines) for p in parts for lines in p.facts or [[]] * len(p.start)]
        facts = encoded_texts(of_lines)
        names = encoded_texts([*chain.from_iterable(part.name for part in parts)])
        details = encoded_texts([*chain.from_iterable(part.detail for part in parts)])
        steps = self.m.timed.steps
        origin = self.window[0]
        columns = {
            "lane": _column(parts, "lane"),
            "category": _column(parts, "category"),
            "own": _column(parts, "own"),
            "link": _column(parts, "link"),
            "start": _column(parts, "start") - origin,
            "end": _column(parts, "end") - origin,
            "on_path": _column(parts, "on_path", otherwise=0),
            "name": names.index,
            "detail": details.index,
            "facts": facts.index,
        }
        return Timeline(
            step=steps.first + self.step if steps.found else None,
            origin_ns=origin,
            extent=(self.extent[0] - origin, self.extent[1] - origin),
            window=(0, self.window[1] - origin),
            lanes=self.lanes,
            names=names.values,
            detail=details.values,
            shown=self.shown,
            facts=[list(lines) for lines in facts.values],
            events=lanes.DrawnEvents.from_columns(columns),
            path=[(start - origin, end - origin, lane) for start, end, lane in path],
        )


def _column(parts: list[_Part], name: str, otherwise: int = -1) -> I64:
    """A column of all parts, `otherwise` where a part has none."""
    columns = [getattr(p, name) for p in parts]
    filled = [
        np.full(len(p.start), otherwise) if c is None else c
        for p, c in zip(parts, columns, strict=True)
    ]
    return np.concatenate([*filled, np.empty(0, np.int64)])


@dataclass(frozen=True, eq=False)
class Encoded(Generic[Text]):
    """Distinct texts (or several each), and for each text its index; -1 for an empty one."""

    values: list[Text]
    index: I64


def encoded_texts(texts: Sequence[Text]) -> Encoded[Text]:
    """The texts, each distinct one once."""
    codes: dict[Text, int] = {}
    index = [codes.setdefault(text, len(codes)) if text else -1 for text in texts]
    return Encoded(list(codes), np.array(index, np.int64))


def shown_name(text: str | None) -> str:
    """A name that a timeline has room for."""
    return cut(text, MAX_NAME) if text else "(no name)"


def _critical_path(d: _Drawing) -> Iterator[_Part]:
    """The chain of causes that is as long as the step; segments of one kind in a row are one."""
    path = d.on_path.path
    low, high = d.extent
    inside = np.flatnonzero((path.end > low) & (path.start < high))
    if not len(inside):
        return
    kind = path.kind[inside]
    first, count = _runs_of_kind(kind)
    longest = inside[_longest_of_runs(path.duration[inside], count)]
    start = path.start[inside[first]]
    end = path.end[inside[first + count - 1]]
    rows = d.longest("stretches of the critical path", np.arange(len(first)), start, end, MAX_GAPS)
    code, names = segment_names(d.m.timed, path)
    yield _Part(
        lane=np.full(len(rows), d.add_lanes("critical path")),
        category=_OF_PATH[kind[first[rows]]],
        start=start[rows],
        end=end[rows],
        name=[shown_name(names[i]) for i in code[longest[rows]].tolist()],
        detail=[
            f"the longest of {n} segments in a row" if n > 1 else "" for n in count[rows].tolist()
        ],
    )


def _runs_of_kind(kind: U8) -> tuple[I64, I64]:
    """The first segment of each run of one kind, and how many it has: work of the GPU or the host
    is never joined."""
    differs = (kind[1:] != kind[:-1]) | (kind[1:] < PathKind.LAUNCH)
    first = np.flatnonzero(np.append(True, differs))
    return first, np.diff(np.append(first, len(kind)))


def _longest_of_runs(length: I64, count: I64) -> I64:
    """The index of the longest segment of each run; `count`: how many segments each run has."""
    run = np.repeat(np.arange(len(count)), count)
    longest: I64 = np.lexsort((length, run))[np.cumsum(count) - 1]
    return longest


def _gaps(d: _Drawing) -> Iterator[_Part]:
    gaps = d.m.causes.gaps
    rows = d.longest("idle gaps", np.arange(len(gaps)), gaps.start, gaps.end, MAX_GAPS)
    longest = rows[np.argsort(-gaps.duration[rows], kind="stable")[:EXPLAINED_GAPS]]
    explained = dict(
        zip(
            longest.tolist(),
            gap_details(d.m.timed, gaps, longest),
            strict=True,
        )
    )
    for device in distinct(gaps.device[rows]).tolist():
        of_device = rows[gaps.device[rows] == device]
        yield _Part(
            lane=np.full(len(of_device), d.add_lanes(f"GPU {device} idle")),
            start=gaps.start[of_device],
            end=gaps.end[of_device],
            category=gaps.cause[of_device].astype(np.int64) + Category.IDLE_LAUNCH,
            name=[f"idle: {IdleCause(cause).label}" for cause in gaps.cause[of_device].tolist()],
            detail=[cut(explained.get(row, ""), MAX_NAME) for row in of_device.tolist()],
        )


def _streams(d: _Drawing) -> Iterator[_Part]:
    ops = d.m.trace.device_ops
    rows = d.longest("device ops", np.arange(len(ops)), ops.start, ops.end, MAX_DEVICE_OPS)
    place = np.stack((ops.device[rows], ops.stream[rows]))
    distinct, group = np.unique(place, axis=1, return_inverse=True)
    duration = ops.end[rows] - ops.start[rows]
    time = np.bincount(group.reshape(-1), weights=duration, minlength=distinct.shape[1])
    for g in np.sort(np.argsort(-time)[:MAX_STREAMS]).tolist():
        of_stream = rows[group.reshape(-1) == g]
        lane = d.add_lanes(f"GPU {distinct[0, g]} stream {distinct[1, g]}")
        full = [d.m.trace.text(code) or "" for code in ops.name[of_stream].tolist()]
        short = {name: short_name(name) for name in set(full)}
        yield _Part(
            lane=np.full(len(of_stream), lane),
            category=device_categories(d.m, of_stream),
            start=ops.start[of_stream],
            end=ops.end[of_stream],
            name=[shown_name(short[name]) for name in full],
            detail=[cut(name, MAX_NAME) if short[name] != name else "" for name in full],
            facts=device_facts(d.m, of_stream),
            own=of_stream,
            on_path=d.on_path.of_op[of_stream],
            link=np.where(
                d.m.linked.launch[of_stream] >= 0,
                d.m.linked.launch[of_stream] + len(ops),
                -1,
            ),
        )
        d.on_path.lane_of_op[of_stream] = lane


def _threads(d: _Drawing) -> Iterator[_Part]:
    tree = d.m.linked.tree
    ops = len(d.m.trace.device_ops)
    shallow = np.flatnonzero(tree.depth < MAX_DEPTH)
    rows = d.longest("host ranges and calls", shallow, tree.start, tree.end, MAX_HOST_EVENTS)
    category = host_categories(d.m, rows)
    threads, of_thread = np.unique(tree.thread[rows], return_inverse=True)
    outermost = np.where(
        tree.depth[rows] == 0,
        tree.end[rows] - tree.start[rows],
        0,
    )
    busiest = threads[
        np.argsort(-np.bincount(of_thread, weights=outermost), kind="stable")[:MAX_THREADS]
    ]
    for thread in busiest.tolist():
        of_thread_id = tree.thread[rows] == thread
        nodes = rows[of_thread_id]
        lane = d.add_lanes(
            thread_title(d.m, thread),
            int(tree.depth[nodes].max()) + 1,
        )
        is_call = tree.is_call[nodes]
        row = tree.row[nodes]
        yield _Part(
            lane=lane + tree.depth[nodes].astype(np.int64),
            category=category[of_thread_id],
            start=tree.start[nodes],
            end=tree.end[nodes],
            name=node_names(d.m, nodes),
            detail=[""] * len(nodes),
            facts=host_facts(d.m, nodes),
            own=np.where(is_call, row + ops, -1),
            on_path=d.on_path.of_node[nodes],
            link=np.where(is_call, d.on_path.ended_by(row, is_call), -1),
        )
        d.on_path.lane_of_thread[thread] = lane


def _compiling(d: _Drawing) -> Iterator[_Part]:
    spans = d.compiling
    if spans is None:
        return
    shallow = np.flatnonzero(spans.depth < MAX_DEPTH)
    rows = d.longest("pieces of compile work", shallow, spans.start, spans.end, MAX_HOST_EVENTS)
    if not len(rows):
        return
    depth = spans.depth[rows]
    yield _Part(
        lane=d.add_lanes("torch.compile", int(depth.max()) + 1) + depth,
        category=np.full(len(rows), int(Category.COMPILE)),
        start=spans.start[rows],
        end=spans.end[rows],
        name=[shown_name(spans.name[row]) for row in rows.tolist()],
        detail=[cut(spans.detail[row], MAX_NAME) for row in rows.tolist()],
    )


def device_categories(m: Measurements, rows: I64) -> I64:
    """What these device ops are."""
    copies = np.where(m.linked.is_copy[rows], Category.COPY, Category.COMPUTE)
    return np.where(m.linked.is_communication[rows], Category.COMMUNICATION, copies)


def host_categories(m: Measurements, nodes: I64) -> I64:
    """What these nodes of the host's tree are."""
    tree = m.linked.tree
    result = np.full(len(nodes), int(Category.OPERATOR))
    for kind, category in _OF_RANGE.items():
        result[tree.kind[nodes] == kind] = category
    call: Bool = tree.is_call[nodes]
    result[call] = np.where(
        m.joined.blocks[tree.row[nodes[call]]], Category.WAIT, Category.API_CALL
    )
    return result


def node_names(m: Measurements, nodes: I64) -> list[str]:
    """What these nodes of the host's tree are called."""
    tree = m.linked.tree
    calls = m.trace.api_calls
    is_call = tree.is_call[nodes]
    codes = np.where(
        is_call,
        at(
            calls.name,
            np.where(is_call, tree.row[nodes], -1),
            -1,
        ),
        tree.names(nodes),
    )
    return [shown_name(m.trace.text(code)) for code in codes.tolist()]


def thread_title(m: Measurements, thread: int) -> str:
    """What a thread is called."""
    known = m.trace.threads[thread] if 0 <= thread < len(m.trace.threads) else None
    if known is None:
        return "host thread"
    return cut(
        known.name if known.tid in known.name else f"thread {known.tid} {known.name}".strip(),
        MAX_NAME,
    )
