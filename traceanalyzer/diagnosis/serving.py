"""What the iterations of a serving engine say together: time of each phase, its limit, what a larger batch brings."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.fit import DecodeFit, decode_fit, decodes
from traceanalyzer.analysis.serving.rows import IterationRow, found_in_log
from traceanalyzer.base.figures import MS_PER_S, NS_PER_S, digits
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.diagnosis.measurements import Measurements

SERVERS = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "tensorrt_llm", "ATOM": "atom"}
OWNS = 0.5
"""What takes this share of an iteration's time limits it."""
MODELLED = 0.5
"""Of the GPU time a smaller share with known traffic says nothing of the whole."""
TRUSTED_ERROR = 0.1
"""A fit that misses a left-out batch by more predicts nothing."""


@dataclass(frozen=True)
class Phase:
    """The iterations of one phase, medians, ms."""

    phase: str
    iterations: int
    requests: float | None
    context_tokens: float | None
    generation_tokens: float | None
    iteration_ms: float
    """From the end of the iteration before; the span of the GPU work where that is not recorded."""
    busy_ms: float
    host_idle_ms: float
    limit: str
    """`host`, `gpu`, or `unknown` where it is idle for what the recording does not show."""
    tokens_per_s: float | None
    memory_ms: float | None
    """What the traffic of its kernels needs at the memory's bandwidth, a mean; None where too few have a model."""
    arithmetic_ms: float | None
    """What those need that arithmetic limits."""


def serving_values(m: Measurements) -> dict[str, Any]:
    """What programs get besides the rows."""
    found = m.timed.memo(find_iterations)
    name = found.framework if found else None
    return {
        "server": SERVERS.get(name, name) if name else None,
        "phases": phases(m),
        "decode_fit": decode_fit(m.iterations),
        "profiler_stretch": log.stretch if (log := m.timed.memo(found_in_log)) else None,
    }


def phases(m: Measurements) -> list[Phase]:
    """The phases that the recorded iterations have, the most frequent first."""
    by_phase: dict[str, list[IterationRow]] = {}
    for row in m.iterations:
        if row.phase is not None and row.gpu_span_ms is not None:
            by_phase.setdefault(row.phase, []).append(row)
    return [_phase(m, name, rows) for name, rows in sorted(by_phase.items(), key=lambda one: -len(one[1]))]


def _phase(m: Measurements, name: str, rows: list[IterationRow]) -> Phase:
    followed = [row for row in rows if row.period_ms is not None] or rows
    times = [row.gpu_span_ms if row.period_ms is None else row.period_ms for row in followed]
    time, busy, late = (
        _middle(values) for values in (times, [r.gpu_busy_ms for r in followed], [r.host_idle_ms for r in followed])
    )
    memory, arithmetic = _ceilings(m, rows)
    made = [row.generation_tokens for row in followed]
    total = sum(t for t in times if t)
    return Phase(
        name,
        len(rows),
        _median([row.requests for row in rows]),
        _median([row.context_tokens for row in rows]),
        _median([row.generation_tokens for row in rows]),
        time,
        busy,
        late,
        "gpu" if busy >= OWNS * time else "host" if late >= OWNS * (time - busy) else "unknown",
        sum(n for n in made if n) / total * MS_PER_S if any(made) and total else None,
        memory,
        arithmetic,
    )


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _middle(values: list[Any]) -> float:
    """The median of values of which none is unknown."""
    return float(np.median(values))


def _ceilings(m: Measurements, rows: list[IterationRow]) -> tuple[float | None, float | None]:
    """Mean time of an iteration's known traffic at the memory's bandwidth, and that of its kernels at the peak of
    arithmetic which this limits."""
    found = m.timed.memo(find_iterations)
    if found is None:
        return None, None
    ops = np.concatenate([found.rows[row.iteration] for row in rows])
    table, roofline = m.trace.device_ops, m.rated.roofline
    took = (table.end - table.start)[ops]
    traffic = roofline.bytes[:][ops] / m.linked.limit("bandwidth")[ops] * MS_PER_S
    # More than was there to move or to calculate in the time: the model does not describe that kernel.
    known = np.isfinite(traffic) & ~(roofline.attainable[:][ops] > took)
    if took[known].sum() < MODELLED * took.sum():
        return None, None
    least = np.where(known & roofline.arithmetic[ops], roofline.attainable[:][ops], 0.0)
    return float(traffic[known].sum()) / len(rows), float(np.nansum(least)) / NS_PER_S * MS_PER_S / len(rows)


def sentences(m: Measurements) -> Iterator[str]:
    """What people are told of the iterations."""
    for phase in phases(m):
        yield _about(phase)
    yield from _log(m)
    fit = decode_fit(m.iterations)
    if fit is not None:
        yield from _batch(m, fit)


def _log(m: Measurements) -> Iterator[str]:
    """The log against the recording."""
    if m.trace.only_step_times or not m.trace.step_timings.of_server or not m.iterations:
        return
    log = m.timed.memo(found_in_log)
    if log is None:
        yield "The log was not joined: the order of batches in it does not tell which of its iterations were recorded."
        return
    pairs = [(r.period_ms, r.logged_ms) for r in m.iterations if r.phase == "decode" and r.period_ms and r.logged_ms]
    if pairs:
        recorded, told = (_middle(list(values)) for values in zip(*pairs, strict=True))
        yield f"Decodes as logged: {_ms(told)}, as recorded: {_ms(recorded)} (medians)."
    if log.stretch is not None:
        yield f"Decodes of the same batches outside the recording take {1 / log.stretch:.0%} of that time."


def _about(p: Phase) -> str:
    busy = f"GPU busy {_ms(p.busy_ms)} ({p.busy_ms / p.iteration_ms:.0%})"
    many = p.iterations > 1
    count = (
        f"{p.iterations} {p.phase} iterations, {_ms(p.iteration_ms)} each"
        if many
        else f"One {p.phase} iteration, {_ms(p.iteration_ms)}"
    )
    work = [_some(p.requests, "request")]
    work += [_some(p.context_tokens, "prompt token")] if p.context_tokens else []
    rate = f" {digits(p.tokens_per_s)} generated tokens/s." if p.tokens_per_s else ""
    first = " A first token takes at least that; queueing is not recorded." if p.phase == "prefill" else ""
    return f"{count} ({', '.join(w for w in work if w)}): {busy}{_limit(p)}.{rate}{first}"


def _limit(p: Phase) -> str:
    """What limits it, in words."""
    if p.limit == "host":
        return f", {_ms(p.host_idle_ms)} waiting for the CPU"
    if p.limit == "unknown":
        return f", {_ms(p.iteration_ms - p.busy_ms - p.host_idle_ms)} waiting for what the recording does not show"
    if p.memory_ms is None or p.arithmetic_ms is None:
        return ""
    return (
        f"; its traffic needs {_ms(p.memory_ms)} at the memory's bandwidth, "
        f"kernels that arithmetic limits {_ms(p.arithmetic_ms)} at its peak"
    )


def _batch(m: Measurements, fit: DecodeFit) -> Iterator[str]:
    """How decode time grows, and what twice the batch would bring."""
    parts = [f"{_ms(fit.a_ms)} for any batch"]
    if fit.per_request_ms:
        parts.append(f"{_ms(fit.per_request_ms)} a request")
    if fit.per_kv_token_ms:
        parts.append(f"{_ms(1000 * fit.per_kv_token_ms)} for 1,000 KV tokens")
    yield f"GPU time of a decode: {' + '.join(parts)}, from {fit.iterations} iterations of {fit.batches} batches."
    if fit.error_share > TRUSTED_ERROR:
        yield f"That misses a batch left out by up to {fit.error_share:.0%}: nothing is predicted from it."
        return
    requests, kv = (
        _median([getattr(row, name) for row in decodes(m.iterations)]) for name in ("requests", "kv_tokens")
    )
    if requests is None:
        return
    now, twice = (fit.host_ms + fit.gpu_ms(n * requests, n * (kv or 0.0)) for n in (1, 2))
    yield (
        f"Twice the batch ({digits(2 * requests)} requests): {_ms(now)} -> {_ms(twice)} a decode as recorded, "
        f"{2 * now / twice:.2f}x the tokens/s."
    )


def _some(count: float | None, noun: str) -> str:
    return "" if count is None else f"{digits(count)} {noun}{'s' * (count != 1)}"


def _ms(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 1 else f"{ms * 1e3:.3g} us"
