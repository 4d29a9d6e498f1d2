"""What a step works through, as a capture's `environment.json` states it: in `step`, or by the loader's batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from traceanalyzer.ingest.side_files import LARGEST, is_above_zero
from traceanalyzer.trace import StepAmounts

LARGEST_FLOPS = 1e24
"""No step of one process needs more operations: a GPU takes years for it."""


def stated_amounts(environment: Mapping[str, Any]) -> StepAmounts:
    """`{"step": {"samples": 64, "tokens": 131072, "flops": 4.2e15}}`; what is missing or malformed stays None."""
    stated = environment.get("step")
    values = stated if isinstance(stated, dict) else {}
    return StepAmounts(**{f.name: _amount(f.name, values.get(f.name)) for f in fields(StepAmounts)})


def _amount(name: str, value: object) -> float | None:
    if name == "flops" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if LARGEST_FLOPS >= value > 0 else None
    return float(value) if is_above_zero(value) else None


def batch_size(environment: Mapping[str, Any]) -> int | None:
    """`{"loader": {"batch_size": 64}}`: samples of a batch of the one loader that the collector saw."""
    loader = environment.get("loader")
    size = loader.get("batch_size") if isinstance(loader, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= LARGEST else None
