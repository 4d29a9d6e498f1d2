"""Summaries of serving benchmarks: vLLM's, SGLang's and lmdeploy's, `trtllm-bench`, genai-perf and
AIPerf, Triton's `perf_analyzer`, MLPerf's LoadGen; as text or as their JSON. And what servers expose
of themselves."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from traceanalyzer.base import digits
from traceanalyzer.ingest.texts.serving.exposed import engine_in, gauges_in
from traceanalyzer.ingest.texts.serving.forms import objects_in, pairs_in
from traceanalyzer.ingest.texts.serving.names import (
    RATES,
    has_only_failed,
    is_of_load,
    named_figures,
    serving_summary,
)
from traceanalyzer.trace import PastedText, ServingSummary
from traceanalyzer.trace.engines import ANY_ENGINE

MOST_TIMES = 4
"""A summary says each figure once, or of a few runs; what is summary again and again is a log."""
_LATENCIES = "% percentile latency:"
"""Of the only summary that has latencies alone, vLLM's; others of their kind are of any program."""
RECORD = (
    f"To see what the GPU waits for in an iteration: record a second of the server {ANY_ENGINE}, and analyse "
    "the trace with the server's log."
)
_LATENCY_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "latency"}
_OF_SERVERS = {"ttft", "tpot", "itl", *(name for name, _ in RATES)}
_MARKS = (
    "ttft",
    "first token",
    "first_token",
    "time-to-first-token",
    "throughput",
    "percentile latency",
    "[benchmark]",
    "samples per second",
    "tpot",
    "time_to_first_token",
    "request_queue_",
)
"""Texts of which every summary has one."""


def recognise(text: str) -> bool:
    """Whether a text is such a summary."""
    lower = text.lower()
    if gauges_in(text):
        return True
    if not any(mark in lower for mark in _MARKS):
        return False
    pairs = pairs_in(text)
    if max(Counter(name for name, _ in pairs).values(), default=0) > MOST_TIMES:
        return False
    figures = named_figures(pairs)
    if has_only_failed(figures):
        return True
    found = list(filter(is_of_load, figures))
    kinds = {name.partition(" ")[0] for name in found}
    return len(found) > 1 and (not kinds.isdisjoint(_OF_SERVERS) or _LATENCIES in lower)


def summarise(text: str, path: Path) -> PastedText | None:
    """What a summary says."""
    gauges = gauges_in(text)
    summary = serving_summary(named_figures(pairs_in(text)), text)
    summary = replace(summary, **_of_moment(gauges), engine=engine_in(text))
    figures = [*_at_moment(summary), *_times(summary), *_rates(summary)]
    if not figures and summary.failed and summary.requests == 0:
        figures = ["It has no times and no rates"]
    sentence = ", ".join(figures)
    if not sentence:
        return None
    return PastedText(
        what="The metrics of a server" if gauges else "The summary of a serving benchmark",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(_runs(text)),
        serving=summary,
    )


def _of_moment(gauges: dict[str, float]) -> dict[str, Any]:
    """What a server's gauges say, by the fields of a summary."""
    known = dict(gauges)
    hits = known.pop("hits", None)
    queries = known.pop("queries", None)
    if hits is not None and queries:
        known["prefix_hit_share"] = hits / queries
    return known


def _at_moment(summary: ServingSummary) -> list[str]:
    """The queue and the KV cache at a moment."""
    parts = []
    if summary.running is not None and summary.waiting is not None:
        parts.append(f"{digits(summary.running)} requests run and {digits(summary.waiting)} wait")
    if summary.kv_usage is not None:
        parts.append(f"the KV cache is {summary.kv_usage:.0%} full")
    return parts


def _times(summary: ServingSummary) -> list[str]:
    parts = []
    for name, label in _LATENCY_NAMES.items():
        times = getattr(summary, name)
        if times is not None and times.typical is not None:
            parts.append(f"{label} {digits(times.typical)} ms")
    return parts


def _rates(summary: ServingSummary) -> list[str]:
    tokens = (summary.output_tokens_per_s, "output tokens")
    if summary.output_tokens_per_s is None:
        tokens = (summary.total_tokens_per_s, "tokens")
    rates = ((summary.requests_per_s, "requests"), tokens)
    return [f"{digits(rate)} {what}/s" for rate, what in rates if rate is not None]


def _runs(text: str) -> list[str]:
    """That a file holds several runs."""
    runs = len(objects_in(text)) if text.lstrip().startswith("{") else 1
    return [f"The file holds {runs} runs: figures are of the last."] if runs > 1 else []
