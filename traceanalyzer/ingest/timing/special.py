"""Lines that are more than keys and values: those of progress bars, MLPerf, DeepSpeed. Each function
reads one line; None where it is not of its kind, ValueError where it is damaged."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.ingest.side_files import decoded, mapping
from traceanalyzer.ingest.timing.clocks import moment_of
from traceanalyzer.ingest.timing.fields import TRAINING
from traceanalyzer.ingest.timing.printed import (
    NOT_FINITE,
    NUMBER,
    is_not_finite,
    printed_number,
    read_numbers,
)
from traceanalyzer.ingest.timing.records import Values

SEARCHED = 1024
"""Characters of a line that are searched: some patterns take the square of it where a line is made
to that end."""
_LONG_NUMBER = regex(r"[\d,.]{40}")  # it would take long
_PHASES = regex(
    rf"^(?>.*?\b(?:forward|fwd): ({NUMBER}))(?>.*?\b(?:backward|bwd): ({NUMBER})).*\bstep: ({NUMBER})"
)
MICRO_PHASES = regex(
    rf"^(?>.*?\b(?:forward|fwd)_microstep: ({NUMBER}))(?>.*?\b(?:backward|bwd)_microstep: ({NUMBER}))"
    rf".*\bstep_microstep: ({NUMBER})"
)
_SAMPLES = regex(rf"^(?>.*?(?:/|global_step=)(\d{{1,18}}), )(?>.*?SamplesPerSec=({NUMBER}))")
_CURRENT = regex(rf"CurrSamplesPerSec=({NUMBER})")
_BAR = regex(
    rf"^(?>(?P<series>[^|]*?)(?<!\d)\d++%[| ]).*?\s(?P<step>\d{{1,18}})/(?P<total>\d{{1,18}}) \[[\d:]+<[\d:?]+,\s*"
    rf"(?P<rate>{NUMBER})\s?(?:(?P<per>(?:it|step|batch|ba)e?s?/s)|s/(?:it|step|batch|ba))"
)
_ANY_BAR = regex(r"^(?P<series>[^|\n]{0,200}?)\d{1,3}%\|[^|\n]{0,200}\| [^\[\n]{1,60}\[[\d:]+<")
_BAR_LOSS = regex(rf"\b(?:train_)?loss(?:_step)?\W{{1,3}}({NUMBER}|{NOT_FINITE}\b)", re.IGNORECASE)
_TRAINING_BAR = regex(r"^$|train|epoch|iter|step|^\d+/\d+\s", re.IGNORECASE)
"""Bars of training; others (`Validation`, `Loading checkpoint shards`, `Map`) are not steps."""
_SUMMARY = regex(
    rf"'train_(runtime|samples_per_second|steps_per_second|tokens_per_second|loss)': '?({NUMBER}|{NOT_FINITE}\b)'?"
)
_MS = 1e-3

series_codes: dict[str, float] = {}
"""A number for each name of a progress bar; none for bars without a name."""


def _numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The values that are numbers; what training comes to is infinite where it is none any more."""
    lost = {name: math.inf for name in TRAINING if is_not_finite(values.get(name))}
    return read_numbers(values) | lost


def mlperf_event(line: str) -> Values | None:
    """MLPerf: throughput of `tracked_stats` events, and the clock of events that count steps or
    samples."""
    event = _json(line.partition(":::MLLOG")[2].strip())
    metadata = mapping(event.get("metadata"))
    stats = mapping(event.get("value"))
    if event.get("event_type") == "INTERVAL_START" or not (stats or "step_num" in metadata):
        return None
    values = {
        "step": metadata.get("step_num"),
        "samples_per_s": stats.get("throughput"),
        "iter_s": stats.get("train_step_time"),
        "when_s": event.get("time_ms"),
    }
    read = _numbers(values)
    if "when_s" in read:
        read["when_s"] *= _MS
    return read if read.keys() & {"samples_per_s", "iter_s"} or len(read) > 1 else None


def _json(text: str) -> dict[str, Any]:
    values = decoded(text)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    return values


def deepspeed_timer(line: str) -> Values | None:
    """The throughput timer's line, or the line of phases that may follow it
    (`wall_clock_breakdown`)."""
    match = _SAMPLES.search(line) if "SamplesPerSec=" in line else None
    if match is None or _PHASES.match(line.partition("time (ms) |")[2]):
        return deepspeed_phases(line, _PHASES) if "time (ms) |" in line else None
    current = _CURRENT.search(line)
    values = {"step": match[1], "samples_per_s": current[1] if current else match[2]}
    when = moment_of(line)
    return _numbers(values) | ({"when_s": when[0]} if when and when[1] else {})


def deepspeed_phases(line: str, pattern: re.Pattern[str]) -> Values | None:
    """DeepSpeed: the sum of a line's phases, with the pattern of how they are named."""
    phases = pattern.match(line.partition("time (ms) |")[2])
    if phases is None:
        return None
    return {"iter_s": sum(printed_number(text) or 0.0 for text in phases.groups()) * _MS}


def progress_bar(line: str, lightning: bool) -> Values | None:
    """A bar of tqdm over training steps; `lightning`: with Lightning's `v_num=`, or only without."""
    match = _BAR.search(line)
    series = match["series"].strip(" :") if match else ""
    if match is None or not _TRAINING_BAR.search(series) or ("v_num=" in line) != lightning:
        return None
    rate = "its_per_s" if match["per"] else "iter_s"
    loss = _BAR_LOSS.search(line)
    values = {rate: match["rate"], "step": match["step"], "total": match["total"]}
    read = _numbers(values | ({"loss": loss[1]} if loss else {}))
    if series:
        read["series"] = series_codes.setdefault(series, float(len(series_codes)))
    return read


def is_other_bar(line: str) -> bool:
    """Whether a line is a bar of tqdm over something else than training: `Map: 5%| ...`."""
    bar = _ANY_BAR.match(line)
    series = bar["series"].strip(" :") if bar else ""
    return bool(series) and _TRAINING_BAR.search(series) is None


def hf_trainer_summary(line: str) -> Values | None:
    """The last line of Hugging Face's Trainer: rates over all of the training."""
    values = dict(_SUMMARY.findall(line))
    if "runtime" not in values or "steps_per_second" not in values:
        return None
    names = {
        "samples_per_s": "samples_per_second",
        "its_per_s": "steps_per_second",
        "tokens_per_s": "tokens_per_second",
        "loss": "loss",
    }
    return _numbers({field: values.get(name) for field, name in names.items()})


def searched(read: Callable[[str], Values | None]) -> Callable[[str], Values | None]:
    """The function on the part of a line that is searched."""

    def parse(line: str) -> Values | None:
        part = line if len(line) <= SEARCHED else line[:SEARCHED].rpartition(" ")[0]
        return None if _LONG_NUMBER.search(part) else read(part)

    return parse
