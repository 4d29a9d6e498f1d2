"""The report of torch_xla's metrics (`met.metrics_report()`)."""

import re
from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted, digits, regex
from traceanalyzer.trace import PastedText

_METRIC = regex(
    r"^Metric: (\w{2,80})[^\S\n]*+\n\s++TotalSamples: (\d{1,15})[^\S\n]*+\n\s++Accumulator: (\S{1,60})",
    re.MULTILINE,
)
_COUNTER = regex(r"^Counter: ([\w:.]{2,120})[^\S\n]*+\n\s++Value: (\d{1,15})", re.MULTILINE)
_PART = regex(r"(\d{1,9}(?:\.\d{1,9})?)(d|h|ms|us|ns|m|s)")
_SECONDS = {
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
}
_TIMES = {
    "CompileTime": "compiling",
    "ExecuteTime": "executing",
    "TransferFromDeviceTime": "copying from the device",
    "TransferToDeviceTime": "copying to the device",
}
_LOWERED = "aten::"
SHOWN = 5
RECORD = (
    "To see when they happen: a trace of torch_xla's profiler (xp.trace to a folder), of which the .xplane.pb "
    "can be analysed."
)


def recognise(text: str) -> bool:
    """Whether a text is such a report."""
    return any(name in _TIMES for name, _, _ in _METRIC.findall(text))


def summarise(text: str, path: Path) -> PastedText | None:
    """How often and how long it compiled, ran and copied."""
    found = {
        name: (int(count), _seconds(total))
        for name, count, total in _METRIC.findall(text)
        if name in _TIMES
    }
    parts = [
        f"{_TIMES[name]} {digits(found[name][1])} s ({counted(found[name][0], 'time')})"
        for name in _TIMES
        if name in found
    ]
    if not parts:
        return None
    sentence = ", ".join(parts)
    return PastedText(
        what="The metrics of torch_xla",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(_notes(dict(_COUNTER.findall(text)))),
    )


def _seconds(text: str) -> float:
    return sum(float(value) * _SECONDS[unit] for value, unit in _PART.findall(text))


def _notes(counters: dict[str, str]) -> Iterator[str]:
    cached = counters.get("CachedCompile")
    fresh = counters.get("UncachedCompile")
    if cached and fresh:
        yield f"{int(fresh):,} graphs were compiled, {int(cached):,} times a compiled one was found."
    on_host = {name: int(count) for name, count in counters.items() if name.startswith(_LOWERED)}
    if on_host:
        often = sorted(on_host, key=lambda name: -on_host[name])[:SHOWN]
        listed = ", ".join(f"{name} {counted(on_host[name], 'time')}" for name in often)
        yield f"Operators without a form for XLA run on the CPU, and cut the graph: {listed}."
