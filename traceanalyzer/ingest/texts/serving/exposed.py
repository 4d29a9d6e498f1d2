"""What servers expose of themselves in Prometheus' form, at a moment: gauges, counters, and histograms
of their requests."""

import re
from collections.abc import Iterator
from statistics import fmean

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import number_in

_VALUE = r"(?:\{[^}\n]{0,400}\})?[ \t]+(\d[\d.]{0,20}(?:[eE][+-]?\d{1,3})?)"
_LINE = regex(rf"^(?:\w{{2,20}}:)?(\w{{3,60}}?){_VALUE}[ \t]*$", re.MULTILINE)
_SUM = regex(rf"^(?:\w{{2,20}}:)?(\w{{2,80}}?)(_seconds)?_sum{_VALUE}", re.MULTILINE)
_COUNT = regex(rf"^(?:\w{{2,20}}:)?(\w{{2,80}}?)(_seconds)?_count{_VALUE}", re.MULTILINE)
GAUGES = {
    "num_requests_running": "running",
    "num_running_reqs": "running",
    "requests_processing": "running",
    "tgi_batch_current_size": "running",
    "num_requests_waiting": "waiting",
    "num_queue_reqs": "waiting",
    "requests_deferred": "waiting",
    "tgi_queue_size": "waiting",
    "gpu_cache_usage_perc": "kv_usage",
    "kv_cache_usage_perc": "kv_usage",
    "kv_cache_usage_ratio": "kv_usage",
    "token_usage": "kv_usage",
    "kv_cache_utilization": "kv_usage",
    "cache_hit_rate": "prefix_hit_share",
    "num_preemptions_total": "preemptions",
    "num_retracted_reqs_total": "preemptions",
    "gen_throughput": "output_tokens_per_s",
    "prefix_cache_hits_total": "hits",
    "prefix_cache_queries_total": "queries",
}
"""By the names of vLLM, SGLang, llama.cpp, TGI and TensorRT-LLM; `kv_cache_usage_perc` is a share, too."""
ENGINES = {
    "vllm:": "vllm",
    "sglang:": "sglang",
    "trtllm_": "tensorrt_llm",
    "pytrtllm:": "tensorrt_llm",
    "tgi_": "tgi",
    "llamacpp:": "llama_cpp",
}
"""By what the names of their figures begin with."""
OF_WHOLE_REQUESTS = ("e2e_request_latency", "tgi_request_duration")
_SHARES = ("kv_usage", "prefix_hit_share")
_QUEUES = ("running", "waiting")


def gauges_in(text: str) -> dict[str, float]:
    """The figures at a moment, of all engines together; shares are their mean. Empty where no queue is
    among them."""
    found: dict[str, list[float]] = {}
    for name, value in _LINE.findall(text):
        figure = GAUGES.get(name)
        number = number_in(value)
        if figure is not None and number is not None:
            found.setdefault(figure, []).append(number)
    if not all(name in found for name in _QUEUES):
        return {}
    return {
        name: fmean(values) if name in _SHARES else sum(values) for name, values in found.items()
    }


def engine_in(text: str) -> str | None:
    """The engine whose figures these are; None where their names do not say."""
    lines = text.splitlines()
    begins = ((mark, engine) for mark, engine in ENGINES.items())
    found = (engine for mark, engine in begins if any(line.startswith(mark) for line in lines))
    return next(found, None)


def histograms_in(text: str) -> Iterator[tuple[str, float]]:
    """The mean of each histogram of times, s, and how many requests there were."""
    sums = _totals(_SUM.findall(text))
    counts = _totals(_COUNT.findall(text))
    for name, total in sums.items():
        count = counts.get(name)
        if count:
            yield f"mean {name} (s)", total / count
        if count and name in OF_WHOLE_REQUESTS:
            yield "completed", count


def _totals(rows: list[tuple[str, str, str]]) -> dict[str, float]:
    """The sum over all engines, by name; of times alone."""
    totals: dict[str, float] = {}
    for name, seconds, value in rows:
        number = number_in(value)
        if number is not None and (seconds or name.endswith("_duration")):
            totals[name] = totals.get(name, 0.0) + number
    return totals
