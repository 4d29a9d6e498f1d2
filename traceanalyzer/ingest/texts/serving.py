"""Summaries of serving benchmarks: vLLM's, SGLang's and lmdeploy's, `trtllm-bench`, genai-perf and
AIPerf, Triton's `perf_analyzer`, MLPerf's LoadGen; as text or as their JSON."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from traceanalyzer.base import digits, regex
from traceanalyzer.ingest.texts.serving_forms import Pair, pairs_in
from traceanalyzer.trace import PastedText
from traceanalyzer.trace.engines import ANY_ENGINE

_NAMES = (
    (
        "",
        regex(r"target|min_duration|time to second|last token|overhead|http time|constraint"),
    ),
    ("ttft", regex(r"ttft|time[ _-]to[ _-]first[ _-]token|first[ _]token latency")),
    ("tpot", regex(r"tpot|time[ _-]per[ _-]output[ _-]token")),
    ("itl", regex(r"\bitl\b|_itl_|inter[ _-]token[ _-]latency")),
    (
        "latency",
        regex(
            r"(?:request|e2e|end-to-end|sequence)[ _]\w{0,60}[ _]?latency|e2el"
            r"|^(?:avg|mean|average|median|p?\d\d(?:\.\d\d)?%?|latency)[ _]?(?:percentile )?(?:latency)?"
            r"[ _]?\((?:usec|ms|ns|s|seconds)\)"
            r"|percentile latency|^percentile\d\d"
        ),
    ),
)
_STATISTIC = regex(
    r"\b(mean|average|avg|median|p50|p90|p95|p99)|(?:_|^)(mean|median|p99)_|\b(50|90|95|99)(?:\.00)?%? percentile"
    r"|\bpercentile(95|99)|(min|max)\b"
)
_SAME_STATISTIC = {"average": "mean", "avg": "mean", "p50": "median", "50": "median", "p": ""}
_MS_OF = (
    (regex(r"\((?:s|sec|seconds)\)|_s$"), 1e3),
    (regex(r"\((?:us|usec)\)"), 1e-3),
    (regex(r"\(ns\)"), 1e-6),
)
_RATES = (
    (
        "requests",
        regex(
            r"request[ _]throughput|rps \(request per second\)|(?:completed )?samples per second"
            r"|^throughput \(infer/sec\)"
        ),
    ),
    (
        "output",
        regex(
            r"output[ _](?:token[ _])?throughput|^tokens_per_sec"
            r"|token throughput \(completion token\)"
        ),
    ),
    (
        "total",
        regex(
            r"total[ _]token[ _]throughput|token throughput \(tok|token throughput \(prompt"
            r"|^token_throughput\(token/sec\)"
        ),
    ),
)
_ANOTHER_RATE = regex(r"per user|per gpu|/user|/gpu|scheduled|input token")
_COUNT = regex(r"successful requests|number of requests|\bcompleted\b|num_prompts")
STALLED = 3.0
"""A tail of the time between tokens that is this many times the median is more than chance: prefill
of others, or preemption, stands between two tokens."""
MOST_TIMES = 4
"""A summary says each figure once, or of a few runs; what is said again and again is a log."""
_LATENCIES = "% percentile latency:"
"""Of the only summary that has latencies alone, vLLM's; others of their kind are of any program."""
RECORD = (
    f"To see what the GPU waits for in an iteration: record a second of the server {ANY_ENGINE}, and analyse "
    "the trace with the server's log."
)
_MS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "latency"}
_OF_SERVERS = ("ttft", "tpot", "itl", "requests", "output", "total")
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
)
"""Texts of which every summary has one."""


def recognise(text: str) -> bool:
    """Whether a text is such a summary."""
    lower = text.lower()
    if not any(mark in lower for mark in _MARKS):
        return False
    pairs = pairs_in(text)
    if max(Counter(name for name, _ in pairs).values(), default=0) > MOST_TIMES:
        return False
    found = _figures(pairs)
    kinds = {name.partition(" ")[0] for name in found} - {"count"}
    return len(found) > 1 and bool(kinds.intersection(_OF_SERVERS) or _LATENCIES in lower)


def summarise(text: str, path: Path) -> PastedText | None:
    """What a summary says."""
    found = _figures(pairs_in(text))
    typical = {label: _typical(found, key) for key, label in _MS.items()}
    times = [f"{label} {digits(ms)} ms" for label, ms in typical.items() if ms is not None]
    rates = [
        f"{digits(found[name])} {what}/s"
        for name, what in (
            ("requests", "requests"),
            ("output", "output tokens"),
            ("total", "tokens"),
        )
        if name in found and not (name == "total" and "output" in found)
    ]
    sentence = ", ".join((*times, *rates))
    if not sentence:
        return None
    return PastedText(
        what="The summary of a serving benchmark",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(_notes(found)),
    )


def _typical(found: dict[str, float], key: str) -> float | None:
    """The median, else the mean."""
    return found.get(f"{key} median", found.get(f"{key} mean"))


def at_a_time(requests: float) -> str:
    """So many requests, rounded: `1 request`."""
    shown = digits(requests)
    return f"{shown} {'request' if shown == '1' else 'requests'}"


def _notes(found: dict[str, float]) -> list[str]:
    notes = []
    for key in ("itl", "ttft"):
        typical = _typical(found, key)
        tail = found.get(f"{key} p99")
        if typical and tail is not None and tail >= STALLED * typical:
            why = (
                "prefill of other requests, or preemption, comes between tokens (chunked prefill)"
                if key == "itl"
                else "requests queue before their prefill"
            )
            notes.append(
                f"{_MS[key]} is {digits(tail)} ms for one in a hundred, {tail / typical:.1f} "
                f"times the median: {why}."
            )
    latency = _typical(found, "latency")
    if latency is not None and "requests" in found:
        notes.append(f"About {at_a_time(found['requests'] * latency / 1e3)} at a time.")
    step = _typical(found, "itl") or _typical(found, "tpot")
    if step and "output" in found:
        notes.append(
            f"A decode iteration takes about {digits(step)} ms for about "
            f"{at_a_time(found['output'] * step / 1e3)}."
        )
    return notes


def _figures(pairs: Sequence[Pair]) -> dict[str, float]:
    """Figures by name: `ttft median` in ms, `output` a second."""
    found: dict[str, float] = {}
    for name, value in pairs:
        lower = name.lower()
        key = _kind(_NAMES, lower)
        if key:
            found.setdefault(f"{key} {_statistic(lower)}", value * _to_ms(lower))
        rate = "" if _ANOTHER_RATE.search(lower) else _kind(_RATES, lower)
        if rate:
            found.setdefault(rate, value)
        if _COUNT.search(lower):
            found.setdefault("count", value)
    return found


def _kind(kinds: Sequence[tuple[str, re.Pattern[str]]], name: str) -> str:
    """The first kind whose pattern a name holds; empty where none does."""
    return next((kind for kind, pattern in kinds if pattern.search(name)), "")


def _to_ms(name: str) -> float:
    return next((factor for pattern, factor in _MS_OF if pattern.search(name)), 1.0)


def _statistic(name: str) -> str:
    match = _STATISTIC.search(name)
    word = next((group for group in match.groups() if group), "mean") if match else "mean"
    word = _SAME_STATISTIC.get(word, word)
    return f"p{word}" if word.isdigit() else word
