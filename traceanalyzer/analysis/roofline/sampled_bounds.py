"""What limits kernels as hardware counters say that a recorder sampled while they ran."""

import re

import numpy as np

from traceanalyzer.analysis.roofline.bounds import NEAR, Bound
from traceanalyzer.analysis.time.sampled import alone_through
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import I32, I64, U8, Bool, distinct

MIN_SAMPLES = 20
"""Fewer samples tell nothing of a step, or of a kernel."""
SHARE = re.compile(r"%|pct", re.IGNORECASE)
"""Counters that are shares of the hardware's peak say so in their names."""
OF_MEMORY = re.compile(r"dram.{0,12}(throughput|bandwidth)", re.IGNORECASE)
OF_ARITHMETIC = re.compile(r"sm__throughput|tensor.{0,40}active|sm.{0,6}issue|inst_executed_pipe", re.IGNORECASE)
PERCENT = 100


def sampled_bounds(timed: Timed) -> U8:
    """For each device op what limits kernels of its name as counters sampled while they ran say, as a `Bound`; UNKNOWN
    where too few samples fell into them, or no unit was near its peak."""
    ops, table, strings = timed.trace.device_ops, timed.trace.gpu_metrics, timed.trace.strings
    result = np.full(len(ops), int(Bound.UNKNOWN), np.uint8)
    if not len(table) or not len(ops):
        return result
    row = _running(timed, table.start, table.device)
    reached = {bound: _reached(timed, row, _named(strings, telling)) for bound, telling in KINDS.items()}
    memory, arithmetic = reached[Bound.MEMORY], reached[Bound.COMPUTE]
    for code in memory.keys() | arithmetic.keys():
        most = max((memory.get(code, 0.0), int(Bound.MEMORY)), (arithmetic.get(code, 0.0), int(Bound.COMPUTE)))
        if most[0] >= NEAR * PERCENT:
            result[timed.linked.is_kernel & (ops.name == code)] = most[1]
    return result


KINDS = {Bound.MEMORY: OF_MEMORY, Bound.COMPUTE: OF_ARITHMETIC}


def _named(strings: list[str], telling: re.Pattern[str]) -> Bool:
    return np.array([bool(telling.search(text) and SHARE.search(text)) for text in strings], bool)


def _reached(timed: Timed, row: I64, wanted: Bool) -> dict[int, float]:
    """For each kernel name the mean of the largest of these counters, where enough samples fell into its kernels."""
    table, names = timed.trace.gpu_metrics, timed.trace.device_ops.name
    result: dict[int, float] = {}
    for counter in np.flatnonzero(wanted).tolist():
        mine = (table.name == counter) & (row >= 0)
        codes, inverse, count = np.unique(names[row[mine]], return_inverse=True, return_counts=True)
        total = np.bincount(inverse, weights=table.value[mine], minlength=len(codes))
        for code, number, value in zip(codes.tolist(), count.tolist(), total.tolist(), strict=True):
            if number >= MIN_SAMPLES:
                result[code] = max(result.get(code, 0.0), value / number)
    return result


def _running(timed: Timed, time: I64, device: I32) -> I64:
    """The op that ran at each of these times and through the time since the sample before, alone on its device; -1
    where there was none, or another beside it."""
    result = np.full(len(time), -1, np.int64)
    for number in timed.activity:
        mine = np.flatnonzero((device == number) | (device < 0))
        moments = distinct(time[mine])
        period = int(np.median(np.diff(moments))) if len(moments) > 1 else 0
        owner = alone_through(timed, timed.trace.device_ops.device == number, time[mine] - period, time[mine])
        result[mine[owner >= 0]] = owner[owner >= 0]
    return result
