"""Summaries of serving benchmarks: vLLM's and SGLang's `bench_serving`, `trtllm-bench`, genai-perf;
as text or as their JSON."""

import re
from pathlib import Path

from traceanalyzer.base import digits
from traceanalyzer.ingest.side_files import decoded, number_in
from traceanalyzer.trace import Told

_LINE = re.compile(
    r"^[\s|│]*(?P<name>[A-Za-z][^:\n│|]{2,70}?)\s*[:│|]\s*(?P<value>\d[\d,]{0,15}(?:\.\d{1,12})?)",
    re.MULTILINE,
)
_NAMES = (
    ("ttft", re.compile(r"ttft|time[ _-]to[ _-]first[ _-]token")),
    ("tpot", re.compile(r"tpot|time[ _-]per[ _-]output[ _-]token")),
    ("itl", re.compile(r"\bitl\b|_itl_|inter[ _-]token[ _-]latency")),
    ("latency", re.compile(r"(?:request|e2e|end-to-end)[ _]\w*[ _]?latency|e2el")),
)
_STATISTIC = re.compile(r"\b(mean|average|avg|median|p50|p90|p95|p99)|(?:_|^)(mean|median|p99)_")
_SAME_STATISTIC = {"average": "mean", "avg": "mean", "p50": "median"}
_RATES = (
    ("requests", re.compile(r"request[ _]throughput")),
    ("output", re.compile(r"output[ _](?:token[ _])?throughput|total output throughput")),
    ("total", re.compile(r"total[ _]token[ _]throughput|token throughput \(tok")),
)
_COUNT = re.compile(r"successful requests|number of requests|\bcompleted\b|num_prompts")
STALLED = 3.0
"""A tail of the time between tokens that is this many times the median is more than chance: prefill
of others, or preemption, stands between two tokens."""
RECORD = (
    "To see what the GPU waits for in an iteration: record some seconds of the server with "
    "torch.profiler, and analyse the trace with the server's log."
)
_MS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "latency"}


def holds(text: str) -> bool:
    """Whether a text is such a summary."""
    lower = text.lower()
    return (
        ("ttft" in lower or "time to first token" in lower or "time-to-first-token" in lower)
        and ("throughput" in lower)
        and len(_figures(text)) > 1
    )


def told(text: str, path: Path) -> Told | None:
    """What a summary says."""
    found = _figures(text)
    typical = {label: _typical(found, key) for key, label in _MS.items()}
    times = [f"{label} {digits(ms)} ms" for label, ms in typical.items() if ms is not None]
    rates = [
        f"{digits(found[name])} {what}/s"
        for name, what in (("requests", "requests"), ("output", "output tokens"))
        if name in found
    ]
    if not times:
        return None
    return Told(
        what="The summary of a serving benchmark",
        tells=f"{', '.join((*times, *rates))}.",
        record=RECORD,
        notes=tuple(_notes(found)),
    )


def _typical(found: dict[str, float], key: str) -> float | None:
    """The median, else the mean."""
    return found.get(f"{key} median", found.get(f"{key} mean"))


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
        notes.append(f"About {digits(found['requests'] * latency / 1e3)} requests at a time.")
    step = _typical(found, "itl") or _typical(found, "tpot")
    if step and "output" in found:
        notes.append(
            f"A decode iteration takes about {digits(step)} ms for about "
            f"{digits(found['output'] * step / 1e3)} requests."
        )
    return notes


def _figures(text: str) -> dict[str, float]:
    """Figures by name: `ttft median` in ms, `output` a second."""
    found: dict[str, float] = {}
    for name, value in _pairs(text):
        lower = name.lower()
        for key, pattern in _NAMES:
            if pattern.search(lower):
                scale = 1e3 if re.search(r"\(s\)|_s$", lower) else 1.0
                found.setdefault(f"{key} {_statistic(lower)}", value * scale)
                break
        for key, pattern in _RATES:
            if pattern.search(lower):
                found.setdefault(key, value)
                break
        if _COUNT.search(lower):
            found.setdefault("count", value)
    return found


def _statistic(name: str) -> str:
    match = _STATISTIC.search(name)
    word = (match[1] or match[2]) if match else "mean"
    return _SAME_STATISTIC.get(word, word)


def _pairs(text: str) -> list[tuple[str, float]]:
    if text.lstrip().startswith("{"):
        values = decoded(text)
        pairs = values.items() if isinstance(values, dict) else ()
        return [(k, float(v)) for k, v in pairs if isinstance(v, int | float)]
    lines = ((match["name"], number_in(match["value"])) for match in _LINE.finditer(text))
    return [(name, value) for name, value in lines if value is not None]
