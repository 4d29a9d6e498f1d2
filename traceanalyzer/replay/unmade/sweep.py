"""Several settings at once: all combinations of values with commas between them, and where more of
a size stops paying."""

from collections.abc import Sequence
from itertools import pairwise, product

from traceanalyzer.base import digits
from traceanalyzer.replay.unmade.answer import Unmade
from traceanalyzer.replay.unmade.question import Question, question_of

MOST_SETTINGS = 64
"""Combinations that one command answers."""
PAYING = 0.1
"""A size twice as large that brings less than this share more work a second no longer pays."""


def questions_of(
    *,
    batch: str | None = None,
    length: str | None = None,
    precision: str | None = None,
    gpu: str | None = None,
    ranks: str | None = None,
    batch_now: int | None = None,
) -> list[Question]:
    """A question for each combination of these, with commas between several values of one. Raises
    ValueError for what makes no sense, or for too many."""
    axes = [_values(values) for values in (batch, length, precision, gpu, ranks)]
    combinations = list(product(*axes))
    if len(combinations) > MOST_SETTINGS:
        raise ValueError(f"{len(combinations)} settings are more than {MOST_SETTINGS}")
    return [
        question_of(
            batch=values[0],
            length=values[1],
            precision=values[2],
            gpu=values[3],
            ranks=None if values[4] is None else _whole(values[4]),
            batch_now=batch_now,
        )
        for values in combinations
    ]


def _values(text: str | None) -> list[str | None]:
    if text is None:
        return [None]
    parts = (one.strip() for one in text.split(","))
    found: list[str | None] = [one for one in parts if one]
    if not found:
        raise ValueError(f"{text!r} names no value")
    return found


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number of ranks")
    return int(text)


def paying(rows: Sequence[Unmade]) -> str | None:
    """Up to which batch a larger one pays, in a sentence; None where the rows are not of several
    batches that differ in nothing else."""
    known = [row for row in rows if row.batch is not None and row.work_gain is not None]
    sizes = {row.batch for row in known}
    alike = {row.length for row in known}
    if len(known) < 2 or len(sizes) < len(known) or len(alike) > 1:
        return None
    rates = _now(known[0])
    rates.update({row.batch: row.work_gain for row in known if row.batch and row.work_gain})
    throughput = sorted(rates.items())
    for (small, before), (large, after) in pairwise(throughput):
        gain = after / before - 1.0
        if gain < PAYING * (large / small - 1.0):
            return (
                f"Beyond batch {small} more hardly pays: {large} brings "
                f"{digits(gain * 100, 2)}% more {_counted(known[0])} a second"
            )
    return f"Each larger batch pays, up to {throughput[-1][0]}"


def _counted(row: Unmade) -> str:
    """What the batch counts."""
    return "rows" if row.samples_per_s is None else "samples"


def _now(row: Unmade) -> dict[int, float]:
    """The gain of the recorded batch, which is none."""
    if not (row.work_gain and row.batch and row.step_ms):
        return {}
    return {round(row.batch * row.now_ms / (row.work_gain * row.step_ms)): 1.0}
