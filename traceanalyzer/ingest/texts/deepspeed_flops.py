"""The summary of DeepSpeed's flops profiler."""

import re
from pathlib import Path

from traceanalyzer.base import digits, regex
from traceanalyzer.ingest.side_files import number_in
from traceanalyzer.trace import PastedText

_LATENCY = regex(r"^(fwd|bwd|step|iter) latency:\s+([\d.,]{1,20}) ?(us|ms|s)\b", re.MULTILINE)
_RATE = regex(r"^fwd\+bwd FLOPS per GPU[^\n:]*:\s+([\d.,]{1,20}) ?([KMGTP]?)FLOPS", re.MULTILINE)
_SAMPLES = regex(r"^samples/second:\s+([\d.,]{1,20})", re.MULTILINE)
_STEP = regex(r"Profile Summary at step (\d{1,15})")
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_NAMES = {"fwd": "forward", "bwd": "backward", "step": "optimizer"}
RECORD = (
    "To see what the GPU waits for in such a step: `traceanalyzer collect torch -- python train.py`, "
    "and analyse the trace."
)


def recognise(text: str) -> bool:
    """Whether a text is such a summary."""
    return "DeepSpeed Flops Profiler" in text or (
        "fwd flops per GPU" in text and _LATENCY.search(text) is not None
    )


def summarise(text: str, path: Path) -> PastedText | None:
    """The step by phases, and its rate."""
    spent = {
        name: (number_in(value) or 0.0) * _MS[unit] for name, value, unit in _LATENCY.findall(text)
    }
    if not spent:
        return None
    phases = ", ".join(
        f"{_NAMES[name]} {digits(spent[name])} ms" for name in _NAMES if name in spent
    )
    step_ms = spent.get("iter")
    says = (
        f"The profiled step takes {digits(step_ms)} ms: {phases}"
        if step_ms
        else phases.capitalize()
    )
    rate = _RATE.search(text)
    samples = _SAMPLES.search(text)
    rates = [
        f"{digits(number_in(rate[1]) or 0.0)} {rate[2]}FLOP/s a GPU in forward and backward"
        if rate
        else "",
        f"{digits(number_in(samples[1]) or 0.0)} samples/s" if samples else "",
    ]
    step = _STEP.search(text)
    at = f" at step {step[1]}" if step else ""
    return PastedText(
        what=f"The summary of DeepSpeed's flops profiler{at}",
        tells=f"{'; '.join(filter(None, (says, *rates)))}.",
        record=RECORD,
        notes=("A profiled step is slower than others: each module waits for the GPU.",),
    )
