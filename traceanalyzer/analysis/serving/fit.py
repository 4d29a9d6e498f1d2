"""What decides how long a decode takes: `a + b x requests + c x KV tokens`, by least squares over
the iterations.

Weights are read once (a), the KV cache of every request each time (c), the rest grows with the
batch (b). Kernels change with the batch (tiles, graphs of fixed sizes): what a recorded batch is
off that by is kept, and interpolated."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.serving.rows import IterationRow, figure_column
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64

MIN_ITERATIONS = 8  # fewer, or of fewer batches, do not tell a line from a point
MIN_BATCHES = 3
ALIKE = 0.995
"""KV that follows the batch more closely than this correlation has no share of its own."""
T_90 = 1.7
"""Of a normal distribution, or Student's with some twenty degrees of freedom: 90 % lie within so
many deviations."""
TERMS = 3


@dataclass(frozen=True)
class Curve:
    """Time of an iteration by its batch."""

    terms: tuple[float, ...]
    """Of any batch, a request, a KV token; 0 for one that makes no difference that can be told
    apart."""
    deviations: tuple[float, ...]
    batches: tuple[float, ...]
    ratios: tuple[float, ...]
    """For each recorded batch its time over what the terms say (medians)."""

    def at(self, requests: float, kv_tokens: float) -> float:
        """Time of a batch of so many requests of that length in all."""
        plane = self.terms[0] + self.terms[1] * requests + self.terms[2] * kv_tokens
        return plane * float(np.interp(requests, self.batches, self.ratios))


LONGEST = 1.5  # with more idle time the GPU waited for what the recording does not show


def curve(requests: F64, kv: F64, time: F64, among: Sequence[int] | None = None) -> Curve:
    """The curve of these iterations; `kv` is NaN where it is not known. Each counts by its relative
    error: a small batch is as well known as a large one. The terms are chosen, unless given."""
    columns = np.column_stack((np.ones(len(time)), requests, np.nan_to_num(kv)))
    weighted = columns / time[:, None]
    has_lengths = bool(np.isfinite(kv).all())
    used = _terms(columns, weighted, has_lengths) if among is None else list(among)
    terms = np.zeros(TERMS)
    deviations = np.zeros(TERMS)
    terms[used] = _least_squares(weighted[:, used])
    squares = float(((weighted @ terms - 1.0) ** 2).sum())
    variance = squares / max(len(time) - len(used), 1)
    chosen = weighted[:, used]
    deviations[used] = np.sqrt(np.diag(np.linalg.pinv(chosen.T @ chosen)) * variance)
    ratio = time / np.maximum(columns @ terms, np.finfo(float).tiny)
    batches = np.unique(requests)
    ratios = [float(np.median(ratio[requests == batch])) for batch in batches]
    return Curve(
        terms=tuple(terms.tolist()),
        deviations=tuple(deviations.tolist()),
        batches=tuple(batches.tolist()),
        ratios=tuple(ratios),
    )


def _terms(columns: F64, weighted: F64, lengths: bool) -> list[int]:
    """Which of the three terms count: all where none is below zero, else the better of the two that
    grow, else none."""
    choices = [[0, 1]]
    if lengths:
        choices.insert(0, [0, 2])
        correlation = np.corrcoef(columns[:, 1], columns[:, 2])[0, 1]
        if abs(correlation) < ALIKE:
            choices.insert(0, [0, 1, 2])
    possible = [used for used in choices if (_least_squares(weighted[:, used]) >= 0).all()]
    if possible and len(possible[0]) == TERMS:
        return possible[0]

    def squares(used: list[int]) -> float:
        chosen = weighted[:, used]
        return float(((chosen @ _least_squares(chosen) - 1.0) ** 2).sum())

    return min(possible, key=squares, default=[0])


def _least_squares(weighted: F64) -> F64:
    solution, *_ = np.linalg.lstsq(weighted, np.ones(len(weighted)), rcond=None)
    return solution.astype(np.float64)


@dataclass(frozen=True)
class DecodeFit:
    """GPU time of a decode (of a log alone: its time) by what it has to do, ms, each with its 90 %
    range. None: makes no difference that can be told apart."""

    a_ms: float
    a_range_ms: tuple[float, float]
    per_request_ms: float | None
    per_request_range_ms: tuple[float, float] | None
    per_kv_token_ms: float | None
    per_kv_token_range_ms: tuple[float, float] | None
    per_1000_kv_tokens_ms: float | None
    iterations: int
    batches: int
    error_share: float
    """Largest error of the prediction of a batch between others from these alone: medians, as a
    share."""
    curve: Curve  # what predicts: the terms, and what each recorded batch is off them by

    def gpu_ms(self, requests: float, kv_tokens: float) -> float:
        """GPU time of a decode of so many requests of that length in all."""
        return self.curve.at(requests, kv_tokens)


def decodes(rows: Sequence[IterationRow]) -> list[IterationRow]:
    """The decodes that say how much they do: recorded ones that follow another iteration, or a
    log's."""
    known = [row for row in rows if row.phase == "decode" and row.requests]
    return [
        row
        for row in known
        if (row.gpu_busy_ms and row.period_ms) or (row.gpu_span_ms is None and row.logged_ms)
    ]


def work_ms(row: IterationRow) -> float:
    """What the GPU needs for a decode: where a graph is replayed with the pauses between its
    kernels."""
    if not row.gpu_busy_ms:
        return row.logged_ms or 0.0
    followed = (row.period_ms or 0.0) - (row.host_idle_ms or 0.0)
    in_graph = row.graph in ("replayed", "piecewise") and followed < LONGEST * row.gpu_busy_ms
    return followed if in_graph else row.gpu_busy_ms


def decode_fit(rows: Sequence[IterationRow]) -> DecodeFit | None:
    """The fit; None where the decodes are too few or too alike."""
    chosen = decodes(rows)
    requests, kv, time = decode_columns(chosen)
    if len(chosen) < MIN_ITERATIONS or len(np.unique(requests)) < MIN_BATCHES:
        return None
    found = curve(requests, kv, time)
    a, a_range = _ranged(found, 0) or (0.0, (0.0, 0.0))
    request = _ranged(found, 1)
    token = _ranged(found, 2)
    return DecodeFit(
        a_ms=a,
        a_range_ms=a_range,
        per_request_ms=request and request[0],
        per_request_range_ms=request and request[1],
        per_kv_token_ms=token and token[0],
        per_kv_token_range_ms=token and token[1],
        per_1000_kv_tokens_ms=token and 1e3 * token[0],
        iterations=len(chosen),
        batches=len(found.batches),
        error_share=_left_out(requests, kv, time, found.terms),
        curve=found,
    )


def decode_columns(rows: Sequence[IterationRow]) -> tuple[F64, F64, F64]:
    """Requests, KV tokens (NaN: unknown) and time of decodes, ms."""
    return (
        figure_column(rows, "requests"),
        figure_column(rows, "kv_tokens"),
        np.array([work_ms(row) for row in rows], np.float64),
    )


def _ranged(found: Curve, term: int) -> tuple[float, tuple[float, float]] | None:
    value = found.terms[term]
    off = T_90 * found.deviations[term]
    return (value, (value - off, value + off)) if value else None


def _left_out(requests: F64, kv: F64, time: F64, terms: Sequence[float]) -> float:
    """The largest error of the median of a batch between others where the curve has not seen that
    batch. Without the smallest or the largest one less is known than from all of them."""
    errors = []
    used = np.flatnonzero(terms).tolist()
    for batch in np.unique(requests)[1:-1]:
        left_out = requests == batch
        found = curve(requests[~left_out], kv[~left_out], time[~left_out], used)
        predicted = [
            found.at(n, 0.0 if np.isnan(k) else k)
            for n, k in zip(requests[left_out], kv[left_out], strict=True)
        ]
        errors.append(abs(float(np.median(predicted) / np.median(time[left_out])) - 1.0))
    return max(errors)
