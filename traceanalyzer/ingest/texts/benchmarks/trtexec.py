"""The performance summary of TensorRT's `trtexec`."""

from pathlib import Path

from traceanalyzer.base import digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import PastedText

_THROUGHPUT = regex(r"Throughput: (\d{1,20}\.?\d{0,20}) qps")
_ROW = regex(
    r"(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): min = \d{1,20}\.?\d{0,20} ms, "
    r"max = \d{1,20}\.?\d{0,20} ms, mean = (\d{1,20}\.?\d{0,20}) ms, median = (\d{1,20}\.?\d{0,20}) ms"
    r"(?:[^\n]*?percentile\(99%\) = (\d{1,20}\.?\d{0,20}) ms)?"
)
HOST_SHARE = 0.9
"""An enqueue that takes this share of the GPU's time holds it up."""
COPIED_SHARE = 0.2
"""From this share of the latency on, copies are worth a word."""
RECORD = (
    "To see which layers take the time: trtexec --dumpProfile --separateProfileRun, or record it with "
    "nsys (nsys profile trtexec ..., nsys export -t sqlite) and analyse that."
)


def recognise(text: str) -> bool:
    """Whether a text has such a summary."""
    return "Enqueue Time: " in text and "GPU Compute Time: " in text


def summarise(text: str, path: Path) -> PastedText | None:
    """Latency, the GPU's part of it, and the rate."""
    median: dict[str, float] = {}
    late: dict[str, float] = {}
    for name, _, middle, tail in _ROW.findall(text):
        median[name] = number_in(middle) or 0.0
        if tail:
            late[name] = number_in(tail) or 0.0
    gpu = median.get("GPU Compute Time")
    latency = median.get("Latency")
    if gpu is None or latency is None:
        return None
    tail_said = f", p99 {digits(late['Latency'])} ms" if "Latency" in late else ""
    rate = _THROUGHPUT.search(text)
    per_second = f", {digits(number_in(rate[1]) or 0.0)} queries/s" if rate else ""
    return PastedText(
        what="The summary of trtexec",
        tells=(
            f"A query takes {digits(latency)} ms (median{tail_said}), of which the GPU computes "
            f"{digits(gpu)} ms{per_second}."
        ),
        record=RECORD,
        notes=tuple(_notes(median, gpu, latency)),
    )


def _notes(median: dict[str, float], gpu: float, latency: float) -> list[str]:
    notes = []
    enqueue = median.get("Enqueue Time", 0.0)
    if enqueue >= HOST_SHARE * gpu > 0:
        notes.append(
            f"The host takes {digits(enqueue)} ms to enqueue what the GPU computes in {digits(gpu)} ms: "
            "it holds the GPU up (--useCudaGraph)."
        )
    copied = median.get("H2D Latency", 0.0) + median.get("D2H Latency", 0.0)
    if copied >= COPIED_SHARE * latency > 0:
        notes.append(
            f"Copies take {digits(copied)} ms of it, {copied / latency:.0%} (--noDataTransfers leaves "
            "them out, --useSpinWait and more streams hide them)."
        )
    return notes
