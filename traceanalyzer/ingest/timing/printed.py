"""What programs print of their own about phases and memory: `forward: 20.1 ms`, `After forward -
Allocated: 1.2 GB`; and numbers as they print them."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.base import regex
from traceanalyzer.base.limits import limits
from traceanalyzer.ingest.timing.names import MEMORY_UNITS, TIME_UNITS
from traceanalyzer.ingest.timing.records import Values

NUMBER = r"[-+]?(?:\d[\d,]*+\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
FIRST_NUMBER = NUMBER.replace("?", r"?(?<!\d)(?<!\d,)(?<!,,)", 1)
"""Where a search begins with it: from the beginning of a number alone, not from each digit of it."""
NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)"
"""How programs print what is no number any more, in any case."""
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
_TIME = regex(
    rf"\b(forward|fwd|backward|bwd|optimizer|optim|update|data|total)(?:[ _](?:pass|step|time|load(?:ing|er)?)){{0,4}}"
    rf"\s*(?:[:=]\s*)?({NUMBER}) ?(ms|us|s)\b",
    re.IGNORECASE,
)
_PHASES = ("forward_s", "backward_s", "optimizer_s", "data_s")
_SIZE = rf"(?:[^\w,;|]{{0,3}}|\s(?:is|was)\s)\s*({NUMBER}) ?([KMG]?i?B)\b"
_SIZE_FIRST = regex(
    rf"({NUMBER}) ?([KMG]?i?B) (allocated|reserved|cached|peak)\b(?!\W{{0,3}}{NUMBER} ?[KMG]?i?B\s*$)",
    re.IGNORECASE,
)
"""`512 MB allocated, 640 MB reserved`."""
_MEMORY = regex(
    rf"\b(?P<most>max[ _]|peak[ _])?(?:(?:gpu|cuda)[ _])?(?:mem(?:ory)?[ _])?alloc(?:ated)?{_SIZE}",
    re.IGNORECASE,
)
_AFTER_PHASE = regex(
    rf"\b(?:after|post)[ _](?:the )?(?:forward|fwd|backward|bwd|optimizer|optim|update)[ _a-z()]{{0,16}}{_SIZE}",
    re.IGNORECASE,
)
_RESERVED = regex(rf"\b(?:reserved|cached){_SIZE}", re.IGNORECASE)
_PEAK = regex(rf"\b(?:peak|max)(?:[ _](?:mem(?:ory)?|alloc(?:ated)?))*{_SIZE}", re.IGNORECASE)
_ONLY_PEAK = regex(
    rf"^\W*(?:peak|max(?:imum)?)(?:[ _](?:(?:gpu|cuda)[ _])?(?:mem(?:ory)?|usage|used|alloc(?:ated)?))*{_SIZE}",
    re.IGNORECASE,
)
_STEP = regex(r"\b(?:step|iter|iteration|it)\b\W{0,3}(\d{1,15})\b", re.IGNORECASE)
SEARCHED = 1024
"""Characters of a line that are searched for memory."""
_NOT_FINITE = regex(NOT_FINITE, re.IGNORECASE)
_WHERE = regex(r"\b(forward|fwd|backward|bwd|optimizer|optim|update)", re.IGNORECASE)


def printed_number(value: object) -> float | None:
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


def read_numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The values that are numbers."""
    read = ((name, printed_number(value)) for name, value in values.items())
    return {name: value for name, value in read if value is not None}


def is_not_finite(value: object) -> bool:
    """Whether a value is printed as nan or infinite."""
    return isinstance(value, str) and _NOT_FINITE.fullmatch(value.strip()) is not None


def phase_line(line: str) -> Values | None:
    """The phases that a line times; None where it times none, or only all of them."""
    found: dict[str, float] = {}
    for name, value, unit in _TIME.findall(line):
        seconds = (printed_number(value) or 0.0) * TIME_UNITS[unit.lower()]
        found.setdefault(_NAMES[name.lower()], seconds)
    return found if found.keys() - {"iter_s"} else None


def memory_line(line: str) -> Values | None:
    """What a line says of GPU memory, and after which phase; None of the message of an allocation that failed, whose
    sizes are parts of the whole."""
    line = line[:SEARCHED]
    if "out of memory" in line:
        return None
    if _SIZE_FIRST.search(line) is not None:
        line = _SIZE_FIRST.sub(r"\3: \1 \2", line)
    allocated = _MEMORY.search(line) or _AFTER_PHASE.search(line) or _ONLY_PEAK.match(line)
    if allocated is None:
        return None
    reserved = _RESERVED.search(line)
    peak = _PEAK.search(line)
    where = _WHERE.search(line, 0, allocated.end())
    phase = _NAMES[where[1].lower()].removesuffix("_s") if where else ""
    sizes = {"allocated": allocated, "reserved": reserved, "peak": peak}
    printed = {name: match for name, match in sizes.items() if match is not None}
    units = " ".join(match[match.lastindex or 0].lower() for match in printed.values())
    found = {
        "memory_after": float(AFTER.index(phase)),
        "decimal": float("mb" in units or "gb" in units),
    }
    step = _STEP.search(line)
    if step is not None:
        found["step"] = float(step[1])
    return found | {name: _bytes(match) for name, match in printed.items()}


def _bytes(match: re.Match[str]) -> float:
    """The size that a match ends with."""
    last = match.lastindex or 0
    return (printed_number(match[last - 1]) or 0.0) * MEMORY_UNITS[match[last].lower()]


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
