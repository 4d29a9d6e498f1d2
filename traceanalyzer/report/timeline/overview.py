"""Stretches with more events than a screen has pixels: all steps of a rank, or a step of every
rank.

What is shorter than a pixel is one block with its neighbours of the same lane and category, and a
block knows how much of it they fill: a device that is busy with short kernels looks busy, and the
pauses between them as short as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import Column, blockwise_found
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.timeline import step_timeline as of_step
from traceanalyzer.report.timeline.lanes import Category, DrawnEvents, Lane, Shown, Timeline
from traceanalyzer.trace import I32, I64, Table, column, distinct

FINEST = 16_000
"""Parts of a stretch that are told apart at most: as many as eight screens have pixels."""
MAX_BLOCKS = 9_000  # of one timeline: of more, the parts are made larger until they are fewer
Names = Callable[[I64], list[str]]


@dataclass(frozen=True)
class DrawnStretch:
    """What is drawn of a rank: from when to when on its clock (ns), and what is added to come to
    the timeline's."""

    m: Measurements
    start: int
    end: int
    shift: int = 0
    prefix: str = ""
    threads: int = 1
    levels: int = 2  # threads of the host with the most time, and their outermost ranges
    steps: bool = False  # whether the steps have a lane


@dataclass(frozen=True, eq=False)
class DrawnBlocks(Table):
    """Events, or several that are drawn as one."""

    lane: I32 = column(np.int32)
    category: I32 = column(np.int32)
    start: I64 = column(np.int64)
    end: I64 = column(np.int64)
    filled: I64 = column(np.int64)  # time of it that they take, ns
    count: I64 = column(np.int64, fill=1)
    row: I64 = column(np.int64)  # where its name is found, if it is one event


def overview(stretches: Sequence[DrawnStretch], origin_ns: int, title: str) -> Timeline:
    """The stretches below each other on one clock, whose origin is this moment of the recording."""
    drawing = _Overview()
    for stretch in stretches:
        drawing.add(stretch)
    names = ("lane", "category", "start", "end", "filled", "count", "row")
    together = {
        name: np.concatenate([getattr(one, name) for one in drawing.made]) for name in names
    }
    blocks = DrawnBlocks.from_columns(together)
    least = drawing.least
    while len(blocks) > MAX_BLOCKS and least < FINEST * drawing.least:
        least *= 2
        blocks = merged_blocks(blocks, least)
    texts = of_step.encoded_texts(drawing.names(blocks))
    same = {name: getattr(blocks, name) for name in names[:4]}
    filled = np.rint(100 * blocks.filled / np.maximum(blocks.end - blocks.start, 1))
    ends = [moment + one.shift for one in stretches for moment in (one.start, one.end)]
    return Timeline(
        step=None,
        origin_ns=origin_ns,
        extent=(min(ends), max(ends)),
        window=(min(ends), max(ends)),
        lanes=drawing.lanes,
        names=texts.values,
        detail=[],
        events=DrawnEvents.from_columns(
            {**same, "name": texts.index, "filled": np.clip(filled, 1, 100)}
        ),
        shown=[Shown(what, count, count) for what, count in drawing.shown.items()],
        title=title,
    )


def merged_blocks(blocks: DrawnBlocks, least: int) -> DrawnBlocks:
    """What is shorter than `least` ns, and nearer than that to the next of its lane and category,
    as one block."""
    if not len(blocks):
        return blocks
    ordered = blocks.take(np.lexsort((blocks.start, blocks.category, blocks.lane)))
    short = ordered.end - ordered.start < least
    close = ordered.start[1:] - ordered.end[:-1] < least
    one_lane = ordered.lane[1:] == ordered.lane[:-1]
    one_kind = ordered.category[1:] == ordered.category[:-1]
    follows = short[1:] & short[:-1] & close & one_lane & one_kind
    first = np.flatnonzero(np.append(True, ~follows))
    return replace(
        ordered.take(first),
        end=np.maximum.reduceat(ordered.end, first),
        filled=np.add.reduceat(ordered.filled, first),
        count=np.add.reduceat(ordered.count, first),
    )


class _Overview:
    """The lanes met so far, the events of each merged at once: there may be millions."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.made: list[DrawnBlocks] = [DrawnBlocks.from_columns({}, 0)]
        self.shown: dict[str, int] = {}
        self.least = 1
        self._names: list[Names] = []

    def add(self, stretch: DrawnStretch) -> None:
        """The lanes of a rank."""
        self.least = max(self.least, (stretch.end - stretch.start) // FINEST)
        if stretch.steps:
            steps = stretch.m.timed.steps
            self._lane(
                stretch,
                "steps",
                np.arange(len(steps)),
                np.full(len(steps), int(Category.ANNOTATION)),
                (steps.start, steps.end),
                lambda i: [f"step {steps.first + n}" for n in i],
            )
        self._idle(stretch)
        self._streams(stretch)
        self._threads(stretch)

    def names(self, blocks: DrawnBlocks) -> list[str]:
        """What each is called: an event by its own name, several by their number."""
        found = [f"{count:,} short ones" for count in blocks.count.tolist()]
        for lane in distinct(blocks.lane).tolist():
            alone = np.flatnonzero((blocks.lane == lane) & (blocks.count == 1))
            for place, name in zip(
                alone.tolist(), self._names[lane](blocks.row[alone]), strict=True
            ):
                found[place] = name
        return found

    def _lane(
        self,
        stretch: DrawnStretch,
        title: str,
        rows: I64,
        category: I64,
        times: tuple[Column, Column],
        names: Names,
        level: int = 0,
    ) -> None:
        clipped = (np.clip(time[rows], stretch.start, stretch.end) for time in times)
        start, end = (time + stretch.shift for time in clipped)
        lane = np.full(len(rows), len(self.lanes))
        columns = {
            "lane": lane,
            "category": category,
            "start": start,
            "end": end,
            "filled": end - start,
            "row": rows,
        }
        self.made.append(merged_blocks(DrawnBlocks.from_columns(columns), self.least))
        self.lanes.append(Lane(stretch.prefix + title, level))
        self._names.append(names)

    def _inside(
        self, stretch: DrawnStretch, what: str, rows: I64, start: Column, end: Column
    ) -> I64:
        found = blockwise_found(
            lambda i: i[(end[i] > stretch.start) & (start[i] < stretch.end)],
            rows,
        )
        self.shown[what] = self.shown.get(what, 0) + len(found)
        return found

    def _idle(self, stretch: DrawnStretch) -> None:
        gaps = stretch.m.causes.gaps
        rows = self._inside(stretch, "idle gaps", np.arange(len(gaps)), gaps.start, gaps.end)
        for device in distinct(gaps.device[rows]).tolist():
            of_device = rows[gaps.device[rows] == device]
            kind = gaps.cause[of_device].astype(np.int64) + Category.IDLE_LAUNCH
            self._lane(
                stretch,
                f"GPU {device} idle",
                of_device,
                kind,
                (gaps.start, gaps.end),
                lambda i: [f"idle: {IdleCause(cause).label}" for cause in gaps.cause[i].tolist()],
            )

    def _streams(self, stretch: DrawnStretch) -> None:
        ops = stretch.m.trace.device_ops
        text = stretch.m.trace.text
        rows = self._inside(stretch, "device ops", np.arange(len(ops)), ops.start, ops.end)
        devices = ops.device[rows].astype(np.int64)
        device_stream = (devices << 32) + ops.stream[rows] + 1
        places, group = np.unique(device_stream, return_inverse=True)
        time = np.bincount(
            group,
            weights=ops.end[rows] - ops.start[rows],
            minlength=len(places),
        )
        for g in np.sort(np.argsort(-time)[: of_step.MAX_STREAMS]).tolist():
            of_stream = rows[group == g]
            device = int(places[g]) >> 32
            stream = (int(places[g]) & 0xFFFFFFFF) - 1
            self._lane(
                stretch,
                f"GPU {device} stream {stream}",
                of_stream,
                of_step.device_categories(stretch.m, of_stream),
                (ops.start, ops.end),
                lambda i: [
                    of_step.shown_name(short_name(text(code) or ""))
                    for code in ops.name[i].tolist()
                ],
            )

    def _threads(self, stretch: DrawnStretch) -> None:
        tree = stretch.m.linked.tree
        shallow = np.flatnonzero(tree.depth < stretch.levels)
        rows = self._inside(stretch, "host ranges and calls", shallow, tree.start, tree.end)
        threads, group = np.unique(tree.thread[rows], return_inverse=True)
        time = np.bincount(
            group,
            np.where(
                tree.depth[rows] == 0,
                tree.end[rows] - tree.start[rows],
                0,
            ),
            len(threads),
        )
        for g in np.argsort(-time, kind="stable")[: stretch.threads].tolist():
            of_thread = rows[group == g]
            for level in distinct(tree.depth[of_thread]).tolist():
                of_level = of_thread[tree.depth[of_thread] == level]
                self._lane(
                    stretch,
                    of_step.thread_title(stretch.m, int(threads[g])),
                    of_level,
                    of_step.host_categories(stretch.m, of_level),
                    (tree.start, tree.end),
                    lambda i: of_step.node_names(stretch.m, i),
                    level,
                )
