"""Recordings that one capture made one after the other (`collect torch --repeat 3`): figures are of
the middle one, and what the others say of the step stands beside it."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from traceanalyzer.base import dataclass, digits, regex
from traceanalyzer.trace import Trace

PART = regex(r"\.part(\d{1,4})(?=\.)")  # as `collect` names a rank's second recording


@dataclass(frozen=True, eq=False)
class Pooled:
    """The recordings of the middle part, and what all parts say of the step."""

    traces: tuple[Trace, ...]
    note: str


StepTimes = Callable[[Trace], Sequence[float]]  # steady steps of a recording, ms


def pooled(traces: Sequence[Trace], steps_ms: StepTimes) -> Pooled | None:
    """The parts of a capture; None where these are not several parts of the same ranks."""
    parts = _parts(traces)
    if len(parts) < 2:
        return None
    times = {number: [steps_ms(trace) for trace in part] for number, part in parts.items()}
    if not all(steps for of_part in times.values() for steps in of_part):
        return None
    # Of several ranks the slowest is the step.
    means = {number: max(map(_mean, of_part)) for number, of_part in times.items()}
    order = sorted(means, key=lambda number: means[number])
    middle = order[(len(order) - 1) // 2]
    count = sum(len(of_part[0]) for of_part in times.values())
    spread = (max(means.values()) - min(means.values())) / means[middle]
    shown = ", ".join(digits(means[number]) for number in sorted(means))
    note = (
        f"{len(parts)} recordings were made one after the other, {count} steps in all: mean steps "
        f"{shown} ms, {spread:.0%} apart. Figures are of recording {middle}, the middle one."
    )
    return Pooled(tuple(parts[middle]), note)


def _parts(traces: Sequence[Trace]) -> dict[int, list[Trace]]:
    """Recordings by the number of their part; empty unless each part has the same ranks, once."""
    found: dict[int, list[Trace]] = defaultdict(list)
    for trace in traces:
        named = PART.search(Path(trace.path).name)
        found[int(named[1]) if named else 1].append(trace)
    names = [sorted(PART.sub("", trace.path) for trace in part) for part in found.values()]
    is_alike = all(other == names[0] for other in names)
    is_whole = is_alike and len(set(names[0])) == len(names[0])
    return dict(found) if is_whole else {}


def _mean(times: Sequence[float]) -> float:
    return math.fsum(times) / len(times)
