"""vLLM's lines: iterations, and what it says of its load every ten seconds."""

import re
from collections.abc import Mapping

from traceanalyzer.base import regex
from traceanalyzer.ingest.timing.printed import NUMBER, read_numbers
from traceanalyzer.ingest.timing.records import Values

_MS = 1e-3
_PERCENT = 1e-2
_ITERATION = regex(
    rf"(?:Engine (?P<rank>\d{{1,18}}): )?Iteration\((?P<step>\d{{1,18}})\): "
    rf"(?P<context_requests>\d{{1,18}}) context requests, "
    rf"(?P<context_tokens>\d{{1,18}}) context tokens, (?P<generation_requests>\d{{1,18}}) generation requests, "
    rf"(?P<generation_tokens>\d{{1,18}}) generation tokens, iteration elapsed time: (?P<iter_s>{NUMBER}) ms"
)
_THROUGHPUT = regex(
    rf"Avg prompt throughput: ({NUMBER}) tokens/s, Avg generation throughput: ({NUMBER}) tokens/s"
)
_ENGINE = regex(r"\bEngine (\d{1,18}): ")
_RUNNING = regex(r"\bRunning: (\d{1,18}) reqs\b")
_WAITING = regex(r"\b(?:Waiting|Pending|Swapped): (\d{1,18}) reqs\b")
_PREEMPTIONS = regex(r"\bPreemptions: (\d{1,18})\b")
_PREEMPTED_IN_ALL = regex(r"\btotal_num_cumulative_preemption ?= ?(\d{1,18})\b")
_KV_USAGE = regex(rf"\bGPU KV cache usage: ({NUMBER})%")
_HIT_RATE = regex(rf"(?<!External )(?<!MM )Prefix cache hit rate: (?:GPU: )?({NUMBER})%")
_ACCEPTED_LENGTH = regex(rf"\bMean acceptance length: ({NUMBER})")
_ACCEPTED_SHARE = regex(rf"\bAvg Draft acceptance rate: ({NUMBER})%")
_ACCEPTED_OLD = regex(rf"\bDraft acceptance rate: ({NUMBER}),")


def vllm_iteration(line: str) -> Values | None:
    """An iteration: requests and tokens by phase, and its time."""
    match = _ITERATION.search(line)
    if match is None:
        return None
    read = read_numbers(match.groupdict())
    if "iter_s" not in read:
        return None
    read["iter_s"] *= _MS
    return read


def vllm_load(line: str) -> Values | None:
    """Its throughput and load, what guesses came to, or that it takes a request out of the batch; no
    line has the time of an iteration."""
    in_all = _PREEMPTED_IN_ALL.search(line)
    if in_all is not None:
        return read_numbers({"preempted_in_all": in_all[1]})
    match = _THROUGHPUT.search(line)
    if match is not None:
        return {**read_numbers({"tokens_per_s": match[2]}), **_load(line, match[1])}
    return _guesses(line)


def _load(line: str, prompt_rate: str) -> dict[str, float]:
    """Requests that run and wait, preemptions, the KV cache."""
    waiting = [int(count) for count in _WAITING.findall(line)]
    values = {
        "prompt_tokens_per_s": prompt_rate,
        "running_requests": _first(_RUNNING.search(line)),
        "waiting_requests": sum(waiting) if waiting else None,
        "preempted": _first(_PREEMPTIONS.search(line)),
        "engine": _first(_ENGINE.search(line)),
    }
    shares = {
        "kv_usage": _first(_KV_USAGE.search(line)),
        "prefix_hit_share": _first(_HIT_RATE.search(line)),
    }
    return {**read_numbers(values), **_percentages(shares)}


def _guesses(line: str) -> Values | None:
    """What came of guessed tokens; None of a line on something else."""
    old = _ACCEPTED_OLD.search(line)
    if old is not None:
        return read_numbers({"accepted_share": old[1]})
    length = read_numbers({"accepted_length": _first(_ACCEPTED_LENGTH.search(line))})
    share = _percentages({"accepted_share": _first(_ACCEPTED_SHARE.search(line))})
    return {**length, **share} or None


def _percentages(values: Mapping[str, str | None]) -> dict[str, float]:
    return {name: value * _PERCENT for name, value in read_numbers(values).items()}


def _first(match: re.Match[str] | None) -> str | None:
    return None if match is None else match[1]
