"""A server's log, an engine each: data-parallel engines write their lines into one log. And how long
requests run without a token."""

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, Bool, StepTimings

FEWEST_STALLED = 3
"""Lines in a row without a token: one or two are a long prefill, which servers count when it ends."""


@dataclass(frozen=True)
class Stall:
    """The longest time in which requests are in the server and none gets a token."""

    lines: int  # in a row, of one engine
    running: float  # requests in the batch then, mean
    to_the_end: bool  # of the log


def engines_of(log: StepTimings) -> dict[int, StepTimings]:
    """The lines of each engine by its number; of a log that names one engine or none, all lines."""
    named = np.unique(log.engine[log.engine >= 0]).tolist()
    if len(named) < 2:
        return {int(named[0]) if named else 0: log}
    return {int(one): log.take(log.engine == one) for one in named}


def lines_at_work(log: StepTimings) -> Bool:
    """The lines on rates of a server that has requests, or gives tokens. Lines of an idle server say
    nothing of how fast it is; those of a stalled one do."""
    gives = (log.tokens_per_s > 0) | (log.prompt_tokens_per_s > 0)
    return gives | ((log.tokens_per_s >= 0) & _has_requests(log))


def summed_rate(log: StepTimings, name: str) -> float | None:
    """A rate of the server: the sum over its engines of their means; None where no line says it."""
    means = [_mean_rate(lines, name) for lines in engines_of(log).values()]
    known = [mean for mean in means if mean is not None]
    return sum(known) if known else None


def _mean_rate(log: StepTimings, name: str) -> float | None:
    rate: F64 = getattr(log, name)[lines_at_work(log)]
    known = rate[rate >= 0]
    return float(known.mean()) if len(known) else None


def longest_stall(log: StepTimings) -> Stall | None:
    """The longest stall of an engine; None where there is none of `FEWEST_STALLED` lines."""
    stalls = [_stall(lines) for lines in engines_of(log).values()]
    known = [stall for stall in stalls if stall is not None]
    return max(known, key=lambda stall: stall.lines, default=None)


def _stall(log: StepTimings) -> Stall | None:
    rated = log.take(log.tokens_per_s >= 0)
    gives_none = (rated.tokens_per_s == 0) & (rated.prompt_tokens_per_s <= 0)
    silent = gives_none & _has_requests(rated)
    framed = np.concatenate(([False], silent, [False]))
    edges = np.flatnonzero(framed[1:] != framed[:-1])
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return None
    longest = int((ends - starts).argmax())
    start, end = int(starts[longest]), int(ends[longest])
    if end - start < FEWEST_STALLED:
        return None
    running = float(np.maximum(rated.running_requests[start:end], 0).mean())
    return Stall(end - start, running, end == len(rated))


def _has_requests(log: StepTimings) -> Bool:
    return (log.running_requests > 0) | (log.waiting_requests > 0)
