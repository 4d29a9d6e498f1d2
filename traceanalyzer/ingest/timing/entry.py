"""What one line of a timing log says, and the names by which logs call it. Every time carries its
unit in its name."""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.base.limits import limits


@dataclass(frozen=True)
class Entry:
    """One line of a log; None is "the line does not say". Times are seconds, counts are a
    step's."""

    step: int | None = None
    # duration of the step, or its mean over the steps since the last line
    iter_s: float | None = None
    data_s: float | None = None
    compute_s: float | None = None  # the step without its data
    samples: float | None = None
    tokens: float | None = None
    padded_tokens: float | None = None
    flops: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None  # model FLOP/s utilisation, 0..1
    context_requests: float | None = None  # of an iteration of a serving engine, as the next four
    context_tokens: float | None = None
    generation_requests: float | None = None
    generation_tokens: float | None = None
    kv_tokens: float | None = None
    when_s: float | None = None
    """Wall-clock time at which the line was written, where the log says it to the millisecond."""
    rank: int | None = None
    series: str = ""  # what the step counter belongs to (an epoch, a progress bar)
    total: int | None = None  # steps that the series has
    whole: bool = False  # whether the step's time is known to include that for data
    forward_s: float | None = None
    backward_s: float | None = None
    optimizer_s: float | None = None
    # whether the line times phases: others of the same step may stand on lines of their own
    parts: bool = False
    memory_after: str | None = None
    """The phase after which the line says how much GPU memory is allocated and reserved, bytes;
    empty for none."""
    allocated: float | None = None
    reserved: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    peak_memory_bytes: float | None = None
    decimal: bool = False  # whether the line calls them MB or GB


AMOUNTS = ("samples", "tokens", "padded_tokens")
BATCH = (
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
    "kv_tokens",
)
"""What logs of serving engines say of an iteration."""
MAX_COUNT = 2.0**53  # larger numbers are no step; a float does not count them one by one either
UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
}
_ITERATION = r"(?:iter|iteration|step|batch|train_step)(?:_?time|_duration|_latency)?"
_BARE = r"time|duration|latency"
"""A step's time only beside a step number; alone it may be a moment. `compute` is a step without
its data."""
_TIMED = re.compile(
    rf"(?:(?P<iter>{_ITERATION})|(?P<bare>{_BARE})|(?P<compute>(?:compute|iter_without_data)(?:_?time|_duration)?)|"
    r"(?P<data>(?:data|load|loading|loader|dataloader|input|batch_load|fetch)(?:_?time|_wait|_duration)?))_"
    rf"(?P<unit>{'|'.join(UNITS)})"
)
_UNITLESS = re.compile(rf"(?!(?:step|iter|iteration|batch|train_step)$)(?:{_ITERATION}|{_BARE})")
TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("formats.toml").read_text(encoding="utf-8")
)
_PLAIN = {name: field for field, names in TABLE["names"].items() for name in names}


def _plain(name: str) -> str:
    """The name in one spelling: `Samples/sec` is `samples_sec`, `steps_per_second`
    `steps_per_s`."""
    return re.sub(
        r"_per_sec(?:ond)?$", "_per_s", re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    )


@cache
def meaning(name: str) -> tuple[str, float] | None:
    """The field of `Entry` that a column, key or group stands for and the factor to its unit; None
    if none."""
    name = _plain(name)
    if timed := _TIMED.fullmatch(name):
        return next(f"{what}_s" for what, text in timed.groupdict().items() if text), UNITS[
            timed["unit"]
        ]
    return (_PLAIN[name], 1.0) if name in _PLAIN else None


def unitless(names: Iterable[str]) -> str | None:
    """The first name that stands for a step's time, beside a step number, but does not say its
    unit."""
    plain = list(map(_plain, names))
    numbered = any(_PLAIN.get(name) == "step" for name in plain)
    return next((name for name in plain if _UNITLESS.fullmatch(name)), None) if numbered else None


def entry(values: Mapping[str, Any]) -> Entry | None:
    """The entry that named values make; None where they hold neither a time nor a rate."""
    found = _meant(values)
    bare = found.pop("bare_s", None)
    if bare is not None and "step" in found:
        found.setdefault("iter_s", bare)
    _mend(found, values)
    compute = found.pop("compute_s", 0.0)
    if compute > 0:
        found.setdefault("iter_s", compute + found.get("data_s", 0.0))
        found["whole"] = True
        found["compute_s"] = compute
    for field in ("step", "rank", "total"):
        if field in found and 0 <= found[field] < (
            limits().ranks if field == "rank" else MAX_COUNT
        ):
            found[field] = int(found[field])
        else:
            found.pop(field, None)
    timed = (
        found.keys() & {"iter_s", "samples_per_s", "tokens_per_s", *BATCH}
        or {"step", "when_s"} <= found.keys()
    )
    return Entry(**found) if timed else None


def _meant(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values whose names are known, by what they mean."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        field, factor = meaning(name) or ("", 1.0)
        if field == "series" and value is not None:
            found[field] = str(value)
        elif field and (read := number(value)) is not None:
            found[field] = read * factor
    return found


def number(value: object) -> float | None:
    """A number as logs write it (`7,282`, `"36.27"`, `41.2%`); None for what is none, for NaN and
    infinity."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value[: limits().digits].strip().rstrip("%").replace(",", "")
    try:
        read = float(value)  # type: ignore[arg-type]  # what cannot be converted raises
    except (TypeError, ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def _mend(found: dict[str, Any], values: Mapping[str, Any]) -> None:
    """MFU as a share: a per cent sign says what it is, and no share is above 1.5 (clocks and peaks
    vary). Without impossible values; nanoGPT, for one, writes an MFU of -100 % for "not yet
    known"."""
    percent = found.pop("mfu_percent", None)
    if percent is not None:
        found["mfu"] = percent / 100
    elif "mfu" in found and (
        str(values.get("mfu", "")).rstrip().endswith("%") or found["mfu"] > 1.5
    ):
        found["mfu"] /= 100
    rate = found.pop("its_per_s", None)
    if rate and "iter_s" not in found:
        found["iter_s"] = 1 / rate
    for field in (
        "iter_s",
        "samples_per_s",
        "tokens_per_s",
        "mfu",
        "samples",
        "tokens",
        "padded_tokens",
        "flops",
    ):
        if found.get(field, 1) <= 0:
            del found[field]
    if found.get("data_s", 0.0) < 0:
        del found["data_s"]
