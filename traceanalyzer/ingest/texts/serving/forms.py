"""How benchmarks of servers print their figures: lines, tables with a column a statistic, CSV, JSON,
sentences. Each form gives pairs of a name, with its statistic and unit, and a value."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import decoded, is_number, mapping, number_in
from traceanalyzer.ingest.texts.serving.exposed import histograms_in

Pair = tuple[str, float]

_N = r"\d[\d,]{0,15}(?:\.\d{1,12})?"
_LINE = regex(
    rf"^(?:[^\S\n]|[|│>*-])*+(?P<name>[A-Za-z0-9][^:\n│|]{{2,70}}?)\s*[:│|]\s*(?P<value>{_N})"
    r"(?P<unit> ?(?:seconds|secs?|usec|ms|us|s|tok/s|tokens?/s|infer/sec|req/s|req/min)\b)?",
    re.MULTILINE,
)
_ROW_OF_SECONDS = regex(
    rf"^[^\S\n]*+(?P<name>[A-Z][A-Za-z ()-]{{4,50}}?)\s{{1,30}}(?P<values>{_N}(?:\s+{_N}){{3,9}})[^\S\n]*+$",
    re.MULTILINE,
)
_STATISTICS = regex(
    r"^[^\S\n]*+(mean\s++min\s++max(?:\s++[Pp]\d{2}(?:\.\d)?)++)[^\S\n]*+$", re.MULTILINE
)
_BENCHMARK = regex(r"^\[BENCHMARK\] (.*)$", re.MULTILINE)
_BENCHMARK_PAIR = regex(rf"\b([a-z_0-9]+(?:\([a-z/]{{1,20}}\))?) ({_N})(?=\s|$)")
_OF_THREE = regex(
    rf"^(?P<name>[a-z_ ]{{3,40}})\(min, max, ave\): ({_N})s, ({_N})s, (?P<value>{_N})s",
    re.MULTILINE,
)
_RATES = regex(rf"({_N}) (requests|total tokens|output tokens|tokens)/s")
_BATCH = regex(
    rf"^(Prefill|Decode)\.\s+(?:median )?latency:\s*({_N}) s, (?:median )?throughput:\s*({_N}) token/s",
    re.MULTILINE,
)
_JSON_PAIR = regex(
    r"\"(\w{2,60})\"\s*:\s*(-?\d{1,18}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?)(?=\s*[,}\]])"
)
_UNITS = ("ms", "us", "s", "sec", "usec", "tokens/sec", "requests/sec", "tokens", "requests")


def pairs_in(text: str) -> list[Pair]:
    """The names and values of a text, those of more certain forms first. Of runs in JSON, one a line,
    those of the last."""
    if text.lstrip().startswith("{"):
        last = objects_in(text)[-1]
        values = decoded(last)
        return list(_of_json(values) if isinstance(values, dict) else _of_cut_json(last))
    return [
        *histograms_in(text),
        *_of_csv(text),
        *_of_seconds(text),
        *_of_benchmark(text),
        *_of_batches(text),
        *_of_rates(text),
        *_of_lines(text),
    ]


def objects_in(text: str) -> list[str]:
    """The runs in a text in JSON: lines that are each an object, or one over many lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.startswith("{") for line in lines):
        complete = [line for line in lines if line.rstrip().endswith("}")]
        return complete or lines
    return [text]


def _of_json(values: Mapping[str, Any]) -> Iterator[Pair]:
    """`{"mean_ttft_ms": 8}`; or `{"time_to_first_token": {"unit": "ms", "avg": 8}}`."""
    yield from _settings(values)
    for name, value in values.items():
        if is_number(value):
            yield name, float(value)
        inner = mapping(value)
        unit = inner.get("unit")
        numbers = inner.items() if unit in _UNITS else ()
        yield from ((f"{key} {name} ({unit})", float(n)) for key, n in numbers if is_number(n))


def _settings(values: Mapping[str, Any]) -> Iterator[Pair]:
    """The load that AIPerf was asked for: `{"input_config": {"loadgen": {"concurrency": 10}}}`."""
    asked = mapping(mapping(values.get("input_config")).get("loadgen"))
    for key, name in (("concurrency", "max_concurrency"), ("request_rate", "request_rate")):
        if is_number(asked.get(key)):
            yield name, float(asked[key])


def _of_cut_json(text: str) -> Iterator[Pair]:
    """JSON that is cut off, or holds an infinity: its pairs of a name and a number."""
    for name, value in _JSON_PAIR.findall(text):
        number = number_in(value)
        if number is not None:
            yield name, number


def _of_csv(text: str) -> Iterator[Pair]:
    """`Metric,avg,p99` and a row a metric; then `Metric,Value`."""
    header: list[str] = []
    for cells in _rows_of_metrics(text):
        if cells[:1] == ["Metric"]:
            header = cells
        elif header and len(cells) == len(header):
            for statistic, cell in zip(header[1:], cells[1:], strict=True):
                name = f"{'' if statistic == 'Value' else statistic} {cells[0]}".strip()
                number = number_in(cell)
                if number is not None:
                    yield name, number


def _rows_of_metrics(text: str) -> list[list[str]]:
    """The rows of a CSV of metrics; none of another text."""
    if not re.search(r"^Metric,", text, re.MULTILINE):
        return []
    try:
        return list(csv.reader(text.splitlines()))
    except csv.Error:
        return []


def _of_seconds(text: str) -> Iterator[Pair]:
    """A table of times in seconds, a column a statistic."""
    head = _STATISTICS.search(text)
    if head is None:
        return
    statistics = head[1].lower().split()
    for row in _ROW_OF_SECONDS.finditer(text, head.end()):
        values = row["values"].split()
        if len(values) == len(statistics):
            for statistic, value in zip(statistics, values, strict=True):
                yield f"{statistic} {row['name']} (s)", number_in(value) or 0.0


def _of_benchmark(text: str) -> Iterator[Pair]:
    """Lines of TensorRT-LLM's older benchmarks: `[BENCHMARK] batch_size 8 latency(ms) 436`."""
    for line in _BENCHMARK.findall(text):
        for name, value in _BENCHMARK_PAIR.findall(line):
            yield name, number_in(value) or 0.0


def _of_batches(text: str) -> Iterator[Pair]:
    """SGLang's `bench_one_batch`: one prefill, and decodes of which it prints the median."""
    for kind, latency, rate in _BATCH.findall(text):
        name = (
            "time to first token (s)" if kind == "Prefill" else "median time per output token (s)"
        )
        yield name, number_in(latency) or 0.0
        if kind == "Decode":
            yield "output throughput", number_in(rate) or 0.0


def _of_rates(text: str) -> Iterator[Pair]:
    """vLLM's line of a throughput: `12.3 requests/s, 5578.9 total tokens/s`."""
    names = {
        "requests": "request throughput",
        "total tokens": "total token throughput",
        "tokens": "total token throughput",
        "output tokens": "output throughput",
    }
    for value, what in _RATES.findall(text):
        yield names[what], number_in(value) or 0.0


def _of_lines(text: str) -> Iterator[Pair]:
    """`Mean TTFT (ms): 95.1`, `Avg latency: 1.25 seconds`, `first_token latency(min, max, ave): ...`."""
    for match in _OF_THREE.finditer(text):
        yield f"mean {match['name']} (s)", number_in(match["value"]) or 0.0
    for match in _LINE.finditer(text):
        value = number_in(match["value"])
        unit = (match["unit"] or "").strip()
        if value is not None:
            yield f"{match['name']} ({unit})" if unit else match["name"], value
