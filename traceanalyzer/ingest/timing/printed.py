"""What programs print of their own about phases and memory: `forward: 20.1 ms`, `After forward -
Allocated: 1.2 GB`; and numbers as they print them."""

import math
import re
from collections.abc import Iterator, Sequence

from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.timing.names import MEMORY_UNITS, TIME_UNITS
from traceanalyzer.ingest.timing.records import Values

NUMBER = r"[-+]?(?:\d[\d,]*+\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
AFTER = ("", "forward", "backward", "optimizer")
"""Phases after which memory is printed; a record holds the place in this list."""
_NAMES = {
    "forward": "forward_s",
    "fwd": "forward_s",
    "backward": "backward_s",
    "bwd": "backward_s",
    "optimizer": "optimizer_s",
    "optim": "optimizer_s",
    "update": "optimizer_s",
    "data": "data_s",
    "total": "iter_s",
}
"""What a phase's name begins with, and what it is of a step."""
_TIME = re.compile(
    rf"\b(forward|fwd|backward|bwd|optimizer|optim|update|data|total)(?:[ _](?:pass|step|time|load(?:ing|er)?))*"
    rf"\s*[:=]?\s*({NUMBER}) ?(ms|us|s)\b",
    re.IGNORECASE,
)
_PHASES = ("forward_s", "backward_s", "optimizer_s", "data_s")
_MEMORY = re.compile(
    rf"^(?P<where>.*?)\b(?:max[ _])?(?:memory[ _])?allocated\W{{0,3}}\s*({NUMBER}) ?([KMG]?i?B)\b"
    rf"(?:.*?\b(?:reserved|cached)\W{{0,3}}\s*({NUMBER}) ?([KMG]?i?B)\b)?",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\b(forward|fwd|backward|bwd|optimizer|optim|update)", re.IGNORECASE)


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


def phase_line(line: str) -> Values | None:
    """The phases that a line times; None where it times none, or only all of them."""
    found: dict[str, float] = {}
    for name, value, unit in _TIME.findall(line):
        seconds = (number(value) or 0.0) * TIME_UNITS[unit.lower()]
        found.setdefault(_NAMES[name.lower()], seconds)
    return found if found.keys() - {"iter_s"} else None


def memory_line(line: str) -> Values | None:
    """What a line says of GPU memory, and after which phase."""
    match = _MEMORY.search(line)
    if match is None:
        return None
    where = _WHERE.search(match["where"])
    phase = _NAMES[where[1].lower()].removesuffix("_s") if where else ""
    units = f"{match[3]}{match[5] or ''}".lower()
    found = {
        "memory_after": float(AFTER.index(phase)),
        "allocated": (number(match[2]) or 0.0) * MEMORY_UNITS[match[3].lower()],
        "decimal": float("mb" in units or "gb" in units),
    }
    if match[4] is not None:
        found["reserved"] = (number(match[4]) or 0.0) * MEMORY_UNITS[match[5].lower()]
    return found


def steps_of_phases(lines: Sequence[Values]) -> Iterator[tuple[int, Values]]:
    """A record a step, of lines of which some are of a phase alone: until one of them comes again.
    With the place of its first line."""
    first = 0
    step: dict[str, float] = {}
    for i, line in enumerate(lines):
        times = {name: value for name, value in line.items() if value and not math.isnan(value)}
        if step and not step.keys() & times.keys():
            step |= times
            continue
        if step:
            yield first, _summed(step)
        first = i
        step = dict(times)
    if step:
        yield first, _summed(step)


def _summed(step: dict[str, float]) -> Values:
    """With the sum of its phases for a time, where it has none of its own."""
    spent = sum(step.get(name, 0.0) for name in _PHASES)
    if "iter_s" not in step and spent > step.get("data_s", 0.0):
        step["iter_s"] = spent
    return step
