"""How wide ranges must be: each program's stopwatches held against ranges that are made of the other
programs' errors, by what sets the pace and what was changed."""

import math
from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.predict.score import Case

HELD = 0.9  # share of stopwatches that a range is to hold
LEAST = 10  # errors that tell a tail; fewer are taken together with the class above
CLASSES: tuple[Callable[[Case], str], ...] = (
    lambda case: f"{case.pace} {case.kind}",
    lambda case: case.pace,
    lambda case: "all",
)
"""From the finest to the coarsest."""


def error_of(case: Case) -> float:
    """How far the stopwatch is from the prediction, in logarithms: half and twice are alike."""
    return abs(math.log(case.true_ms / (case.step_ms or math.nan)))


def tail_of(errors: Sequence[float]) -> float:
    """What `HELD` of these and of one more are below, as far as so few can tell."""
    ordered = sorted(errors)
    return ordered[min(math.ceil(HELD * (len(ordered) + 1)), len(ordered)) - 1]


def spread_for(case: Case, others: Sequence[Case]) -> float:
    """Half width of a range for a case, in logarithms, by what is known of others."""
    for class_of in CLASSES:
        alike = [error_of(one) for one in others if class_of(one) == class_of(case)]
        if len(alike) >= LEAST:
            break
    return tail_of(alike or [0.0])


def study(every: Sequence[Case]) -> str:
    """How many stopwatches ranges hold, and how wide they are, as they were and as others' errors
    would make them: without the program's own."""
    told = [case for case in every if case.step_ms]
    if not told:
        return "no predictions"
    lines = ["| cases | hold, as predicted | width | hold, by the others' errors | width |"]
    lines.append("|---|---|---|---|---|")
    spreads = {
        id(case): spread_for(case, [one for one in told if one.program != case.program])
        for case in told
    }
    for class_of in reversed(CLASSES):
        for name in sorted({class_of(case) for case in told}):
            some = [case for case in told if class_of(case) == name]
            lines.append(_row(name, some, [spreads[id(case)] for case in some]))
    return "\n".join(lines)


def _row(name: str, some: Sequence[Case], spreads: Sequence[float]) -> str:
    count = len(some)
    inside = sum(case.inside for case in some)
    holds = sum(error_of(case) <= spread for case, spread in zip(some, spreads, strict=True))
    width = median(case.width for case in some)
    wide = median(math.exp(spread) - math.exp(-spread) for spread in spreads)
    return f"| {name} ({count}) | {inside / count:.0%} | {width:.0%} | {holds / count:.0%} | {wide:.0%} |"
