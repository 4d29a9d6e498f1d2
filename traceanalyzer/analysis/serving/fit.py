"""What decides how long a decode takes: `a + b x requests + c x KV tokens`, by least squares over the iterations.

Weights are read once (a), the KV cache of every request each time (c), the rest grows with the batch (b).
"""

from collections.abc import Sequence
from itertools import compress

import numpy as np

from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64

MIN_ITERATIONS, MIN_BATCHES = 8, 3
"""Fewer, or of fewer batches, do not tell a line from a point."""
ALIKE = 0.995
"""KV that follows the batch more closely than this correlation has no share of its own."""
T_90 = 1.7
"""Of a normal distribution, or Student's with some twenty degrees of freedom: 90 % lie within so many deviations."""


@dataclass(frozen=True)
class DecodeFit:
    """GPU time of a decode (of a log alone: its time) by what it has to do, ms, each with its 90 % range. None: makes
    no difference that can be told apart."""

    a_ms: float
    a_range_ms: tuple[float, float]
    per_request_ms: float | None
    per_request_range_ms: tuple[float, float] | None
    per_kv_token_ms: float | None
    per_kv_token_range_ms: tuple[float, float] | None
    per_1000_kv_tokens_ms: float | None
    iterations: int
    batches: int
    host_ms: float
    """Median time of a decode beyond that: the GPU waits for the host, or for what the recording does not show."""
    error_share: float
    """Largest error of the prediction of a batch from the other batches alone: medians, as a share."""

    def gpu_ms(self, requests: float, kv_tokens: float) -> float:
        """GPU time of a decode of so many requests of that length in all."""
        return self.a_ms + (self.per_request_ms or 0.0) * requests + (self.per_kv_token_ms or 0.0) * kv_tokens


def decodes(rows: Sequence[IterationRow]) -> list[IterationRow]:
    """The decodes that say how much they do: recorded ones that follow another iteration, or a log's."""
    known = [row for row in rows if row.phase == "decode" and row.requests]
    return [row for row in known if (row.gpu_busy_ms and row.period_ms) or (row.gpu_span_ms is None and row.logged_ms)]


def decode_fit(rows: Sequence[IterationRow]) -> DecodeFit | None:
    """The fit; None where the decodes are too few or too alike."""
    chosen = decodes(rows)
    requests = np.array([row.requests for row in chosen], np.float64)
    batches = np.unique(requests)
    if len(chosen) < MIN_ITERATIONS or len(batches) < MIN_BATCHES:
        return None
    time = np.array([row.gpu_busy_ms or row.logged_ms for row in chosen], np.float64)
    kv = np.array([row.kv_tokens or np.nan for row in chosen], np.float64)
    columns = np.column_stack((np.ones(len(chosen)), requests, np.nan_to_num(kv)))
    used = _terms(columns, time, bool(np.isfinite(kv).all()))
    if used is None:
        return None
    found = _least_squares(columns[:, used], time)
    spread = _deviations(columns[:, used], time, found)
    terms: list[tuple[float, tuple[float, float]] | None] = [None, None, None]
    for place, value, deviation in zip(compress(range(3), used), found.tolist(), spread.tolist(), strict=True):
        terms[place] = value, (value - T_90 * deviation, value + T_90 * deviation)
    (a, a_range), request, token = terms[0] or (0.0, (0.0, 0.0)), terms[1], terms[2]
    return DecodeFit(
        a, a_range, request and request[0], request and request[1], token and token[0], token and token[1],
        token and 1e3 * token[0],
        len(chosen), len(batches),
        float(np.median([(row.period_ms or 0.0) - (row.gpu_busy_ms or 0.0) for row in chosen])),
        _left_out(columns[:, used], time, requests),
    )  # fmt: skip


def _terms(columns: F64, time: F64, lengths: bool) -> list[bool] | None:
    """Which of the three terms count: all where none is below zero, else the better of the two that grow."""
    told = lengths and abs(np.corrcoef(columns[:, 1], columns[:, 2])[0, 1]) < ALIKE
    choices = [[True, True, True]] if told else []
    choices += [[True, False, True]] * lengths + [[True, True, False]]
    fits = [(used, _least_squares(columns[:, used], time)) for used in choices]
    possible = [(used, found) for used, found in fits if (found >= 0).all()]
    if not possible or sum(possible[0][0]) == len(columns[0]):
        return possible[0][0] if possible else None
    return min(possible, key=lambda one: float(((time - columns[:, one[0]] @ one[1]) ** 2).sum()))[0]


def _least_squares(columns: F64, time: F64) -> F64:
    found: F64 = np.linalg.lstsq(columns, time, rcond=None)[0].astype(np.float64)
    return found


def _deviations(columns: F64, time: F64, found: F64) -> F64:
    """Standard deviation of each coefficient."""
    residual = time - columns @ found
    variance = float((residual**2).sum()) / max(len(time) - len(found), 1)
    return np.sqrt(np.diag(np.linalg.pinv(columns.T @ columns)) * variance).astype(np.float64)


def _left_out(columns: F64, time: F64, requests: F64) -> float:
    """The largest error of a batch's median where the fit has not seen that batch."""
    errors = []
    for batch in np.unique(requests):
        here = requests == batch
        found = _least_squares(columns[~here], time[~here])
        errors.append(abs(float(np.median(columns[here] @ found) / np.median(time[here])) - 1.0))
    return max(errors)
