"""What benchmarks of servers call their figures, and the summary that these make."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median, quantiles

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.texts.serving.forms import Pair
from traceanalyzer.trace import Percentiles, ServingSummary

TIMES = (
    (
        "",
        regex(r"target|min_duration|time to second|last token|overhead|http time|constraint"),
    ),
    ("ttft", regex(r"ttft|time[ _-]to[ _-]first[ _-]token|first[ _]token latency")),
    ("tpot", regex(r"tpot|time[ _-]per[ _-](?:output[ _-])?token")),
    ("itl", regex(r"\bitl\b|_itl_|inter[ _-]token[ _-]latency")),
    ("queue", regex(r"request_queue_(?:time|duration)")),
    (
        "latency",
        regex(
            r"(?:request|e2e|end-to-end|sequence)[ _]\w{0,60}[ _]?latency|e2el"
            r"|^(?:avg|mean|average|median|p?\d\d(?:\.\d\d)?%?|latency)[ _]?(?:percentile )?(?:latency)?"
            r"[ _]?\((?:usec|ms|ns|s|seconds)\)"
            r"|percentile latency|^percentile\d\d|^mean tgi_request_duration"
        ),
    ),
)
"""Latencies; those of the first kind are none that is shown."""
RATES = (
    (
        "requests_per_s",
        regex(
            r"request[ _]throughput|rps \(request per second\)|(?:completed )?samples per second"
            r"|^throughput \(infer/sec\)"
        ),
    ),
    ("prompt_tokens_per_s", regex(r"input[ _](?:token[ _])?throughput")),
    (
        "output_tokens_per_s",
        regex(
            r"output[ _](?:token[ _])?throughput|^tokens_per_sec"
            r"|token throughput \(completion token\)"
        ),
    ),
    (
        "total_tokens_per_s",
        regex(
            r"total[ _]token[ _]throughput|token throughput \(tok|token throughput \(prompt"
            r"|^token_throughput\(token/sec\)"
        ),
    ),
)
COUNTS = (
    ("failed", regex(r"^failed(?: requests)?$")),
    ("requests", regex(r"^successful requests$|^completed$|^avg request[ _]count")),
    ("prompt tokens", regex(r"^total[ _]input[ _]tokens$")),
    ("generated tokens", regex(r"^total[ _](?:generated|output)[ _]tokens$")),
    ("prompt_tokens", regex(r"^avg input[ _]sequence[ _]length")),
    ("output_tokens", regex(r"^avg output[ _]sequence[ _]length")),
    ("concurrency", regex(r"^concurrency$")),
    ("max_concurrency", regex(r"^max(?:imum)?[ _](?:re\w{4,8}[ _])?concurrency$")),
    ("request_rate", regex(r"^traffic request rate$|^request rate configured|^request_rate$")),
    ("accepted_length", regex(r"^accept(?:ance)?[ _]length$")),
    ("accepted %", regex(r"^acceptance rate \(%\)$")),
)
"""What else is said of the requests, each by itself."""
ANOTHER_RATE = regex(r"per user|per gpu|/user|/gpu|scheduled|peak|^max")
STATISTIC = regex(
    r"\b(mean|average|avg|median|std|stddev|p\d{1,3})\b|(?:_|^)(mean|median|std|p\d{1,3})_"
    r"|\b(\d\d(?:\.\d{1,2})?)%? percentile|\bpercentile(\d\d)|(min|max)\b"
)
SAME_STATISTIC = {"average": "mean", "avg": "mean", "stddev": "std", "p50": "median"}
HELD_STATISTICS = ("mean", "median", "p90", "p95", "p99", "min")
MS_OF = (
    (regex(r"\((?:s|sec|seconds)\)|_s$"), 1e3),
    (regex(r"\((?:us|usec)\)"), 1e-3),
    (regex(r"\(ns\)"), 1e-6),
)
AT_ONCE = regex(r"request[ _]rate\"?\s*[:=]\s*\"?inf", re.IGNORECASE)
"""All requests are sent without waiting for one another."""
LIMIT = regex(r"\bmax_concurrency=(\d{1,9})\b")
MODEL = regex(r"\bmodel(?:_id|_name)?\"?\s?[:=]\s?[\"']([^\"'\n]{1,200})[\"']")
"""In the line of settings that vLLM prints, and in JSON."""
FEWEST_FOR_TAIL = 20  # requests: of fewer the tail is the slowest one
FEWEST_FOR_HUNDREDTH = 100
_PERCENT = 1e-2


def named_figures(pairs: Sequence[Pair]) -> dict[str, float]:
    """Figures by name: `ttft median` in ms, `output_tokens_per_s`, `concurrency`."""
    found: dict[str, float] = {}
    for name, value in pairs:
        for key, figure in _figures_in(name.lower(), value):
            found.setdefault(key, figure)
    return found


def _figures_in(name: str, value: float) -> Iterator[tuple[str, float]]:
    """The figures that a pair is; a time of nothing at all was not measured."""
    time = _kind(TIMES, name)
    if time and value > 0:
        yield f"{time} {_statistic(name)}", value * _to_ms(name)
    rate = "" if ANOTHER_RATE.search(name) else _kind(RATES, name)
    if rate and value > 0:
        yield rate, value
    count = _kind(COUNTS, name)
    if count:
        yield count, value


def is_of_load(name: str) -> bool:
    """Whether a figure is one of times or rates."""
    return name.partition(" ")[0] in {known for known, _ in (*TIMES, *RATES)}


def has_only_failed(found: Mapping[str, float]) -> bool:
    """Whether a summary says that requests failed, and none succeeded: it has no times then."""
    return bool(found.get("failed")) and found.get("requests") == 0


def serving_summary(found: Mapping[str, float], text: str) -> ServingSummary:
    """The summary that figures make; `text` says what is no number."""
    requests = found.get("requests")
    accepted = found.get("accepted %")
    rate = found.get("request_rate")
    limit = found.get("max_concurrency") or _limit_in_settings(text)
    model = MODEL.search(text)
    return ServingSummary(
        ttft=_times(found, "ttft"),
        tpot=_times(found, "tpot"),
        itl=_times(found, "itl"),
        latency=_times(found, "latency"),
        queue=_times(found, "queue"),
        requests_per_s=found.get("requests_per_s"),
        output_tokens_per_s=found.get("output_tokens_per_s"),
        prompt_tokens_per_s=found.get("prompt_tokens_per_s"),
        total_tokens_per_s=found.get("total_tokens_per_s"),
        requests=requests,
        failed=found.get("failed"),
        prompt_tokens=_each(found, "prompt", requests),
        output_tokens=_each(found, "generated", requests) or found.get("output_tokens"),
        concurrency=found.get("concurrency"),
        max_concurrency=limit,
        request_rate=rate,
        all_at_once=_all_at_once(text, rate, limit),
        accepted_length=found.get("accepted_length"),
        accepted_share=None if accepted is None else accepted * _PERCENT,
        model=None if model is None else model[1],
    )


def _limit_in_settings(text: str) -> float | None:
    """The most requests at a time that the line of settings says."""
    limit = LIMIT.search(text)
    return None if limit is None else number_in(limit[1])


def _all_at_once(text: str, rate: float | None, limit: float | None) -> bool | None:
    """Whether all requests are sent at once; None where that is not said."""
    if AT_ONCE.search(text):
        return limit is None
    return None if rate is None else False


def _each(found: Mapping[str, float], what: str, requests: float | None) -> float | None:
    """Tokens of a mean request, as said or by their sum."""
    stated = found.get(f"{what}_tokens")
    tokens = found.get(f"{what} tokens")
    if stated is not None or tokens is None or not requests:
        return stated
    return tokens / requests


def _times(found: Mapping[str, float], name: str) -> Percentiles | None:
    """The statistics of a latency; None where it has none."""
    known = {
        statistic: found[f"{name} {statistic}"]
        for statistic in HELD_STATISTICS
        if f"{name} {statistic}" in found
    }
    return Percentiles(**known) if known else None


def percentiles_of(values: Sequence[float]) -> Percentiles | None:
    """The statistics of single requests' times, ms; the tail of twenty and more."""
    if not values:
        return None
    hundredths = quantiles(values, n=100, method="inclusive") if len(values) > 1 else []
    has_tail = len(values) >= FEWEST_FOR_TAIL
    return Percentiles(
        mean=fmean(values),
        median=median(values),
        p90=hundredths[89] if has_tail else None,
        p95=hundredths[94] if has_tail else None,
        p99=hundredths[98] if len(values) >= FEWEST_FOR_HUNDREDTH else None,
        min=min(values),
    )


def _kind(kinds: Sequence[tuple[str, re.Pattern[str]]], name: str) -> str:
    """The first kind whose pattern a name holds; empty where none does."""
    return next((kind for kind, pattern in kinds if pattern.search(name)), "")


def _to_ms(name: str) -> float:
    return next((factor for pattern, factor in MS_OF if pattern.search(name)), 1.0)


def _statistic(name: str) -> str:
    match = STATISTIC.search(name)
    word = next((group for group in match.groups() if group), "mean") if match else "mean"
    number = number_in(word)
    word = word if number is None else f"p{number:g}"
    return SAME_STATISTIC.get(word, word)
