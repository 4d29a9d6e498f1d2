"""Charts of communication and of several ranks: what overlaps, what bandwidth is reached, who waits
in which step, who sends whom how much. Each is left out where it would say nothing."""

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from operator import itemgetter
from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, intersect, union
from traceanalyzer.base import NS_PER_MS
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.charts import Chart, axis_name
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.pictures.plot import Axis, Box, Dot, Dots, Plot, Rects
from traceanalyzer.report.html.pictures.svg import CHARACTER_PX, USUAL_PX
from traceanalyzer.report.model import Report
from traceanalyzer.report.timeline.distributions import CollectiveMessage, StepsOfRank
from traceanalyzer.report.timeline.lanes import Category, Timeline

ROW_PX = 24
EDGES_PX = 60
STRIP_PX = 32
PALEST = 0.12  # strength of the colour of the least value
LEAST_SPREAD = 0.2
LEAST_WAIT = 0.1
"""Of the longest step, and of a step: differences and waits below that are not to look like large
ones."""
FINEST = 2_000  # boxes that a strip has room for: nearer neighbours are one
MAX_PEERS = 64  # ranks along the sides of the traffic's map
PALETTE = ("communication", "compute", "copy", "idle-launch", "idle-sync", "idle-input")


def overlap(details: Details) -> Chart | None:
    """Compute against communication over a step, each collective with the part of it that does not
    overlap."""
    timeline = details.timeline
    messages = details.messages
    if timeline is None or not messages:
        return None
    streams = list(dict.fromkeys(message.stream for message in messages))
    drawn = [mark for mark in _strips(timeline, messages, streams) if mark.boxes]
    ends = (timeline.window[0] / NS_PER_MS, timeline.window[1] / NS_PER_MS)
    names = [
        "compute",
        *(["communication"] if len(streams) == 1 else [f"stream {stream}" for stream in streams]),
    ]
    plot = Plot(drawn, Axis("ms since the step's start", range=ends), Axis(names=names), down=True)
    caption = (
        "The timeline's step: communication makes it longer only where no compute runs beside it. Each box is a "
        "collective of the step by its number: 'all_reduce 2/7' is the second of seven."
    )
    return Chart("overlap", "Overlap", caption, plot, EDGES_PX + STRIP_PX * len(names))


def _strips(
    timeline: Timeline, messages: Sequence[CollectiveMessage], streams: Sequence[int]
) -> list[Rects]:
    """Compute, collectives, what of these overlaps, and their names."""
    compute = _compute(timeline)
    length = timeline.window[1] - timeline.window[0]
    place = {stream: 1 + i for i, stream in enumerate(streams)}
    ran = [
        (start, end, 0, f"compute: {figure(end / NS_PER_MS - start / NS_PER_MS, 'ms')}")
        for start, end in _visible(compute, *timeline.window)
    ]
    exposed = [(m.start, m.end, place[m.stream], "") for m in messages]
    both = []  # the parts of a collective during which compute runs
    for m in messages:
        parts = intersect(
            union(np.array([m.start]), np.array([m.end])),
            compute,
        )
        visible = _visible(parts, m.start, m.end)
        both += [(*part, place[m.stream], "") for part in visible]
    return [
        _strip("compute", "compute", ran),
        _strip("exposed communication", "exposed-communication", exposed),
        _strip("communication beside compute", "idle-communication", both),
        Rects("", "communication", [_named(m, place[m.stream], length) for m in messages]),
    ]


def _compute(timeline: Timeline) -> IntervalSet:
    events = timeline.events
    on_path = np.array([lane.title.endswith("critical path") for lane in timeline.lanes], bool)
    rows = (events.category == Category.COMPUTE) & ~on_path[events.lane]
    starts = np.clip(events.start[rows], *timeline.window)
    ends = np.clip(events.end[rows], *timeline.window)
    return union(starts, ends)


def _visible(intervals: IntervalSet, start: int, end: int) -> Iterable[tuple[int, int]]:
    """Starts and ends of the set, with gaps closed that are too short to be seen between these
    moments."""
    least = (end - start) // FINEST
    merged = union(intervals.start, intervals.end + least)
    return zip(merged.start.tolist(), (merged.end - least).tolist(), strict=True)


def _strip(
    name: str,
    colour: str,
    parts: Sequence[tuple[int, int, int, str]],
) -> Rects:
    """Stretches of time (start and end in ns, place, hint) in strips below each other."""
    boxes = [
        Box(start / NS_PER_MS, end / NS_PER_MS, y - 0.4, y + 0.4, hint)
        for start, end, y, hint in parts
    ]
    return Rects(name, colour, boxes)


def _named(message: CollectiveMessage, place: int, window_ns: int) -> Box:
    """The name of a collective, or its number where there is no room, in a box that is not seen."""
    name = f"{message.kind} {message.number}/{message.count}"
    length = message.end - message.start
    size = "" if message.bytes is None else f", {figure(message.bytes, 'bytes')}"
    group = f" of group {message.group}" if message.group else ""
    return Box(
        message.start / NS_PER_MS,
        message.end / NS_PER_MS,
        place - 0.4,
        place + 0.4,
        (
            f"{name}{group}{size}: {figure(length, 'ns')}, {figure(message.exposed, 'ns')} "
            "of it exposed"
        ),
        name
        if length * USUAL_PX > (len(name) + 1) * CHARACTER_PX * window_ns
        else str(message.number),
        "exposed-communication" if 2 * message.exposed > length else "idle-communication",
        0.0,
    )


def bandwidths(report: Report) -> Chart | None:
    """Collectives by message size and bus bandwidth."""
    rows = [r for r in report.tables.get("collectives", []) if r.message_bytes and r.bus_gbs]
    if len(rows) < 2:
        return None
    kinds: dict[str, list[Dot]] = {}
    for row in rows:
        hint = (
            f"{row.collective}: {figure(row.message_bytes, 'bytes')}, {figure(row.bus_gbs, 'GB/s')}"
        )
        kinds.setdefault(row.collective, []).append(
            Dot(row.message_bytes / 1e6, row.bus_gbs, 6.0, hint)
        )
    dots = [
        Dots(axis_name(kind), colour, some)
        for (kind, some), colour in zip(kinds.items(), cycle(PALETTE))
    ]
    caption = (
        "Bus bandwidth of the collectives by the size of their messages: small ones cannot "
        "use the link."
    )
    plot = Plot(dots, Axis("MB a message", log=True), Axis("GB/s", log=True))
    return Chart("bandwidths", "Message size and bandwidth", caption, plot, 280)


def ranks_by_step(details: Details) -> Chart | None:
    """Step times of ranks as a map."""
    longest = max((time for row in details.by_rank for time in row.times_ms), default=0.0)
    ends = (longest * (1 - LEAST_SPREAD), longest)
    drawn = _by_step(
        details.by_rank,
        "compute",
        lambda row: row.times_ms,
        lambda time, _: figure(time, "ms"),
        ends,
    )
    if drawn is None:
        return None
    plot, low, high = drawn
    caption = (
        f"Step times of the ranks, {figure(low, 'ms')} to {figure(high, 'ms')}: the darker, "
        "the longer."
    )
    return _map("rank-steps", "Step time by rank and step", caption, plot, details.by_rank)


def waiting_by_step(details: Details) -> Chart | None:
    """What ranks waited for each other in each step, as a map."""
    rows = [row for row in details.by_rank if row.waiting_ms]

    def words(waited: float, step: float) -> str:
        return f"waits {figure(waited, 'ms')} ({waited / step if step else 0.0:.0%} of the step)"

    ends = (0.0, LEAST_WAIT * max((time for row in rows for time in row.times_ms), default=0.0))
    drawn = _by_step(rows, "idle-communication", lambda row: row.waiting_ms, words, ends)
    if drawn is None or not drawn[2]:
        return None
    plot, low, high = drawn
    caption = (
        f"Time that each rank waits in collectives for the others, {figure(low, 'ms')} to {figure(high, 'ms')}: the "
        "darker, the longer. The rank that is pale while others are dark holds them up."
    )
    return _map("rank-waiting", "Waiting by rank and step", caption, plot, rows)


def _map(id_: str, title: str, caption: str, plot: Plot, rows: Sequence[StepsOfRank]) -> Chart:
    if any(row.others for row in rows):
        caption += (
            " First the ranks that hold up the run most; a row of several shows their "
            "longest times."
        )
    return Chart(id_, title, caption, plot, EDGES_PX + ROW_PX * len(rows))


def _by_step(
    rows: Sequence[StepsOfRank],
    colour: str,
    values: Callable[[StepsOfRank], Sequence[float]],
    words: Callable[[float, float], str],
    ends: tuple[float, float],
) -> tuple[Plot, float, float] | None:
    """A map of ranks and steps, the darker, the larger the value, over these ends at least; its
    least and largest. None for one of either."""
    first = min((row.first for row in rows), default=0)
    steps = max((row.first - first + len(values(row)) for row in rows), default=0)
    if len(rows) < 2 or steps < 2:
        return None
    cells = [
        (
            row.first - first + j,
            i,
            value,
            f"{row.name}, step {row.first + j}: {words(value, row.times_ms[j])}",
        )
        for i, row in enumerate(rows)
        for j, value in enumerate(values(row))
    ]
    across = Axis("step", names=[str(first + j) for j in range(steps)])
    down = Axis(names=[row.name for row in rows])
    known = [value for _, _, value, _ in cells]
    return (
        Plot(
            [_cells(cells, colour, ends)],
            across,
            down,
            down=True,
        ),
        min(known),
        max(known),
    )


def _cells(
    cells: Sequence[tuple[int, int, float, str]], colour: str, ends: tuple[float, float]
) -> Rects:
    """Cells of a map: place across and down, value, and hint; as strong as the value is between the
    ends, or what lies beyond them."""
    low = min(ends[0], *(c[2] for c in cells))
    high = max(ends[1], *(c[2] for c in cells))
    boxes = []
    for x, y, value, hint in cells:
        strength = PALEST + (1 - PALEST) * (value - low) / ((high - low) or 1.0)
        boxes.append(Box(x - 0.48, x + 0.48, y - 0.46, y + 0.46, hint, strength=strength))
    return Rects("", colour, boxes)


def _traffic_cells(rows: Sequence[Any], place: dict[int, int]) -> list[tuple[int, int, float, str]]:
    """A cell for each pair of ranks that have a place."""
    cells = []
    for row in rows:
        if row.sender in place and row.receiver in place:
            what = f"{figure(row.bytes, 'bytes')} a step in {figure(row.messages)} messages"
            hint = f"rank {row.sender} to rank {row.receiver}: {what}"
            cells.append((place[row.receiver], place[row.sender], float(row.bytes), hint))
    return cells


def traffic_chart(report: Report) -> Chart | None:
    """What each rank sends each other one."""
    rows = [row for row in report.tables.get("traffic", []) if row.bytes]
    peers = sorted({row.sender for row in rows} | {row.receiver for row in rows})
    if not peers:
        return None
    by_worth = [row.rank for row in report.tables.get("ranks", []) if row.rank in set(peers)]
    ranks = peers
    if len(peers) > MAX_PEERS:
        ranks = (by_worth or peers)[:MAX_PEERS]
    cells = _traffic_cells(rows, {rank: i for i, rank in enumerate(ranks)})
    names = [f"rank {rank}" for rank in ranks]
    most = max(map(itemgetter(2), cells), default=0.0)
    caption = (
        "Bytes that the rank on the left sends the rank below in a step; "
        f"{figure(most, 'bytes')} in full colour."
    )
    if len(peers) > len(ranks):
        caption += (
            f" Of {len(peers)} ranks the {len(ranks)} that hold up the run most; the table "
            "has more."
        )
    marks = [_cells(cells, "communication", (0.0, most))]
    plot = Plot(marks, Axis("to", names=names), Axis("from", names=names), down=True)
    return Chart(
        "traffic", "Traffic between ranks", caption, plot, EDGES_PX + ROW_PX * len(ranks) + 20
    )
