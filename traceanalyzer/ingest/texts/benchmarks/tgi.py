"""Text Generation Inference: the router's line for each request, and the tables of its benchmark."""

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from traceanalyzer.base import counted, dataclass, digits, ratio, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.ingest.texts.serving.names import percentiles_of
from traceanalyzer.trace import PastedText, ServingSummary

_FIELD = regex(
    r'\b(total_time|queue_time|inference_time|time_per_token)="?(\d{1,9}(?:\.\d{1,12})?)(ns|[µμu]s|ms|s)\b'
)
_TABLE = regex(r"^\|\s*Step\s*\|\s*Batch Size\s*\|\s*Average\s*\|", re.MULTILINE)
_ROW = regex(
    r"^\|\s*+(?:(?P<step>Prefill|Decode(?: \(\w{5}\))?)\s*+)?\|\s*(?P<batch>\d{1,9})\s*\|\s*(?P<mean>[\d,.]{1,15})\s*"
    r"(?P<unit>ns|[µμu]s|ms|secs?|s|tokens/secs?)\s*\|",
    re.MULTILINE,
)
_MS = {
    "ns": 1e-6,
    **dict.fromkeys(("us", "µs", "μs"), 1e-3),
    "ms": 1.0,
    **dict.fromkeys(("s", "sec", "secs"), 1e3),
}
FEWEST_FIELDS = 2  # of a request, that no other program's line has together
LONG_QUEUE = 0.2
"""From this share of a request's time on, waiting in the queue is worth a word."""
RECORD = (
    "To see what the GPU waits for in an iteration: record some seconds of the server with nsys (nsys profile "
    "..., nsys export -t sqlite), and analyse that."
)


@dataclass(frozen=True)
class _Row:
    """A row of the benchmark: a mean of one step at one batch size."""

    step: str
    batch: int
    mean: float
    unit: str


def recognise_requests(text: str) -> bool:
    """Whether a text has the router's lines on requests."""
    names = {name for name, _, _ in _FIELD.findall(text)}
    return "time_per_token" in names and len(names) >= FEWEST_FIELDS


def summarise_requests(text: str, path: Path) -> PastedText | None:
    """The median request."""
    times: dict[str, list[float]] = {}
    for name, value, unit in _FIELD.findall(text):
        times.setdefault(name, []).append(float(value) * _MS[unit])
    typical = {name: median(values) for name, values in times.items()}
    per_token = typical.get("time_per_token")
    if per_token is None:
        return None
    count = len(times["time_per_token"])
    parts = [f"{digits(per_token)} ms a token, prefill included"]
    total = typical.get("total_time")
    queue = typical.get("queue_time")
    if total is not None:
        parts.insert(0, f"a request takes {digits(total)} ms")
    if queue is not None:
        parts.append(f"{digits(queue)} ms in the queue")
    sentence = ", ".join(parts)
    queued = sum(times.get("queue_time", ()))
    waits = ratio(queued, sum(times.get("total_time", ()))) or 0.0
    return PastedText(
        what=f"The log of Text Generation Inference, {counted(count, 'request')}",
        tells=f"{sentence[0].upper()}{sentence[1:]} (medians).",
        record=RECORD,
        notes=(
            f"{waits:.0%} of the requests' time is spent in the queue: the server has more of them than it "
            "batches.",
        )
        if waits >= LONG_QUEUE
        else (),
        serving=ServingSummary(
            engine="tgi",
            requests=float(count),
            latency=percentiles_of(times.get("total_time", [])),
            queue=percentiles_of(times.get("queue_time", [])),
        ),
    )


def recognise_benchmark(text: str) -> bool:
    """Whether a text has the tables of its benchmark."""
    return _TABLE.search(text) is not None and _ROW.search(text) is not None


def summarise_benchmark(text: str, path: Path) -> PastedText | None:
    """Prefill, decode and their rates at the smallest and the largest batch."""
    rows = list(_rows(text))
    batches = sorted({row.batch for row in rows})
    if not batches:
        return None
    ends = dict.fromkeys((batches[0], batches[-1]))
    return PastedText(
        what="The benchmark of Text Generation Inference",
        tells=" ".join(_at(rows, batch) for batch in ends),
        record=RECORD,
    )


def _rows(text: str) -> Iterator[_Row]:
    step = ""
    for row in _ROW.finditer(text):
        step = row["step"] or step
        yield _Row(step, int(row["batch"]), number_in(row["mean"]) or 0.0, row["unit"])


def _at(rows: list[_Row], batch: int) -> str:
    """What a batch of one size takes, in a sentence."""
    parts = filter(None, (_part(row) for row in rows if row.batch == batch))
    return f"Batch of {batch}: {', '.join(parts)}."


def _part(row: _Row) -> str:
    """A row in words. Tokens a second of a prefill are first tokens, not those of the prompt: they
    are left out, as the time of all tokens is."""
    is_rate = row.unit.startswith("tokens")
    if row.step == "Decode (total)" or (is_rate and row.step == "Prefill"):
        return ""
    if is_rate:
        return f"{row.step.lower()} {digits(row.mean)} tokens/s"
    name = "a token" if row.step == "Decode (token)" else row.step.lower()
    return f"{name} {digits(row.mean * _MS[row.unit])} ms"
