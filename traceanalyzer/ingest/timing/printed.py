"""What programs print of their own about phases and memory: `forward: 20.1 ms`, `After forward -
Allocated: 1.2 GB`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from traceanalyzer.ingest.timing.entry import UNITS, Entry, number

NUMBER = r"[-+]?(?:\d[\d,]*+\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
_NAMES = {
    "forward": "forward_s",
    "fwd": "forward_s",
    "backward": "backward_s",
    "bwd": "backward_s",
    "optimizer": "optimizer_s",
    "optim": "optimizer_s",
    "update": "optimizer_s",
    "data": "data_s",
    "total": "total_s",
}
"""What a phase's name begins with, and what it is of a step."""
_TIME = re.compile(
    rf"\b(forward|fwd|backward|bwd|optimizer|optim|update|data|total)(?:[ _](?:pass|step|time|load(?:ing|er)?))*"
    rf"\s*[:=]?\s*({NUMBER}) ?(ms|us|s)\b",
    re.IGNORECASE,
)
_PHASES = ("forward_s", "backward_s", "optimizer_s", "data_s")
_BYTES = {
    "B": 1.0,
    "KB": 2.0**10,
    "KIB": 2.0**10,
    "MB": 2.0**20,
    "MIB": 2.0**20,
    "GB": 2.0**30,
    "GIB": 2.0**30,
}
"""Most programs that print GB divide by 1024^3, fewer by 1e9 (among public ones): which one it is,
a line does not say."""
_MEMORY = re.compile(
    rf"^(?P<where>.*?)\b(?:max[ _])?(?:memory[ _])?allocated\W{{0,3}}\s*({NUMBER}) ?([KMG]?i?B)\b"
    rf"(?:.*?\b(?:reserved|cached)\W{{0,3}}\s*({NUMBER}) ?([KMG]?i?B)\b)?",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\b(forward|fwd|backward|bwd|optimizer|optim|update)", re.IGNORECASE)


def phase_line(line: str) -> Entry | None:
    """The phases that a line times; None where it times none, or only all of them."""
    found: dict[str, Any] = {}
    for name, value, unit in _TIME.findall(line):
        found.setdefault(_NAMES[name.lower()], (number(value) or 0.0) * UNITS[unit.lower()])
    total = found.pop("total_s", None)
    return Entry(**found, iter_s=total, parts=True, whole=True) if found else None


def memory_line(line: str) -> Entry | None:
    """What a line says of GPU memory, and after which phase."""
    match = _MEMORY.search(line)
    if match is None:
        return None
    where = _WHERE.search(match["where"])
    phase = _NAMES[where[1].lower()].removesuffix("_s") if where else ""
    sizes = [
        None if match[i] is None else (number(match[i]) or 0.0) * _BYTES[match[i + 1].upper()]
        for i in (2, 4)
    ]
    units = f"{match[3]}{match[5] or ''}".lower()
    return Entry(
        memory_after=phase,
        allocated=sizes[0],
        reserved=sizes[1],
        decimal="mb" in units or "gb" in units,
    )


def steps_of_phases(entries: Iterable[Entry]) -> Iterator[Entry]:
    """An entry a step, of entries of which some are of a phase alone: until one of them comes
    again."""
    step: Entry | None = None
    for one in entries:
        times = {name: value for name in (*_PHASES, "iter_s") if (value := getattr(one, name))}
        if not one.parts:
            yield one
        elif step is not None and not any(getattr(step, name) for name in times):
            step = replace(step, **times)
        else:
            if step is not None:
                yield _summed(step)
            step = one
    if step is not None:
        yield _summed(step)


def _summed(step: Entry) -> Entry:
    """With the sum of its phases for a time, where it has none of its own."""
    spent = sum(getattr(step, name) or 0.0 for name in _PHASES)
    return replace(step, iter_s=step.iter_s or (spent if spent > (step.data_s or 0.0) else None))
