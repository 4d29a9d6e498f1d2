"""Findings on memory copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.analysis.replay.scenarios import COPIES_HIDDEN
from traceanalyzer.diagnosis.draft import Draft, Remedy, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.shares import WITHIN, copied_within_ms
from traceanalyzer.figures import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.analysis.tables.copies import CopyStats
    from traceanalyzer.diagnosis.finding import RemedyName
    from traceanalyzer.trace import Bool

ROWS = 3
"""Kinds of copies named in the evidence."""
TOO_LONG_TO_HIDE = 0.5
"""A step with less than this share for all but its copies cannot hide them."""
HIDE = (
    "Copy on a side stream with non_blocking=True while the previous step computes; send less "
    "(smaller types, compute on the GPU what can be)."
)
SEND_LESS = (
    "Copy less between CPU and GPU: keep on the GPU what is sent repeatedly (offloaded weights, constants), send "
    "smaller types, make the data on the GPU."
)


def exposed_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Copies while nothing else ran on the device."""
    budget = m.step.budget
    if budget is None:
        return
    exposed = budget.exposed_copy - min(copied_within_ms(m), budget.exposed_copy)
    if exposed <= 0:
        return
    evidence = [share(m, exposed, "copies that overlap with nothing")]
    between = [row for row in m.copies if row.direction != WITHIN]
    shown = sorted(between, key=lambda row: -row.exposed_ms)[:ROWS]
    for row in shown:
        where = ", ".join([row.direction, *_ends(row), row.size])
        evidence.append(Evidence("exposed copy time", row.exposed_ms, "ms", where))
        if row.bandwidth_gbs is not None:
            evidence.append(Evidence("achieved bandwidth", row.bandwidth_gbs, "GB/s", where))
    yield Draft(
        "exposed-copies",
        "transfer",
        "Memory copies do not overlap with compute",
        "exposed_copy",
        exposed,
        evidence,
        _remedies(m, between, shown, exposed),
    )


def _remedies(m: Measurements, between: list[CopyStats], shown: list[CopyStats], exposed: float) -> list[Remedy]:
    """To hide the copies; where they take longer than the rest of the step, which can hide no more than itself, to send
    less comes first."""
    pageable = any(row.source_memory == "pageable" or row.target_memory == "pageable" for row in shown)
    least = max(_longest_direction_ms(between), m.step.step_ms - exposed)
    name: RemedyName = "pinned_memory" if pageable else "copy_ahead"
    hidden = Remedy(
        ("Pin the host memory (pin_memory=True); pageable copies are slow and block the host. " if pageable else "")
        + HIDE,
        "copies hidden behind the rest of the step: it takes the longer of the two",
        COPIES_HIDDEN,
        name=name,
        least_ms=least,
    )
    if exposed <= (1.0 - TOO_LONG_TO_HIDE) * m.step.step_ms:
        return [hidden]
    most = m.step.step_ms - least
    told = f"the copies take longer than all else, which can hide at most {digits(most)} of their {digits(exposed)} ms"
    return [Remedy(SEND_LESS, told, suffix="-less", bound=True), hidden]


def _longest_direction_ms(between: list[CopyStats]) -> float:
    """Time of the copies of the device and direction with most of them: a link moves one at a time."""
    totals: dict[tuple[int | None, int, str], float] = {}
    for row in between:
        key = (row.rank, row.device, row.direction)
        totals[key] = totals.get(key, 0.0) + row.total_ms
    return max(totals.values(), default=0.0)


def _ends(row: CopyStats) -> list[str]:
    """Kinds of memory at both ends, where either was recorded."""
    if row.source_memory is None and row.target_memory is None:
        return []
    return [f"{row.source_memory or 'not recorded'} to {row.target_memory or 'not recorded'}"]


def device_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Copies within the device while nothing else ran on it: traffic of its memory."""
    exposed = copied_within_ms(m)
    if m.step.budget is None or exposed <= 0:
        return
    evidence = [share(m, exposed, "copies within the GPU that overlap with nothing")]
    rows = sorted((row for row in m.copies if row.direction == WITHIN), key=lambda row: -row.exposed_ms)
    evidence += [
        Evidence("exposed copy time", r.exposed_ms, "ms", f"{r.op or r.call or WITHIN}, {r.size}") for r in rows[:ROWS]
    ]
    action = "Copy less within the GPU: write results where they are needed, views instead of copies, no concatenation."
    remedy = Remedy(action, "copies within the GPU gone, an upper bound")
    yield Draft(
        "device-copies", "memory", "The GPU copies within its own memory", "exposed_copy", exposed, evidence, [remedy]
    )
