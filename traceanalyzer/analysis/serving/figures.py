"""A server under load: latencies of its requests, how many of them it works on and how many wait, how full
the memory for KV is. From the summary of a benchmark, or from the server's log."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import numpy as np

from traceanalyzer.analysis.time.each_engine import engines_of, longest_stall, summed_rate
from traceanalyzer.base import MS_PER_S, dataclass, metric
from traceanalyzer.trace import F64, I64, Bool, Percentiles, ServingSummary, StepTimings, Trace


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The figures of a server. Those of a log are means over its lines, an engine each; its rates and its concurrency
    are summed over its engines."""

    engine: str | None = metric(
        "the server: `vllm`, `sglang`, `tensorrt_llm`, `tgi` or `llama_cpp`; null where it is not said",
        default=None,
        text="own",
    )
    source: str = metric(
        "where they are from: `summary` of a benchmark, `log` of the server", text="own"
    )
    model: str | None = metric("the model; null where it is not said", default=None)
    ttft_ms: Percentiles | None = metric(
        "time to the first token of a request: queue and prefill", default=None
    )
    tpot_ms: Percentiles | None = metric(
        "time of a request per output token behind the first", default=None
    )
    itl_ms: Percentiles | None = metric("time between two tokens of a request", default=None)
    latency_ms: Percentiles | None = metric("time of a request from end to end", default=None)
    queue_ms: Percentiles | None = metric(
        "time of a request in the queue, where the server says it", default=None
    )
    ttft_share: float | None = metric(
        "mean time to the first token over the mean latency; null where either is not known",
        default=None,
    )
    in_queue_share: float | None = metric(
        "mean time in the queue over the mean latency; null where either is not known", default=None
    )
    requests_per_s: float | None = metric("requests completed a second", "1/s", default=None)
    output_tokens_per_s: float | None = metric("tokens generated a second", "1/s", default=None)
    prompt_tokens_per_s: float | None = metric("prompt tokens a second", "1/s", default=None)
    total_tokens_per_s: float | None = metric(
        "prompt and generated tokens a second", "1/s", default=None
    )
    requests: float | None = metric("requests completed", default=None)
    failed_requests: float | None = metric("requests that failed", default=None)
    prompt_tokens: float | None = metric("prompt tokens of a mean request", default=None)
    output_tokens: float | None = metric("generated tokens of a mean request", default=None)
    concurrency: float | None = metric(
        "requests in the server at a time, mean: as printed, else requests a second times their mean latency, of a log "
        "those that run and wait",
        default=None,
    )
    before_first_token: float | None = metric(
        "of these without a token yet (queue and prefill), mean: requests a second times "
        "the mean time to the first token",
        default=None,
    )
    decoding: float | None = metric(
        "of these that generate, mean: requests a second times their mean latency behind the first token, else tokens "
        "behind the first a second times the mean time between two",
        default=None,
    )
    max_concurrency: float | None = metric(
        "requests that the benchmark keeps in the server at most; null without such a limit, or where it is not said",
        default=None,
    )
    request_rate: float | None = metric(
        "requests that the benchmark sends a second; null where that is not said, or without end",
        "1/s",
        default=None,
    )
    all_at_once: bool | None = metric(
        "whether the benchmark sends all requests without waiting; null where it does not say",
        default=None,
    )
    running_requests: float | None = metric("requests in the batch, mean", default=None)
    running_requests_max: float | None = metric("most requests in the batch", default=None)
    waiting_requests: float | None = metric("requests in the queue, mean", default=None)
    waiting_requests_max: float | None = metric("most requests in the queue", default=None)
    queued_share: float | None = metric(
        "share of the lines with requests in the queue", default=None
    )
    running_while_queued: float | None = metric(
        "requests in the batch while others wait, mean", default=None
    )
    waiting_while_queued: float | None = metric("requests in the queue then, mean", default=None)
    kv_usage_share: float | None = metric("share of the KV cache in use, mean", default=None)
    kv_usage_max_share: float | None = metric("largest share of it in use", default=None)
    kv_usage_while_queued_share: float | None = metric(
        "share of it in use while requests wait, mean", default=None
    )
    prefix_hit_share: float | None = metric(
        "share of the prompt tokens that are found in the prefix cache", default=None
    )
    preemptions: float | None = metric(
        "requests taken out of the batch for want of memory, to be computed again", default=None
    )
    graph_share: float | None = metric(
        "share of the logged decodes that are replayed CUDA graphs", default=None
    )
    graph_batch_max: float | None = metric("largest batch that one replays", default=None)
    eager_batch_min: float | None = metric("smallest batch decoded without", default=None)
    engines: float | None = metric(
        "data-parallel engines that write the log; null where its lines name none", default=None
    )
    stalled_lines: float | None = metric(
        "most lines of the log in a row in which requests are in the server and none gets a token; null without three",
        default=None,
    )
    stalled_running: float | None = metric("requests in the batch then, mean", default=None)
    stalled_to_the_end: bool | None = metric(
        "whether that lasts to the log's end; null where there is no such time", default=None
    )
    accepted_length: float | None = metric(
        "tokens that an iteration of speculative decoding gives a request, mean", default=None
    )
    accepted_share: float | None = metric(
        "share of the guessed tokens that are right", default=None
    )


@dataclass(frozen=True)
class ServingFigure:
    """One of these figures, as a row."""

    figure: str = metric("its path below `metrics.serving`", text="own")
    value: float = metric("its value")
    unit: str = metric("its unit: ms, 1/s, share, or empty of a count", text="own")


def figure_rows(serving: Serving | None) -> list[ServingFigure]:
    """The figures that are known, in their order."""
    return [] if serving is None else list(_known_figures("", serving))


def _known_figures(prefix: str, values: Serving | Percentiles) -> Iterator[ServingFigure]:
    for column in fields(values):
        value = getattr(values, column.name)
        name = f"{prefix}{column.name}"
        if isinstance(value, Percentiles):
            yield from _known_figures(f"{name}.", value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            unit = "share" if name.endswith("_share") else column.metadata["unit"]
            yield ServingFigure(name, float(value), unit)


def served_load(trace: Trace) -> Serving | None:
    """What is known of a server's load; None where nothing tells of it."""
    summary = trace.pasted.serving if trace.pasted is not None else None
    if summary is not None:
        return of_summary(summary)
    found = of_log(trace.step_timings)
    return None if found is None else replace(found, engine=trace.logged_by or None)


def of_summary(summary: ServingSummary) -> Serving:
    """The figures of a summary, and by Little's law (requests a second times their mean time) how many
    requests are where. Medians do not serve for it."""
    latency = _mean(summary.latency)
    first = _mean(summary.ttft)
    rate = summary.requests_per_s
    queued = bool(summary.waiting)
    decoding = _decoding(summary)
    return Serving(
        source="summary",
        engine=summary.engine,
        model=summary.model,
        ttft_ms=summary.ttft,
        tpot_ms=summary.tpot,
        itl_ms=summary.itl,
        latency_ms=summary.latency,
        queue_ms=summary.queue,
        ttft_share=_ratio(first, latency),
        in_queue_share=_ratio(_mean(summary.queue), latency),
        requests_per_s=rate,
        output_tokens_per_s=summary.output_tokens_per_s,
        prompt_tokens_per_s=summary.prompt_tokens_per_s,
        total_tokens_per_s=summary.total_tokens_per_s,
        requests=summary.requests,
        failed_requests=summary.failed,
        prompt_tokens=summary.prompt_tokens,
        output_tokens=summary.output_tokens,
        concurrency=summary.concurrency
        or _at_a_time(rate, latency)
        or _sum(_at_a_time(rate, first), decoding)
        or _sum(summary.running, summary.waiting),
        before_first_token=_at_a_time(rate, first),
        decoding=decoding,
        max_concurrency=summary.max_concurrency,
        request_rate=summary.request_rate,
        all_at_once=summary.all_at_once,
        running_requests=summary.running,
        waiting_requests=summary.waiting,
        running_while_queued=summary.running if queued else None,
        waiting_while_queued=summary.waiting if queued else None,
        kv_usage_share=summary.kv_usage,
        kv_usage_while_queued_share=summary.kv_usage if queued else None,
        prefix_hit_share=summary.prefix_hit_share,
        preemptions=summary.preemptions,
        accepted_length=summary.accepted_length,
        accepted_share=summary.accepted_share,
    )


def _ratio(part: float | None, total: float | None) -> float | None:
    return part / total if part is not None and total else None


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _mean(times: Percentiles | None) -> float | None:
    return None if times is None else times.mean


def _at_a_time(rate_per_s: float | None, time_ms: float | None) -> float | None:
    """How many are there at a time, of so many a second that stay for so long."""
    if rate_per_s is None or time_ms is None:
        return None
    return rate_per_s * time_ms / MS_PER_S


def _decoding(summary: ServingSummary) -> float | None:
    """Requests that generate, in the mean."""
    rate = summary.requests_per_s
    latency = _mean(summary.latency)
    first = _mean(summary.ttft)
    if latency is not None and first is not None and rate is not None:
        return _at_a_time(rate, max(latency - first, 0.0))
    between = _mean(summary.itl)
    tokens = summary.output_tokens_per_s
    if between is None or tokens is None:
        return None
    # Time between tokens there is of tokens behind the first.
    return _at_a_time(max(tokens - (rate or 0.0), 0.0), between)


def of_log(log: StepTimings) -> Serving | None:
    """The figures of a server's log; None where its lines do not say its load."""
    lines = _lines(log)
    if not lines.any():
        return None
    running = _known(log.running_requests[lines])
    waiting = _known(log.waiting_requests[lines])
    usage = _known(log.kv_usage[lines])
    queued = waiting > 0
    stall = longest_stall(log)
    engines = engines_of(log)
    graph, eager = log.graph == 1, log.graph == 0
    return Serving(
        source="log",
        output_tokens_per_s=summed_rate(log, "tokens_per_s"),
        prompt_tokens_per_s=summed_rate(log, "prompt_tokens_per_s"),
        concurrency=_at_once(engines.values()),
        running_requests=_average(running),
        running_requests_max=_most(running),
        waiting_requests=_average(waiting),
        waiting_requests_max=_most(waiting),
        queued_share=_share(queued, np.isfinite(waiting)),
        running_while_queued=_average(running[queued]),
        waiting_while_queued=_average(waiting[queued]),
        kv_usage_share=_average(usage),
        kv_usage_max_share=_most(usage),
        kv_usage_while_queued_share=_average(usage[queued]),
        prefix_hit_share=_hits(log),
        preemptions=_preemptions(log),
        graph_share=_share(graph, graph | eager),
        graph_batch_max=_most(_known(log.running_requests[graph])),
        eager_batch_min=_least(_known(log.running_requests[eager])),
        engines=float(len(engines)) if (log.engine >= 0).any() else None,
        stalled_lines=None if stall is None else float(stall.lines),
        stalled_running=None if stall is None else stall.running,
        stalled_to_the_end=None if stall is None else stall.to_the_end,
        accepted_length=_average(_known(log.accepted_length)),
        accepted_share=_average(_known(log.accepted_share)),
    )


def _lines(log: StepTimings) -> Bool:
    """The lines that say the load: of decodes where there are any, as prefills come in bursts."""
    says = (log.running_requests >= 0) | (log.waiting_requests >= 0) | (log.kv_usage >= 0)
    decodes = says & (log.running_requests >= 0)
    return decodes if decodes.any() else says


def _at_once(engines: Iterable[StepTimings]) -> float | None:
    """Requests that run and wait at a time, over all engines."""
    of_each = [
        _average(_known(log.running_requests[lines]) + _known(log.waiting_requests[lines]))
        for log, lines in ((log, _lines(log)) for log in engines)
    ]
    known = [count for count in of_each if count is not None]
    return sum(known) if known else None


def _known(values: I64 | F64) -> F64:
    """The values, NaN where a line does not say one."""
    return np.where(values >= 0, values, np.nan).astype(np.float64)


def _average(values: F64) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _most(values: F64) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _least(values: F64) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.min()) if len(known) else None


def _share(chosen: Bool, among: Bool) -> float | None:
    return float(chosen.sum() / among.sum()) if among.any() else None


def _hits(log: StepTimings) -> float | None:
    """The share of prompt tokens found in the cache. Lines of prefills are weighed by their prompt
    tokens; a share that the server keeps up itself is the last."""
    rows = np.flatnonzero(log.prefix_hit_share >= 0)
    if not len(rows):
        return None
    hits = log.prefix_hit_share[rows]
    fresh = log.context_tokens[rows]
    if not (fresh > 0).any():
        return float(hits[-1])
    known = (fresh >= 0) & (hits < 1.0)
    tokens = fresh[known] / (1.0 - hits[known])
    return float(np.average(hits[known], weights=tokens)) if tokens.sum() > 0 else None


def _preemptions(log: StepTimings) -> float | None:
    """How many there were; None where no line counts them."""
    counted = log.preempted[log.preempted >= 0]
    in_all = log.preempted_in_all[log.preempted_in_all >= 0]
    if not len(counted) and not len(in_all):
        return None
    return float(max(counted.sum(), in_all.max(initial=0)))
