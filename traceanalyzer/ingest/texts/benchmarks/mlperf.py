"""MLPerf's log of a training (`:::MLLOG`)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from traceanalyzer.base import counted, digits, regex
from traceanalyzer.ingest.side_files import decoded, is_number, mapping
from traceanalyzer.trace import PastedText

_LINE = regex(r":::MLLOG (\{.{10,4000}\})\s*$", re.MULTILINE)
_START = "INTERVAL_START"
_END = "INTERVAL_END"
_INTERVALS = {"block": "block", "epoch": "epoch", "eval": "evaluation"}
MS_IN_S = 1e3
RECORD = (
    "To see why a step takes as long: `traceanalyzer collect torch -- python train.py` on some steps, and analyse "
    "that."
)
Event = dict[str, Any]


def recognise(text: str) -> bool:
    """Whether a text has such lines."""
    return _LINE.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """How long the run took, and what of it were evaluations."""
    events = list(_events(text))
    if not events:
        return None
    runs = _intervals(events, "run")
    values = {str(event.get("key")): event.get("value") for event in events}
    parts = [f"the run takes {digits(seconds)} s" for seconds in runs]
    if not runs:
        parts.append("the run has no end in this text")
    for key, word in _INTERVALS.items():
        found = _intervals(events, key)
        if found:
            mean = digits(sum(found) / len(found))
            parts.append(
                f"{counted(len(found), word)} of {mean} s{' on average' if len(found) > 1 else ''}"
            )
    batch = values.get("global_batch_size")
    if is_number(batch):
        parts.append(f"global batch {batch:,}")
    name = values.get("submission_benchmark")
    sentence = ", ".join(parts)
    return PastedText(
        what=f"A log of MLPerf{f' ({name})' if isinstance(name, str) else ''}",
        tells=f"{sentence[0].upper()}{sentence[1:]}.",
        record=RECORD,
        notes=tuple(_status(events)),
    )


def _events(text: str) -> Iterator[Event]:
    for line in _LINE.findall(text):
        event = mapping(decoded(line))
        if is_number(event.get("time_ms")) and isinstance(event.get("key"), str):
            yield dict(event)


def _intervals(events: Sequence[Event], name: str) -> list[float]:
    """The lengths of all intervals of a name, s: from each start to the end after it."""
    started: float | None = None
    found = []
    for event in events:
        kind = event.get("event_type")
        if event["key"] == f"{name}_start" and kind == _START:
            started = float(event["time_ms"])
        elif event["key"] == f"{name}_stop" and kind == _END and started is not None:
            found.append((float(event["time_ms"]) - started) / MS_IN_S)
            started = None
    return found


def _status(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        status = mapping(event.get("metadata")).get("status")
        if event["key"] == "run_stop" and isinstance(status, str):
            yield f"The run ended with status `{status}`."
