"""What rules on kernels share: which device ops, their time, their names; and a claim on the time of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.names.kernel_names import short_name
from traceanalyzer.figures import ms

if TYPE_CHECKING:
    import re

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.draft import Draft
    from traceanalyzer.trace import F64, I32, I64, Bool

TOP_KERNELS = 3
TITLE_CHARACTERS = 80


@dataclass(frozen=True, eq=False)
class Claim:
    """A draft and the device ops whose time it would save: no later rule may claim these too."""

    draft: Draft
    rows: Bool


def steady(m: Measurements) -> Bool:
    """The steady state's device ops on the device that the step's figures speak of."""
    result: Bool = m.steady_ops & (m.trace.device_ops.device == (-1 if m.device is None else m.device))
    return result


def of_class(m: Measurements, *names: str) -> Bool:
    """Device ops of these classes."""
    result: Bool = np.isin(m.op_class, [m.classes.index(name) for name in names])
    return result


def named(m: Measurements, pattern: re.Pattern[str]) -> Bool:
    """Device ops in whose names the pattern is found."""
    return with_text(m, m.trace.device_ops.name, pattern)


def with_text(m: Measurements, column: I32 | I64, pattern: re.Pattern[str]) -> Bool:
    """Entries of a column of text codes in which the pattern is found."""
    codes, inverse = np.unique(column, return_inverse=True)
    found = np.array([bool(c >= 0 and pattern.search(m.trace.strings[c])) for c in codes], bool)
    return found[inverse] if len(codes) else np.zeros(0, bool)


def operators(m: Measurements) -> I64:
    """Name code of the modelled operator that each device op is part of, -1 without one."""
    row = m.roofline.row
    names = np.append(m.trace.host_ranges.name, np.int32(-1))
    return names[row].astype(np.int64)


def duration(m: Measurements) -> I64:
    """Duration of each device op, ns."""
    return m.trace.device_ops.end - m.trace.device_ops.start


def per_step(m: Measurements, values: I64 | F64) -> float:
    """The sum of these times (ns) as milliseconds a step."""
    return ms(values.sum()) / m.steps.steady_count


def top_kernels(m: Measurements, rows: Bool) -> list[tuple[str, float]]:
    """The names with the most time a step among the device ops, with that time in ms."""
    names, inverse = np.unique(m.trace.device_ops.name[rows], return_inverse=True)
    time: dict[str, float] = {}
    for code, ns in zip(names.tolist(), np.bincount(inverse, weights=duration(m)[rows]).tolist(), strict=True):
        name = title(m, code)
        time[name] = time.get(name, 0.0) + ms(ns / m.steps.steady_count)
    return sorted(time.items(), key=lambda item: -item[1])[:TOP_KERNELS]


def title(m: Measurements, code: int) -> str:
    """A kernel's name as the tables have it, cut where it is long."""
    name = short_name(m.trace.strings[code])
    return name if len(name) <= TITLE_CHARACTERS else name[: TITLE_CHARACTERS - 1] + "…"


def in_stream_order(m: Measurements, rows: Bool) -> I64:
    """These device ops by step, stream and start."""
    ops, chosen = m.trace.device_ops, np.flatnonzero(rows)
    return chosen[np.lexsort((ops.start[chosen], ops.stream[chosen], m.steps.of_op[chosen]))]


def runs(m: Measurements, order: I64, inside: Bool) -> tuple[I64, int]:
    """Number of the run of neighbours (same step and stream, all `inside`) of each op of `order`, -1 outside of
    any; and how many runs there are."""
    stream, step = m.trace.device_ops.stream[order], m.steps.of_op[order]
    starts = inside.copy()
    starts[1:] &= ~(inside[:-1] & (stream[1:] == stream[:-1]) & (step[1:] == step[:-1]))
    run = np.cumsum(starts) - 1
    run[~inside] = -1
    return run, int(starts.sum())
