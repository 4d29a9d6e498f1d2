"""What speculative decoding brings: iterations that verify guessed tokens, as recorded, or by what decodes take."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.serving.fit import columns_of, decodes
from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.base import MS_PER_S, dataclass
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.outlook import SPREAD, TRUSTED_ERROR, Predictor, fit_of_decodes
from traceanalyzer.diagnosis.serving.phases import unprofiled

USUAL = (3, 0.6)  # guessed tokens a request, and the share of them that is right, where nobody says
BEYOND = 2.0  # of the largest recorded batch: more tokens in an iteration are another kernel's work


@dataclass(frozen=True)
class Guesses:
    """An iteration that verifies guessed tokens, with its 90 % range, and the tokens/s that it brings."""

    draft_tokens: int
    acceptance: float
    source: str  # `verify`: recorded iterations of as many guesses; `fit`: decodes, without what guessing takes
    requests: float
    tokens_per_request: float
    iteration_ms: float
    low_ms: float
    high_ms: float
    tokens_per_s: float
    speedup: float | None  # tokens/s over those of decodes without guesses; None where such are not recorded


def guessed(m: Measurements, count: int, acceptance: float) -> Guesses | str:
    """So many guesses a request, each right with this share: all up to the first wrong one count, and one more token.
    A text says why the recording does not tell."""
    verifying: dict[float, list[IterationRow]] = defaultdict(list)
    for row in m.iterations:
        if _per_request(row) > 1 and _time(row):
            verifying[_per_request(row) - 1].append(row)
    found = _recorded(m, verifying, count) if verifying else _predicted(m, count)
    if isinstance(found, str):
        return found
    tokens, now = sum(acceptance**i for i in range(count + 1)), found.now_ms
    return Guesses(
        count, acceptance, found.source, found.requests, tokens, found.ms, found.low_ms, found.high_ms,
        found.requests * tokens / found.ms * MS_PER_S, now and tokens * now / found.ms,
    )  # fmt: skip


def _per_request(row: IterationRow) -> float:
    """New tokens of a request."""
    return (row.generation_tokens or 0) / row.requests if row.requests else 0.0


def _time(row: IterationRow) -> float | None:
    """Of an iteration that verifies or decodes, ms."""
    return row.period_ms or row.gpu_span_ms or row.logged_ms if row.phase in ("verify", "decode") else None


class Found(NamedTuple):
    """An iteration that verifies guesses, and a decode of its requests without them."""

    source: str
    requests: float
    ms: float
    low_ms: float
    high_ms: float
    now_ms: float | None = None


def _recorded(m: Measurements, verifying: Mapping[float, Sequence[IterationRow]], count: int) -> Found | str:
    """Requests and times of the usual batch, of the recorded iterations by their guesses."""
    if count not in verifying:
        there = ", ".join(f"{guesses:g}" for guesses in sorted(verifying))
        return f"recorded iterations verify {there} guesses a request, none {count}"
    requests = median_low([row.requests or 0 for row in verifying[count]])
    mine = [row for row in verifying[count] if row.requests == requests]
    if (known := unprofiled(m, mine)) is not None:
        return Found("verify", requests, known.ms, known.low_ms, known.high_ms)
    low, time, high = np.percentile(list(map(_time, mine)), (5, 50, 95)).tolist()
    return Found("verify", requests, time, min(low, time * (1 - SPREAD)), max(high, time * (1 + SPREAD)))


def _predicted(m: Measurements, count: int) -> Found | str:
    """The same by the decodes: a token more is as much work as a request more, but for the KV cache."""
    fit, (requests, kv, _) = m.memo(fit_of_decodes), columns_of(decodes(m.iterations))
    if fit is None:
        return "neither iterations that verify guesses nor decodes of three batches are recorded"
    if fit.error_share > TRUSTED_ERROR:
        return f"decode time by batch misses a batch left out by {fit.error_share:.0%}"
    size, length, most = float(np.median(requests)), float(np.median(np.nan_to_num(kv))), float(requests.max())
    tokens = size * (count + 1)
    if tokens > BEYOND * most:
        return f"{tokens:,.0f} tokens an iteration are too far beyond the largest recorded batch, {most:,.0f} requests"
    predict, spread = Predictor.of(m, fit), max(SPREAD, fit.error_share)
    time = predict.ms(size, length, tokens)
    return Found("fit", size, time, time * (1 - spread), time * (1 + spread), predict.ms(size, length))
