"""Python frames, where stacks were recorded: which frame a thread was in at a moment, and its
callers."""

from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import (
    Nesting,
    innermost_open_at,
    levels,
    nest,
    subtree_ends,
    texts_where,
)
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, I64, Bool, RangeKind, Trace, distinct

_SOURCE_LINE = regex(r"\(\d+\): ")
_LIBRARY = regex(
    r"(site|dist)-packages/|^(\S*/)?torch/|^<frozen |/lib(64)?/python3|^(threading|runpy|contextlib)\.py"
)


@dataclass(frozen=True, eq=False)
class PythonStacks:
    """Python frames of all threads, sorted by (thread, start, longest first); arrays have one entry
    a frame."""

    strings: list[str]
    name: I32
    start: I64
    end: I64
    thread: I32
    row: I64  # row in `Trace.host_ranges`

    @classmethod
    def build(cls, trace: Trace) -> "PythonStacks":
        """Make the stacks of a trace; without frames they are empty and every answer is "none"."""
        return cls.of_rows(trace, np.flatnonzero(trace.host_ranges.kind == RangeKind.PYTHON))

    @classmethod
    def of_rows(cls, trace: Trace, rows: I64) -> "PythonStacks":
        """The stacks that some host ranges make."""
        ranges = trace.host_ranges
        keys = (-ranges.end[rows], ranges.start[rows], ranges.thread[rows])
        rows = rows[np.lexsort(keys)]
        return cls(
            trace.strings,
            name=ranges.name[rows],
            start=ranges.start[rows],
            end=ranges.end[rows],
            thread=ranges.thread[rows],
            row=rows,
        )

    @cached_property
    def parent(self) -> I32:
        """For each frame the frame that called it, -1 for the outermost."""
        return self._nesting.parent

    def frames_at(self, thread: I32 | I64, time: I64) -> I64:
        """The innermost frame that each of these threads was in at each of these times, -1 where
        none was."""
        result = np.full(len(time), -1, np.int64)
        for number in distinct(np.asarray(thread)):
            asked = np.flatnonzero(thread == number)
            first, stop = np.searchsorted(self.thread, (number, number + 1))
            frame = np.searchsorted(self.start[first:stop], time[asked], side="right") - 1
            result[asked] = np.where(frame >= 0, frame + first, -1)
        return innermost_open_at(self.parent, self.end, result, np.asarray(time))

    def line_at(self, thread: I32 | I64, time: I64) -> I64:
        """Name code of the line of the program that each of these threads was in at each of these
        times, -1 without."""
        if not len(self.start):
            return np.full(len(time), -1, np.int64)
        named = np.append(self.name[self.line], -1)
        return named[self.frames_at(thread, time)].astype(np.int64)

    @cached_property
    def line(self) -> I64:
        """For each frame the one whose line is shown for it: of itself and its callers the
        innermost with a source line outside installed libraries, else with any, else itself."""
        with_line = texts_where(self.strings, _SOURCE_LINE.search)
        own = with_line & ~texts_where(self.strings, _LIBRARY.search)
        nearest = self._nearest(own[self.name])
        nearest = np.where(nearest >= 0, nearest, self._nearest(with_line[self.name]))
        return np.where(nearest >= 0, nearest, np.arange(len(self.name)))

    def _nearest(self, wanted: Bool) -> I64:
        """For each frame the innermost wanted one among itself and its callers, -1 without."""
        result = np.where(wanted, np.arange(len(wanted)), -1)
        for nodes in levels(self._nesting.depth)[1:]:
            result[nodes] = np.where(wanted[nodes], nodes, result[self._nesting.parent[nodes]])
        return result

    @cached_property
    def _nesting(self) -> Nesting:
        return nest(self.thread, self.start, self.end)

    @cached_property
    def subtree_end(self) -> I32:
        """For each frame the one after the last that it called, directly or not."""
        return subtree_ends(self.parent, self._nesting.depth)

    def source_line(self, thread: int, time: int) -> str | None:
        """The `line` of the program that the thread was in, as `file(line): function`; None
        without."""
        frames = self.frames_at(np.array([thread]), np.array([time]))
        frame = int(frames[0])
        return self.strings[self.name[self.line[frame]]] if frame >= 0 else None
