"""Which lines of Python the host was in during a gap, where stacks were recorded."""

import numpy as np

from traceanalyzer.analysis.joined.python_stacks import PythonStacks
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import digits, regex
from traceanalyzer.trace import I64

MIN_GAP_NS = 1_000_000  # shorter gaps are dispatch, whose frames say nothing
WHOLE_SHARE = 0.9  # the place of a gap is the innermost function that still fills this share of it
PART_SHARE = 0.1  # functions within it are named from this share of the gap on
WRAPPED_SHARE = 0.8
"""A function that spends this much of its time in the functions it calls only passes the call
on."""
PARTS = 3
MAX_FRAMES = 20_000  # frames of one gap that are looked at, the longest
BUILT_IN = "<built-in"
_OF_C = regex(
    r"^<built-in (?:method|function) (\S+?)( of (?!type )\S+)?(?: object at .*| of .*)?>$"
)
_SOURCE = regex(r"(?:^|[/\\])([^/\\]+\(\d+\): .+)$")


def python_frames(timed: Timed, thread: int, start: int, end: int) -> str:
    """`video.py(129): preprocess (of it normalize 106 ms, rescale 33 ms)`; empty where nothing is
    known."""
    stacks = timed.joined.python
    if thread < 0 or end - start < MIN_GAP_NS or not len(stacks.start):
        return ""
    first, stop = np.searchsorted(stacks.thread, (thread, thread + 1)).tolist()
    stop = first + int(np.searchsorted(stacks.start[first:stop], end, side="left"))
    rows = first + np.flatnonzero(stacks.end[first:stop] > start)
    spent = np.minimum(stacks.end[rows], end) - np.maximum(stacks.start[rows], start)
    if len(rows) > MAX_FRAMES:
        longest = np.sort(np.argsort(-spent, kind="stable")[:MAX_FRAMES])
        rows = rows[longest]
        spent = spent[longest]
    if not len(rows):
        return ""
    # Rows are in the order of a walk through the tree: the last of those that fill the gap is the
    # innermost.
    place = int(rows[spent >= WHOLE_SHARE * (end - start)].max(initial=-1))
    parts = _parts(stacks, rows, spent, place, end - start)
    told = ", ".join(
        f"{_named(name).rpartition(': ')[2]} {digits(time / 1e6)} ms" for name, time in parts
    )
    if place < 0:
        return told
    where = _named(stacks.strings[stacks.name[place]])
    return f"{where} (of it {told})" if told else where


def _named(frame: str) -> str:
    """`video.py(129): preprocess` without its folders, and of a function written in C its name and
    the type that it belongs to, without an address: `acquire of _thread.lock`."""
    source = _SOURCE.search(frame)
    if source:
        return source[1]
    of_c = _OF_C.match(frame)
    return "".join(of_c.groups(default="")) if of_c else frame


def _parts(
    stacks: PythonStacks, rows: I64, spent: I64, place: int, length: int
) -> list[tuple[str, int]]:
    """Functions called within the place (-1: anywhere), by time: names with their sums, those left
    out that only pass a call on. A frame inside another one of its name is counted there.

    Rows are in the order of a walk through the tree: what is inside of a frame follows it up to the
    end of its subtree."""
    time: dict[str, int] = {}
    passed: dict[str, int] = {}
    counted_until: dict[str, int] = {}  # the end of the last counted frame of each name
    last = int(stacks.subtree_end[place]) if place >= 0 else len(stacks.start)
    for row, ns in zip(rows.tolist(), spent.tolist(), strict=True):
        if not place < row < last:
            continue
        name = stacks.strings[stacks.name[row]]
        if row < counted_until.get(name, 0):
            continue
        counted_until[name] = int(stacks.subtree_end[row])
        time[name] = time.get(name, 0) + ns
        parent = int(stacks.parent[row])
        if parent not in (-1, place) and not name.startswith(BUILT_IN):
            above = stacks.strings[stacks.name[parent]]
            passed[above] = passed.get(above, 0) + ns
    kept = [
        (name, ns)
        for name, ns in time.items()
        if ns >= PART_SHARE * length and passed.get(name, 0) < WRAPPED_SHARE * ns
    ]
    return sorted(kept, key=lambda item: -item[1])[:PARTS]
