"""The server's own log of its iterations: found again in the recording by order, batch and
tokens."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.names.serving import Split
from traceanalyzer.base import NS_PER_MS, dataclass
from traceanalyzer.trace import F64, I64, Bool, StepTimings

COLUMNS = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
MATCHED = 0.9
"""The log is of another time if fewer of the recorded iterations are in it, in their order."""
MOST_COMPARED = 50_000_000  # iterations of the log times those of the recording; more takes seconds
SAME_RUN = 0.03
"""Decodes that are as long in the log as in the recording are those that were recorded, else the
same ones without the profiler."""
LEAST_STRETCH = 0.95
MOST_STRETCH = {False: 2.35, True: 3.5}
"""Decodes as recorded over as logged, by whether Python stacks were recorded: outside, the log is
another server's. A host keeps 0.45 (0.3) of its time without the profiler at least, and runs differ
by 5 %."""


@dataclass(frozen=True)
class Logged:
    """What the log says of the recorded iterations."""

    time_ns: F64  # of each recorded iteration; NaN where it is not in the log
    stretch: float | None
    """By how much the profiler lengthens decodes: as recorded over as logged without it, else over
    those that the log has of the same requests just before and after the recording; None where
    there are none."""
    other_ms: tuple[float, float] | None = None
    """Decodes as logged and as recorded, medians, where these cannot be of one server; then there
    are no times."""


def logged(
    log: StepTimings, splits: Sequence[Split], recorded_ns: F64, stacks: bool = False
) -> Logged | None:
    """The log's times of the recorded iterations; None where it is not certain which of its lines
    they are."""
    told = np.array([_counts(split) for split in splits], np.int64)
    lines = np.column_stack([getattr(log, name) for name in COLUMNS])
    begin = _place(told, lines)
    if begin is None:
        return None
    matched = np.zeros(len(lines), bool)
    matched[begin : begin + len(told)] = True
    same = _alike(told, lines[matched]) & (log.duration[matched] > 0)
    time = np.where(same, log.duration[matched], np.nan).astype(np.float64)
    decodes = same & np.isfinite(recorded_ns) & _is_decode(lines[matched])
    both = [1.0, 1.0]
    if decodes.any():
        both = [float(np.median(ns[decodes])) / NS_PER_MS for ns in (time, recorded_ns)]
    longer = both[1] / both[0]
    if not LEAST_STRETCH <= longer <= MOST_STRETCH[stacks]:
        unknown = np.full(len(told), np.nan)
        return Logged(unknown, stretch=None, other_ms=(both[0], both[1]))
    of_same_run = abs(longer - 1.0) <= SAME_RUN
    return Logged(time, _stretch(log, lines, matched) if of_same_run else longer)


def _counts(split: Split) -> list[int]:
    """What a mark says in the order of `COLUMNS`; -1 for what it does not say."""
    counts = [getattr(split, name) for name in COLUMNS]
    return [-1 if count is None else count for count in counts]


def _is_decode(lines: I64) -> Bool:
    """Which iterations have no prefill, and a decode."""
    return (lines[:, 0] == 0) & (lines[:, 2] > 0)


def _place(told: I64, lines: I64) -> int | None:
    """The first line of the only stretch of the log that they match."""
    count = len(told)
    places = len(lines) - len(told) + 1
    if not 0 < places * count <= MOST_COMPARED or not (told >= 0).any():
        return None
    stretches = (lines[i : i + count] for i in range(places))
    found = np.array([_alike(told, stretch).mean() for stretch in stretches])
    best = np.flatnonzero(found == found.max())
    return None if found.max() < MATCHED or len(best) > 1 else int(best[0])


def _alike(a: I64, b: I64) -> Bool:
    """Which rows agree in all that both say."""
    return ((a == b) | (a < 0) | (b < 0)).all(axis=1)


def _stretch(log: StepTimings, lines: I64, recorded: Bool) -> float | None:
    """Decodes inside the recording over those outside that no prefill parts from them: the requests
    are the same."""
    decode = _is_decode(lines) & (log.duration > 0)
    stretch = np.cumsum(lines[:, 0] != 0)
    ratios = []
    for part, batch in set(zip(stretch[decode], lines[decode, 2], strict=True)):
        alike = decode & (stretch == part) & (lines[:, 2] == batch)
        inside = log.duration[alike & recorded]
        outside = log.duration[alike & ~recorded]
        if len(inside) and len(outside):
            ratios.append(np.median(inside) / np.median(outside))
    return max(float(np.median(ratios)), 1.0) if ratios else None
