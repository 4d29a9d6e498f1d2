"""Samples of the GPU's counters (CUPTI's PM sampling), as Kineto writes them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from traceanalyzer.ingest.kineto.events import Counter

HARDWARE_COUNTERS = "hardware_counters"
"""Their category; other counters are a viewer's."""
_PROCESS = re.compile(r"GPU (\d{1,4}) Counters")
_ARGS: msgspec.json.Decoder[dict[str, float]] = msgspec.json.Decoder(dict[str, float])
_LARGEST_SAMPLE = 2.0**62


def counter_value(counter: Counter[Any]) -> float | None:
    """The one finite value of a hardware counter's `args`, None for anything else."""
    if counter.category != HARDWARE_COUNTERS:
        return None
    try:
        values = list(_ARGS.decode(bytes(counter.args)).values())
    except msgspec.DecodeError:
        return None
    return values[0] if len(values) == 1 and abs(values[0]) < _LARGEST_SAMPLE else None


def device_of_counter(counter: Counter[Any]) -> int:
    """The device in `GPU 0 Counters`, -1 where it is not said."""
    match = _PROCESS.match(str(counter.pid))
    return int(match[1]) if match else -1
