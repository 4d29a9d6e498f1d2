"""The line formats of timing logs: what a line looks like and what its time means. `formats.toml`
lists them.

A format reads a line into an `Entry`, None for one that is not its own, ValueError for one that
cannot be read."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from traceanalyzer.base import TraceAnalyzerError, dataclass
from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.side_files import decoded, mapping, whole
from traceanalyzer.ingest.timing.entry import TABLE, Entry, entry, meaning, number, unitless
from traceanalyzer.ingest.timing.printed import NUMBER, memory_line, phase_line

_RANK = re.compile(r"\[(?:default|rank ?)(\d+)\]|\brank[ =](\d+)|^\s*(\d+): ", re.IGNORECASE)
_WHEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,](\d{3,6})")
"""Only to the millisecond or finer: whole seconds cannot time a step."""
_TIMES = frozenset(
    ("iter_s", "compute_s", "samples_per_s", "tokens_per_s")
)  # what a line has to say at least one of
_LONG_NUMBER = re.compile(r"[\d,.]{40}")
SEARCHED = 1024
"""Characters of a line that are searched for a format: some take the square of it where a line is
made to that end."""


@dataclass(frozen=True)
class LineFormat:
    """One way to write step times."""

    name: str
    parse: Callable[[str], Entry | None]
    hint: str = ""  # text that every line of the format holds; asked first, because it is cheap
    minimum: int = 3  # how many lines it takes to be sure: fewer may happen to look like a format
    # what the time of a line is, where it is not that of one step: a sentence for the report
    averaged: str = ""
    whole: bool = False  # whether a line is read as a whole, and not searched


_PHASES = re.compile(
    rf"(?>.*?\b(?:forward|fwd): ({NUMBER}))(?>.*?\b(?:backward|bwd): ({NUMBER})).*\bstep: ({NUMBER})"
)
_MICRO_PHASES = re.compile(
    rf"(?>.*?\b(?:forward|fwd)_microstep: ({NUMBER}))(?>.*?\b(?:backward|bwd)_microstep: ({NUMBER}))"
    rf".*\bstep_microstep: ({NUMBER})"
)
_SAMPLES = re.compile(
    rf"(?:/|global_step=)(?P<step>\d+), .*?(?:Curr)?SamplesPerSec=(?P<samples_per_s>{NUMBER})"
)
_CURRENT = re.compile(rf"CurrSamplesPerSec=({NUMBER})")
_PAIR = re.compile(r"'?\b(\w+)'?\s*[=:]\s*([\d.]+)(ms|s)?\b")
_SGLANG = re.compile(r"#([\w -]+?): (\d+)")
_BAR = re.compile(
    rf"^(?P<series>[^|]*?)(?:\d+%[| ].*?)\s(?P<step>\d+)/(?P<total>\d+) \[[\d:]+<[\d:?]+,\s*"
    rf"(?P<rate>{NUMBER})(?:(?P<per>(?:it|step|batch|ba)e?s?/s)|s/(?:it|step|batch|ba))"
)
_TRAINING_BAR = re.compile(r"^$|train|epoch|iter|step", re.IGNORECASE)
"""Bars of training; others (`Validation`, `Loading checkpoint shards`, `Map`) are not steps."""
_SUMMARY = re.compile(
    rf"'train_(runtime|samples_per_second|steps_per_second|tokens_per_second)': '?({NUMBER})'?"
)
BINARY_MEANS = (
    "Printed GB and MB are read as GiB and MiB: of a program that divides by 1e9 (1e6), they "
    "are 7% (5%) less."
)


def pattern_format(pattern: str) -> LineFormat:
    """The user's own format: a regular expression with named groups (`iter_ms`, `iter_s`,
    `data_ms`, `samples_per_s`, `tokens_per_s`, `step`, `mfu`, ...). Raises TraceAnalyzerError if it
    is none."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise TraceAnalyzerError(
            f"--pattern is not a regular expression ({error}); mend it: {pattern}"
        ) from error
    unknown = [name for name in compiled.groupindex if not _field(name)]
    if unknown or not _TIMES.intersection(map(_field, compiled.groupindex)):
        what = f"does not know the group {unknown[0]}" if unknown else "names no time and no rate"
        raise TraceAnalyzerError(
            f"--pattern {what}; give named groups such as (?P<step>..), (?P<iter_ms>..), (?P<iter_s>..), "
            "(?P<data_ms>..), (?P<compute_ms>..), (?P<samples_per_s>..), (?P<tokens_per_s>..), (?P<mfu>..)"
        )
    return LineFormat("pattern", _searching(compiled), minimum=1, whole=True)


def _field(name: str) -> str:
    """The field of an entry that a name stands for; empty where it is none."""
    return (meaning(name) or ("", 1.0))[0]


def csv_format(header: str) -> LineFormat | None:
    """The format of a table whose first line is `header`; None if that names no time or rate of a
    step."""
    delimiter = next((d for d in (",", "\t", ";") if d in header), ",")
    names = [name.strip() for name in _cells(header.lstrip("# "), delimiter)]
    fields = set(map(_field, names))
    timed = {*_TIMES, "its_per_s"} & fields or {"step", "bare_s"} <= fields
    missing = None if timed or len(names) == 1 else unitless(names)
    if not timed and missing is None:
        return None

    def parse(line: str) -> Entry | None:
        if missing is not None:
            if number(line.split(delimiter)[0].strip('"')) is not None:
                raise UnitlessError(missing)
            return None
        return entry(dict(zip(names, _cells(line, delimiter), strict=True)))

    return LineFormat("CSV", parse, delimiter if len(names) > 1 else "", 1, whole=True)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


class UnitlessError(ValueError):
    """A time without a unit: not guessed at."""


def _json_line(line: str) -> Entry | None:
    if not line.lstrip().startswith("{"):
        return None
    values = _json(line)
    found = entry(
        {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    )
    if found is None and (missing := unitless(values)) is not None:
        raise UnitlessError(missing)
    # `host_ms`: a line of this package's own collector, whose step's time includes its data
    return replace(found, whole=True) if found is not None and "host_ms" in values else found


def _json(text: str) -> dict[str, Any]:
    values = decoded(text)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    return values


def _mllog(line: str) -> Entry | None:
    """MLPerf: throughput of `tracked_stats` events, and the clock of events that count steps or
    samples."""
    event = _json(line.partition(":::MLLOG")[2].strip())
    metadata = mapping(event.get("metadata"))
    stats = mapping(event.get("value"))
    if event.get("event_type") == "INTERVAL_START" or not (stats or "step_num" in metadata):
        return None
    when = number(event.get("time_ms"))
    values = {"samples_per_s": stats.get("throughput"), "iter_s": stats.get("train_step_time")}
    return entry(
        {"step": metadata.get("step_num"), **values, "when_s": None if when is None else when / 1e3}
    )


def _searching(pattern: re.Pattern[str]) -> Callable[[str], Entry | None]:
    def parse(line: str) -> Entry | None:
        match = pattern.search(line)
        return match and entry({"when_s": _when(line), **match.groupdict()})

    return parse


def _when(line: str) -> float | None:
    match = _WHEN.search(line)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{match[1]} {match[2]}+00:00")
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{match[3]}")


def _deepspeed(line: str) -> Entry | None:
    """The throughput timer's line, or the line of phases that may follow it
    (`wall_clock_breakdown`)."""
    match = _SAMPLES.search(line)
    if match is None or _PHASES.match(line.partition("time (ms) |")[2]):
        return _phases(line, _PHASES)
    rate = current[1] if (current := _CURRENT.search(line)) else match["samples_per_s"]
    return entry({"step": match["step"], "samples_per_s": rate, "when_s": _when(line)})


def _phases(line: str, pattern: re.Pattern[str]) -> Entry | None:
    phases = pattern.match(line.partition("time (ms) |")[2])
    return phases and entry({"iter_ms": sum(number(text) or 0.0 for text in phases.groups())})


def _tensorrt_llm(line: str) -> Entry | None:
    """TensorRT-LLM's line of an iteration: pairs in any order, with `=` or `:`."""
    pairs = {name: (value, unit) for name, value, unit in _PAIR.findall(line)}
    time, unit = pairs.get("host_step_time") or pairs.get("elapsed_time") or (None, "s")
    values = {"step": "iter", "rank": "rank", "context_requests": "num_ctx_requests"}
    values |= {"context_tokens": "num_ctx_tokens", "kv_tokens": "cached_kv_tokens"}
    return entry(
        {f"iter_{unit or 's'}": time}
        | {of: pairs.get(name, (None,))[0] for of, name in values.items()}
    )


def _tensorrt_metrics(line: str) -> Entry | None:
    """A record of TensorRT-LLM's `/metrics`. With overlap its latency is that of two iterations: no
    time then."""
    record = _json(line.strip().lstrip("[").rstrip(",]"))
    batch = mapping(record.get("inflightBatchingStats"))
    latency = None if record.get("schedulerMode") == "overlap" else record.get("iterLatencyMS")
    values = {"step": record.get("iter"), "iter_ms": record.get("hostStepTimeMS", latency)}
    values |= {
        "context_requests": batch.get("numContextRequests"),
        "context_tokens": batch.get("numCtxTokens"),
    }
    values |= {
        "generation_requests": batch.get("numGenRequests"),
        "kv_tokens": batch.get("numGenKvTokens"),
    }
    return entry(
        {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    )


def _sglang(line: str) -> Entry | None:
    """SGLang's line of a batch, one of forty decodes; it has no time."""
    kind = "decode" if "Decode batch" in line else "prefill" if "Prefill batch" in line else None
    pairs = dict(_SGLANG.findall(line))
    if kind == "decode":
        length = pairs.get("token") or pairs.get("full token")
        return entry(
            {
                "context_requests": 0,
                "generation_requests": pairs.get("running-req"),
                "kv_tokens": length,
            }
        )
    values = {"context_requests": pairs.get("new-seq"), "context_tokens": pairs.get("new-token")}
    return entry({**values, "generation_requests": 0}) if kind else None


def _bar(line: str, lightning: bool) -> Entry | None:
    match = _BAR.search(line)
    series = match["series"].strip(" :") if match else ""
    if match is None or not _TRAINING_BAR.search(series) or ("v_num=" in line) != lightning:
        return None
    rate = "its_per_s" if match["per"] else "iter_s"
    return entry(
        {rate: match["rate"], "step": match["step"], "total": match["total"], "series": series}
    )


def _hf_summary(line: str) -> Entry | None:
    values = dict(_SUMMARY.findall(line))
    return entry(values) if "runtime" in values and "steps_per_second" in values else None


_READERS: dict[str, Callable[[str], Entry | None]] = {
    "JSONL": _json_line,
    "TensorRT-LLM iterations": _tensorrt_llm,
    "TensorRT-LLM metrics": _tensorrt_metrics,
    "SGLang batches": _sglang,
    "MLPerf": _mllog,
    "HF Trainer": _hf_summary,
    "DeepSpeed": _deepspeed,
    "DeepSpeed micro-steps": partial(_phases, pattern=_MICRO_PHASES),
    "Lightning": partial(_bar, lightning=True),
    "progress bar": partial(_bar, lightning=False),
    "printed phases": phase_line,
    "printed memory": memory_line,
}
"""Of formats that are more than a pattern."""


def _formats(form: dict[str, Any]) -> Iterator[LineFormat]:
    pattern = "".join(form.pop("pattern", ())).replace("NUMBER", NUMBER)
    if not pattern:
        yield LineFormat(parse=_READERS[form["name"]], **form)
    for unit in ("ms", "us", "s") if "UNIT" in pattern else [""] * bool(pattern):
        yield LineFormat(parse=_searching(re.compile(pattern.replace("UNIT", unit))), **form)


FORMATS = tuple(form for entry in TABLE["format"] for form in _formats(entry))
"""In the order in which they are preferred where a log holds lines of several."""
PRINTED_MEMORY = FORMATS[-1]


def read_line(form: LineFormat, line: str) -> Entry | None:
    """The line's entry with the rank it says it is from; raises ValueError where the line is
    damaged."""
    if form.hint not in line:
        return None
    searched = line if form.whole or len(line) <= SEARCHED else line[:SEARCHED].rpartition(" ")[0]
    if not form.whole and _LONG_NUMBER.search(searched):  # it would take long
        searched = ""
    if (found := form.parse(searched)) is None:
        return None
    if found.data_s is not None and found.when_s is None:
        found = replace(found, when_s=_when(searched))
    return replace(found, rank=_rank(line)) if found.rank is None else found


def _rank(line: str) -> int | None:
    found = _RANK.search(line[:SEARCHED])
    rank = whole(next(filter(None, found.groups())), len(str(limits().ranks))) if found else -1
    return rank if 0 <= rank < limits().ranks else None
