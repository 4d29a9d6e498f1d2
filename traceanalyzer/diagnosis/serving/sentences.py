"""What people are told of a server's iterations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.analysis.joined.graph_names import has_unordered, named_in_graphs
from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.fit import DecodeFit
from traceanalyzer.analysis.serving.kinds import FEW as FEW_ITERATIONS
from traceanalyzer.analysis.serving.kinds import SLOW, iteration_kinds
from traceanalyzer.analysis.serving.rows import by_phase, figure_column, found_in_log
from traceanalyzer.base import digits, plural
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.outlook import (
    TRUSTED_ERROR,
    USUAL,
    Guesses,
    Outlook,
    fit_of_decodes,
    guessed,
    outlook,
)
from traceanalyzer.diagnosis.serving.phases import Phase, phases
from traceanalyzer.diagnosis.serving.switches import switches

SERVERS = {
    "vLLM": "vllm",
    "SGLang": "sglang",
    "TensorRT-LLM": "tensorrt_llm",
    "ATOM": "atom",
    "llama.cpp": "llama_cpp",
    "TGI": "tgi",
}
FEW = 0.02  # what the profiler adds less of is not told
NOT_TOLD = "What speculative decoding brings is not known: {}."
LAUNCHED = {
    "replayed": " in CUDA graphs",
    "piecewise": " in graphs of parts of the model",
    "eager": " launched one by one",
}
"""How iterations reach the GPU, by `IterationRow.graph`."""
CHANGES = {
    "cuda_graphs": "CUDA graphs",
    "asynchronous_scheduling": "Scheduling the next iteration while the GPU works",
    "less_python": "Half the CPU work between iterations",
}


def serving_values(m: Measurements, guesses: tuple[int, float] | None = None) -> dict[str, Any]:
    """What programs get besides the rows; `guesses`: how many guessed tokens a request, and which
    share is right."""
    cut = m.timed.memo(find_iterations)
    name = cut.framework if cut else None
    brought = guessed(m, *(guesses or USUAL))
    log = m.timed.memo(found_in_log)
    return {
        "server": SERVERS.get(name, name) if name else None,
        "phases": phases(m),
        "kinds": iteration_kinds(m.iterations),
        "decode_fit": m.memo(fit_of_decodes),
        "outlook": m.memo(outlook),
        "speculation": brought if isinstance(brought, Guesses) else None,
        "profiler_stretch": log.stretch if log else None,
    }


def sentences(
    m: Measurements, guesses: tuple[int, float] | None = None, *, gains: bool = True
) -> Iterator[str]:
    """The iterations by phase, the log, and what decides the decodes; first what guesses bring that
    were asked for. Without the `gains` of other launches where the report's advice has them."""
    speculation = guessed(m, *(guesses or USUAL))
    if guesses is not None:
        yield (
            _speculation(speculation)
            if isinstance(speculation, Guesses)
            else NOT_TOLD.format(speculation)
        )
    for phase in phases(m):
        yield _about(phase)
    yield from _tails(m)
    yield from _interference(m)
    yield from _log(m)
    fit = m.memo(fit_of_decodes)
    known = m.memo(outlook)
    if fit is not None:
        yield _fit(fit)
    yield from _batches(known)
    if guesses is None and isinstance(speculation, Guesses):
        yield _speculation(speculation)
    if gains:
        yield from _gains(known)
    yield from _ranks(m)
    yield from _in_graphs(m)


def _tails(m: Measurements) -> Iterator[str]:
    """How the times of each kind of iteration are spread, and why the slow ones are."""
    for kind in iteration_kinds(m.iterations):
        if kind.iterations < FEW_ITERATIONS:
            continue
        what = f"{kind.phase} iterations"
        how = LAUNCHED.get(kind.graph or "", "")
        text = (
            f"{kind.iterations} {what}{how}: p50 {_ms(kind.p50_ms)}, p90 {_ms(kind.p90_ms)}, "
            f"p99 {_ms(kind.p99_ms)}, {_ms(kind.most_ms)} at most (iteration {kind.slowest})"
        )
        if kind.cause is not None and kind.cause_ms is not None:
            text += f"; {_some(kind.slow, 'slow one')} more by {_ms(kind.cause_ms)} of {kind.cause}"
        yield f"{text}."


def _interference(m: Measurements) -> Iterator[str]:
    """How much longer decodes take that are in an iteration with prompts, and what shortens it."""
    usual: dict[str, float] = {}
    for kind in iteration_kinds(m.iterations):
        usual.setdefault(kind.phase, kind.p50_ms)
    mixed_ms = usual.get("mixed")
    decode_ms = usual.get("decode")
    if mixed_ms is None or (decode_ms is not None and mixed_ms < SLOW * decode_ms):
        return
    cut = m.timed.memo(find_iterations)
    alone = "" if decode_ms is None else f", without them {_ms(decode_ms)}"
    chunks = switches()["shorter_chunks"].said(cut.framework if cut else None)
    yield (
        f"Decodes in an iteration with prompts take {_ms(mixed_ms)}{alone}. {chunks} lower the tail "
        "of TPOT and raise TTFT."
    )


def _log(m: Measurements) -> Iterator[str]:
    if m.timed.memo(find_iterations) is None or not m.trace.step_timings.of_server:
        return
    log = m.timed.memo(found_in_log)
    if log is None:
        yield (
            "The log was not joined: the order of batches in it does not tell which of its "
            "iterations were recorded."
        )
        return
    if log.other_ms is not None:
        other, own = map(_ms, log.other_ms)
        yield (
            f"The log was not joined: it is of another server. Decodes take {other} in it, "
            f"as recorded {own}."
        )
        return
    decodes = by_phase(m.iterations).get("decode", [])
    recorded = figure_column(decodes, "period_ms")
    logged = figure_column(decodes, "logged_ms")
    both = (recorded > 0) & (logged > 0)
    if both.any():
        logged_ms, recorded_ms = (
            _ms(float(np.median(times[both]))) for times in (logged, recorded)
        )
        yield f"Decodes as logged: {logged_ms}, as recorded: {recorded_ms} (medians)."
    if log.stretch is not None and log.stretch >= 1 + FEW:
        yield f"The profiler makes decodes {log.stretch:.2f} times as long."


def _about(p: Phase) -> str:
    work = [_some(p.requests, "request")]
    work += [_some(p.context_tokens, "prompt token")] if p.context_tokens else []
    known = (
        p.unprofiled
        if p.unprofiled and abs(p.unprofiled.ms / p.iteration_ms - 1.0) >= FEW
        else None
    )
    time = _ms(p.iteration_ms)
    if known:
        time = (
            f"{_ms(known.ms)} without the profiler ({_ms(known.low_ms)} to "
            f"{_ms(known.high_ms)}); of {time} recorded"
        )
    count = (
        f"{p.iterations} {p.phase} iterations" if p.iterations > 1 else f"One {p.phase} iteration"
    )
    busy = f"GPU busy {_ms(p.busy_ms)} ({p.busy_ms / p.iteration_ms:.0%})"
    rate = p.tokens_per_s and p.tokens_per_s * (p.iteration_ms / known.ms if known else 1.0)
    tokens = f" {digits(rate)} generated tokens/s." if rate else ""
    first = (
        " A first token takes at least that; queueing is not recorded."
        if p.phase == "prefill"
        else ""
    )
    return f"{count} ({', '.join(filter(None, work))}): {time}, {busy}{_limit(p)}.{tokens}{first}"


def _limit(p: Phase) -> str:
    if p.limit == "host":
        return f", {_ms(p.host_idle_ms)} waiting for the CPU"
    if p.limit == "unknown":
        return (
            f", {_ms(p.iteration_ms - p.busy_ms - p.host_idle_ms)} waiting for what the "
            "recording does not show"
        )
    if p.memory_ms is None or p.arithmetic_ms is None:
        return ""
    return (
        f"; its traffic needs {_ms(p.memory_ms)} at the memory's bandwidth, "
        f"kernels that arithmetic limits {_ms(p.arithmetic_ms)} at its peak"
    )


def _fit(fit: DecodeFit) -> str:
    parts = [f"{_ms(fit.a_ms)} for any batch"]
    if fit.per_request_ms:
        parts.append(f"{_ms(fit.per_request_ms)} a request")
    if fit.per_kv_token_ms:
        parts.append(f"{_ms(1000 * fit.per_kv_token_ms)} for 1,000 KV tokens")
    text = (
        f"GPU time of a decode: {' + '.join(parts)}, from {fit.iterations} iterations of "
        f"{fit.batches} batches."
    )
    if fit.error_share > TRUSTED_ERROR:
        return (
            f"{text} That misses a batch left out by up to {fit.error_share:.0%}: nothing is "
            "predicted from it."
        )
    return text


def _batches(known: Outlook) -> Iterator[str]:
    if known.now is None or known.twice is None:
        return
    now = known.now
    twice = known.twice
    yield (
        f"Twice the batch ({_some(twice.requests, 'request')}): {_ms(now.decode_ms)} → {_ms(twice.decode_ms)} "
        f"a decode, {twice.tokens_per_s / now.tokens_per_s:.2f}x the tokens/s."
    )
    if known.half_batch is not None and known.most_tokens_per_s is not None:
        yield (
            f"Requests of this length reach {digits(known.most_tokens_per_s)} tokens/s at most, "
            f"half of that with {digits(known.half_batch)} requests."
        )
    if known.mixed_ms is not None and known.mixed_per_1000_tokens_ms is not None:
        yield (
            f"A mixed iteration takes {_ms(known.mixed_ms)} longer than a decode of its requests, "
            f"{_ms(known.mixed_per_1000_tokens_ms)} for 1,000 prompt tokens."
        )


def _speculation(g: Guesses) -> str:
    low, rate, high = (
        digits(g.tokens_per_s * g.iteration_ms / ms) for ms in (g.high_ms, g.iteration_ms, g.low_ms)
    )
    over = f", {g.speedup:.2f}x those now, less what guessing takes" if g.speedup else ""
    return (
        f"Speculative decoding, {g.draft_tokens} guesses a request, {g.acceptance:.0%} of them right: "
        f"{g.tokens_per_request:.2f} tokens for each of {_some(g.requests, 'request')} in {_ms(g.iteration_ms)} "
        f"({_ms(g.low_ms)} to {_ms(g.high_ms)}), {rate} tokens/s ({low} to {high}){over}."
    )


def _gains(known: Outlook) -> Iterator[str]:
    for gain in known.gains:
        yield (
            f"{CHANGES[gain.change]}: {_ms(gain.now_ms)} → {_ms(gain.predicted_ms)} a {gain.phase} iteration "
            f"({_ms(gain.low_ms)} to {_ms(gain.high_ms)})."
        )


def _ranks(m: Measurements) -> Iterator[str]:
    """How long the ranks of a model in parts wait for each other."""
    waits = (
        [(row.waiting_ms, row.rank) for row in m.ranks.rows if row.waiting_ms is not None]
        if m.ranks
        else []
    )
    if len(waits) > 1:
        least, late = min(waits)
        most, _ = max(waits)
        yield (
            f"In a mean iteration ranks wait {_ms(least)} to {_ms(most)} for each other, "
            f"rank {late} least."
        )


def _in_graphs(m: Measurements) -> Iterator[str]:
    """Of how many kernels in CUDA graphs the operators are known."""
    named, inside = named_in_graphs(m.linked, m.joined.launch_node)
    given = ", ".join(Path(one.path).name for one in m.trace.captures)
    if not inside:
        return
    if named:
        known = f"{named:,} of {inside:,} kernels in CUDA graphs have operator names"
        by = f" by {given}" if given else ""
        more = "; add the capture's trace to get the others" if named < inside else ""
        yield f"{known}{by}{more}."
    elif not given:
        yield "Kernels in CUDA graphs have no operator names; add the capture's trace to get them."
    elif has_unordered(m.linked):
        yield (
            f"Kernels in CUDA graphs have no operator names: these graphs have parallel branches, and "
            f"without ids of their nodes it is not known which kernel is which launch of {given}."
        )
    else:
        yield (
            f"Kernels in CUDA graphs have no operator names: {given} is of other graphs, none with "
            f"these kernels."
        )


def _some(count: float | None, noun: str) -> str:
    return "" if count is None else f"{digits(count)} {plural(noun, count)}"


def _ms(ms: float) -> str:
    return f"{digits(ms)} ms" if ms >= 1 else f"{digits(ms * 1e3)} us"
