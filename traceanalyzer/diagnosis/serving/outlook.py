"""What decides how fast a server is (batches, prefills among decodes, a host that is ahead, guessed
tokens), and what to do about it: switches of its engine, not changes of a training loop."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.fit import (
    Curve,
    DecodeFit,
    curve,
    decode_columns,
    decode_fit,
    decodes,
)
from traceanalyzer.analysis.serving.rows import IterationRow, by_phase, figure_column
from traceanalyzer.base import MS_PER_S, NS_PER_MS, dataclass, span
from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.phases import unprofiled
from traceanalyzer.diagnosis.serving.switches import switches
from traceanalyzer.replay.iterations import Served
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.whatif import SCENARIO_SPREAD
from traceanalyzer.trace import F64

TRUSTED_ERROR = 0.1  # a curve that misses a left-out batch by more predicts nothing
LEAST_GAIN = 0.04  # a smaller one is within what the replay is off by
MIN_MIXED = 3
SPREAD = 0.05  # kernels of another launch, or another run, differ by this much
PHASES = ("decode", "prefill", "mixed", "verify")
CHANGES: dict[str, Callable[[Served, Tape], Tape]] = {
    "cuda_graphs": Served.in_graphs,
    "asynchronous_scheduling": Served.ahead,
    "less_python": Served.less_between,
}
"""Ways to launch iterations: in CUDA graphs, by a host that does not wait for each, with less work
between them."""
HOST_CLASSES = ("launch", "sync", "host")  # classes of a device that waits for its host
USUAL = (3, 0.6)  # guessed tokens a request, and the share of them that is right, where nobody says
BEYOND = 2.0  # of the largest recorded batch: more tokens in an iteration are another kernel's work


@dataclass(frozen=True)
class Batch:
    """A decode of a batch, without the profiler, and what it brings."""

    requests: float
    kv_tokens: float | None
    decode_ms: float
    tokens_per_s: float


@dataclass(frozen=True)
class Gain:
    """The iterations of a phase after a change of how they are launched."""

    phase: str
    change: str  # `cuda_graphs`, `asynchronous_scheduling` or `less_python`
    now_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    mean_share: float  # mean time of all iterations after it, as a share of that before


@dataclass(frozen=True)
class Outlook:
    """All of that; None or empty where the recording does not tell."""

    now: Batch | None = None
    twice: Batch | None = None
    half_batch: float | None = None  # requests with which a decode brings half of the most tokens/s
    most_tokens_per_s: float | None = None  # what no batch of requests of this length exceeds
    # how much longer a mixed iteration is than a decode of the same requests, median
    mixed_ms: float | None = None
    mixed_per_1000_tokens_ms: float | None = None
    gains: tuple[Gain, ...] = ()


def fit_of_decodes(m: Measurements) -> DecodeFit | None:
    """How decode time grows with the batch, for `memo`: each answer asks several times."""
    return decode_fit(m.iterations)


def outlook(m: Measurements) -> Outlook:
    """What the decodes of a recording, or of a log alone, let expect."""
    fit = m.memo(fit_of_decodes)
    gains = launched_otherwise(m)
    if fit is None or fit.error_share > TRUSTED_ERROR:
        return Outlook(gains=gains)
    requests, kv, _ = decode_columns(decodes(m.iterations))
    size = float(np.median(requests))
    length = float(np.median(np.nan_to_num(kv)))
    predict = Predictor.of(m, fit)
    now = predict.batch(size, length)
    twice = predict.batch(2 * size, 2 * length)
    growing = predict.ms(size * 4, length * 4) - predict.ms(size * 2, length * 2)
    each = growing / (2 * size)
    fixed = now.decode_ms - each * size
    half, most = (fixed / each, MS_PER_S / each) if growing > 0 and fixed > 0 else (None, None)
    return Outlook(now, twice, half, most, *_mixed(m, predict, now), gains)


@dataclass(frozen=True, eq=False)
class Predictor:
    """Decodes of any batch: their work on the device by the curve, and where there are tapes the
    host replayed."""

    fit: DecodeFit
    served: Served | None
    host: Curve | None
    rows: tuple[IterationRow, ...]  # the decodes
    scale: float  # time without the profiler over the replay's, of the recorded decodes

    @classmethod
    def of(cls, m: Measurements, fit: DecodeFit) -> "Predictor":
        """For a log alone the curve is all."""
        rows = tuple(decodes(m.iterations))
        served = m.served
        if served is None:
            return cls(fit, None, None, rows, 1.0)
        numbers = [row.iteration for row in rows]
        requests = decode_columns(rows)[0]
        known = unprofiled(m, rows)
        replayed = served.median_ms(served.usual, numbers)
        host = served.host_ns(served.usual)[numbers]
        has_host = host > 0
        scale = known.ms / replayed if known and replayed else 1.0
        return cls(
            fit,
            served,
            curve(requests[has_host], np.full(has_host.sum(), np.nan), host[has_host]),
            rows,
            scale,
        )

    def batch(self, requests: float, kv: float) -> Batch:
        """A batch of so many requests of that length in all."""
        time = self.ms(requests, kv)
        return Batch(requests, kv or None, time, requests / time * MS_PER_S)

    def ms(self, requests: float, kv: float, tokens: float | None = None) -> float:
        """Time of its decode, without the profiler; of so many tokens instead of one a request."""
        work = self.fit.gpu_ms(tokens or requests, kv)
        if self.served is None or self.host is None:
            return work
        count = len(self.served.found)
        device = np.ones(count)
        host = np.ones(count)
        own = decode_columns(self.rows)[2]
        spent = self.served.host_ns(self.served.usual)
        for row, time in zip(self.rows, own.tolist(), strict=True):
            device[row.iteration] = work / time
            host[row.iteration] = self.host.at(requests, 0.0) / max(spent[row.iteration], 1.0)
        tape = self.served.scaled(self.served.usual, device, host)
        return self.served.median_ms(tape, [row.iteration for row in self.rows]) * self.scale

    def times_ms(self, rows: Sequence[IterationRow]) -> F64:
        """Time of these iterations, without the profiler where they are recorded; NaN where it is
        not known."""
        if self.served is None:
            return np.array(
                [row.logged_ms if row.gpu_span_ms is None else None for row in rows], np.float64
            )
        return (
            self.served.periods_ns(self.served.usual)[[row.iteration for row in rows]] / NS_PER_MS
        )


def _mixed(m: Measurements, predict: Predictor, now: Batch) -> tuple[float | None, float | None]:
    """How much longer mixed iterations are than decodes of as many requests, ms: the median, and of
    1,000 tokens."""
    rows = [
        row
        for row in by_phase(m.iterations).get("mixed", ())
        if row.context_tokens and row.generation_tokens
    ]
    besides = now.decode_ms - predict.fit.gpu_ms(now.requests, now.kv_tokens or 0.0)
    requests, kv, tokens = (
        figure_column(rows, figure)
        for figure in ("generation_tokens", "kv_tokens", "context_tokens")
    )
    lengths = np.maximum(np.nan_to_num(kv) - tokens, 0.0)
    batches = zip(requests.tolist(), lengths.tolist(), strict=True)
    decoded = [predict.fit.gpu_ms(*one) for one in batches]
    longer = predict.times_ms(rows) - [time + besides for time in decoded]
    if np.isfinite(longer).sum() < MIN_MIXED:
        return None, None
    return float(np.nanmedian(longer)), float(np.nanmedian(longer / tokens)) * 1000


def launched_otherwise(m: Measurements) -> tuple[Gain, ...]:
    """What each way to launch them would bring the iterations of a phase. Where graphs are replayed
    already nothing is gained by graphs."""
    if m.served is None:
        return ()
    phases = by_phase([row for row in m.iterations if row.period_ms])
    return tuple(
        gain
        for phase in PHASES
        if phase in phases
        for gain in _of_phase(m, m.served, phase, phases[phase])
    )


def _of_phase(
    m: Measurements, served: Served, phase: str, rows: Sequence[IterationRow]
) -> Iterator[Gain]:
    """The phase after each change, by the replay's ratio; the range is that of the host's speed."""
    now = unprofiled(m, rows)
    if now is None:
        return
    numbers = [row.iteration for row in rows]
    launched = {row.graph for row in rows}
    before = served.median_ms(served.usual, numbers)

    def time_ms(tape: Tape) -> float:
        return served.median_ms(tape, numbers) / before * now.ms

    for change, how in CHANGES.items():
        if change == "cuda_graphs" and launched != {"eager"}:
            continue
        usual = how(served, served.usual)
        fast = time_ms(how(served, served.fast))
        predicted = time_ms(usual)
        slow = time_ms(how(served, served.slow))
        low = min(fast, slow, predicted * (1 - SPREAD))
        high = max(fast, slow, predicted * (1 + SPREAD))
        if predicted < now.ms * (1 - LEAST_GAIN):
            share = served.mean_ms(usual) / served.mean_ms(served.usual)
            yield Gain(phase, change, now.ms, predicted, low, high, share)


def for_server(
    m: Measurements, advice: list[Recommendation], drafts: Sequence[Draft]
) -> list[Recommendation]:
    """The advice on the GPU's work, and switches instead of that on the host where iterations can
    be replayed. A server that replays graphs in all of its iterations is not told to."""
    launched = {row.graph for row in m.iterations if row.gpu_span_ms is not None}
    if not launched:
        return advice
    if m.faithful_server is not None:
        return [one for one in advice if one.cls not in HOST_CLASSES] + list(_switches(m, drafts))
    if "eager" not in launched:
        return [one for one in advice if one.remedy != "cuda_graph"]
    return [_in_flags(m, one) if one.remedy == "cuda_graph" else one for one in advice]


def _in_flags(m: Measurements, advice: Recommendation) -> Recommendation:
    """A graph in the flags of the engine: nobody who runs a server edits the model's loop."""
    cut = m.timed.memo(find_iterations)
    if cut is None or cut.framework not in switches()["cuda_graphs"].engines:
        return advice
    eager = {row.phase for row in m.iterations if row.graph == "eager"}
    change = "cuda_graphs" if eager <= {"decode", "verify"} else "piecewise_graphs"
    return replace(advice, action=f"{switches()[change].said(cut.framework)}.")


def _switches(m: Measurements, drafts: Sequence[Draft]) -> Iterator[Recommendation]:
    """Each against the finding of its class, or another one on the host."""
    on_host = [draft for draft in drafts if draft.cls in HOST_CLASSES]
    if not on_host:
        return
    cut = m.timed.memo(find_iterations)
    engine = cut.framework if cut else None
    for change in CHANGES:
        gains = [gain for gain in m.memo(outlook).gains if gain.change == change]
        if not gains:
            continue
        switch = switches()[change]
        finding = min(on_host, key=lambda draft: draft.cls != switch.cls)
        if change == "cuda_graphs" and gains[0].phase != "decode":  # decodes replay graphs already
            switch = switches()["piecewise_graphs"]
        share = gains[0].mean_share
        of_phases = f": {'; '.join(map(_gained, gains))}" if _has_phases(m) else ""
        step_ms = m.step.step_ms * share
        yield Recommendation(
            finding.id,
            finding.cls,
            f"{switch.said(engine)}{of_phases}.",
            step_ms,
            1 / share,
            "replayed without the profiler: all recorded iterations",
            switch.remedy,
            step_ms * (1 - SCENARIO_SPREAD),
            step_ms * (1 + SCENARIO_SPREAD),
        )


def _has_phases(m: Measurements) -> bool:
    """Whether an iteration of a phase is another one than a step, of which the advice has the
    prediction with its range."""
    return len(by_phase([row for row in m.iterations if row.period_ms])) > 1


def _gained(gain: Gain) -> str:
    return f"{gain.phase} {span(gain.now_ms)} → {span(gain.predicted_ms, gain.now_ms)}"


@dataclass(frozen=True)
class Guesses:
    """An iteration that verifies guessed tokens, with its 90 % range, and the tokens/s that it
    brings."""

    draft_tokens: int
    acceptance: float
    # `verify`: recorded iterations of as many guesses; `fit`: decodes, without what guessing takes
    source: str
    requests: float
    tokens_per_request: float
    iteration_ms: float
    low_ms: float
    high_ms: float
    tokens_per_s: float
    speedup: (
        float | None
    )  # tokens/s over those of decodes without guesses; None where such are not recorded


def guessed(m: Measurements, count: int, acceptance: float) -> Guesses | str:
    """So many guesses a request, each right with this share: all up to the first wrong one count,
    and one more token. A text says why the recording does not tell."""
    verifying: dict[float, list[IterationRow]] = defaultdict(list)
    for row in m.iterations:
        each = (row.generation_tokens or 0) / row.requests if row.requests else 0.0
        if each > 1 and _time(row):
            verifying[each - 1].append(row)
    verified = _recorded(m, verifying, count) if verifying else _predicted(m, count)
    if isinstance(verified, str):
        return verified
    tokens = sum(acceptance**i for i in range(count + 1))
    now = verified.now_ms
    return Guesses(
        count,
        acceptance,
        verified.source,
        verified.requests,
        tokens,
        verified.ms,
        verified.low_ms,
        verified.high_ms,
        verified.requests * tokens / verified.ms * MS_PER_S,
        now and tokens * now / verified.ms,
    )


def _time(row: IterationRow) -> float | None:
    """Of an iteration that verifies or decodes, ms."""
    return (
        row.period_ms or row.gpu_span_ms or row.logged_ms
        if row.phase in ("verify", "decode")
        else None
    )


class VerifiedPair(NamedTuple):
    """An iteration that verifies guesses, and a decode of its requests without them."""

    source: str
    requests: float
    ms: float
    low_ms: float
    high_ms: float
    now_ms: float | None = None


def _recorded(
    m: Measurements, verifying: Mapping[float, Sequence[IterationRow]], count: int
) -> VerifiedPair | str:
    """Requests and times of the usual batch, of the recorded iterations by their guesses."""
    if count not in verifying:
        counts = ", ".join(f"{guesses:g}" for guesses in sorted(verifying))
        return f"recorded iterations verify {counts} guesses a request, none {count}"
    sizes = sorted(row.requests or 0 for row in verifying[count])
    requests = sizes[(len(sizes) - 1) // 2]
    alike = [row for row in verifying[count] if row.requests == requests]
    known = unprofiled(m, alike)
    if known is not None:
        return VerifiedPair("verify", requests, known.ms, known.low_ms, known.high_ms)
    times = np.array([_time(row) for row in alike], np.float64)
    low, time, high = np.percentile(times, (5, 50, 95)).tolist()
    low = min(low, time * (1 - SPREAD))
    high = max(high, time * (1 + SPREAD))
    return VerifiedPair("verify", requests, time, low, high)


def _predicted(m: Measurements, count: int) -> VerifiedPair | str:
    """Requests and times of the usual batch by the decodes: a token more is as much work as a
    request more, but for the KV cache."""
    fit = m.memo(fit_of_decodes)
    (requests, kv, _) = decode_columns(decodes(m.iterations))
    if fit is None:
        return "neither iterations that verify guesses nor decodes of three batches are recorded"
    if fit.error_share > TRUSTED_ERROR:
        return f"decode time by batch misses a batch left out by {fit.error_share:.0%}"
    size = float(np.median(requests))
    length = float(np.median(np.nan_to_num(kv)))
    most = float(requests.max())
    tokens = size * (count + 1)
    if tokens > BEYOND * most:
        return (
            f"{tokens:,.0f} tokens an iteration are too far beyond the largest recorded "
            f"batch, {most:,.0f} requests"
        )
    predict = Predictor.of(m, fit)
    spread = max(SPREAD, fit.error_share)
    time = predict.ms(size, length, tokens)
    low = time * (1 - spread)
    high = time * (1 + spread)
    return VerifiedPair("fit", size, time, low, high, predict.ms(size, length))
