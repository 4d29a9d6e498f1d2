"""TensorRT-LLM's lines on iterations, and the records of its `/metrics`."""

from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import decoded, is_number, mapping
from traceanalyzer.ingest.timing.printed import printed_number, read_numbers
from traceanalyzer.ingest.timing.records import Values

_PAIR = regex(r"'?\b(\w+)'?\s*[=:]\s*([\d.]+)(ms|s)?\b")
_MS = 1e-3
_NAMES = {
    "step": "iter",
    "rank": "rank",
    "context_requests": "num_ctx_requests",
    "context_tokens": "num_ctx_tokens",
    "kv_tokens": "cached_kv_tokens",
}


def tensorrt_llm_iteration(line: str) -> Values | None:
    """An iteration: pairs in any order, with `=` or `:`."""
    pairs = {name: (value, unit) for name, value, unit in _PAIR.findall(line)}
    time, unit = pairs.get("host_step_time") or pairs.get("elapsed_time") or (None, "s")
    values = {field: pairs[name][0] for field, name in _NAMES.items() if name in pairs}
    read = read_numbers({"iter_s": time} | values)
    scheduled = (
        printed_number(pairs["num_scheduled_requests"][0])
        if "num_scheduled_requests" in pairs
        else None
    )
    if scheduled is not None and scheduled >= read.get("context_requests", scheduled + 1):
        # its tokens of decodes count padding
        read["generation_requests"] = scheduled - read["context_requests"]
    if unit == "ms" and "iter_s" in read:
        read["iter_s"] *= _MS
    return read if read.keys() & {"iter_s", "context_requests", "context_tokens"} else None


def tensorrt_llm_metrics(line: str) -> Values | None:
    """A record of `/metrics`. With overlap its latency is that of two iterations: no time then."""
    record = decoded(line.strip().lstrip("[").rstrip(",]"))
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    batch = mapping(record.get("inflightBatchingStats"))
    latency = None if record.get("schedulerMode") == "overlap" else record.get("iterLatencyMS")
    values = {
        "step": record.get("iter"),
        "iter_s": record.get("hostStepTimeMS", latency),
        "context_requests": batch.get("numContextRequests"),
        "context_tokens": batch.get("numCtxTokens"),
        "generation_requests": batch.get("numGenRequests"),
        "kv_tokens": batch.get("numGenKvTokens"),
        "running_requests": batch.get("numScheduledRequests"),
        "waiting_requests": record.get("numQueuedRequests"),
        "preempted": batch.get("numPausedRequests"),
    }
    read = read_numbers(values)
    if "iter_s" in read:
        read["iter_s"] *= _MS
    return {**read, **_cache(record)} if len(read) > 1 else None


def _cache(record: dict[str, Any]) -> dict[str, float]:
    """Which share of the KV cache is used, what guesses came to."""
    cache = mapping(record.get("kvCacheStats"))
    guesses = mapping(record.get("specDecodingStats"))
    values = {
        "kv_usage": _used(cache),
        "prefix_hit_share": cache.get("cacheHitRate"),
        "accepted_length": guesses.get("acceptanceLength"),
    }
    return read_numbers(values)


def _used(cache: dict[str, Any]) -> float | None:
    """Which share of its blocks is used; None where it does not say."""
    used = cache.get("usedNumBlocks")
    most = cache.get("maxNumBlocks")
    return used / most if is_number(used) and is_number(most) and most > 0 else None
