"""Sampled hardware counters while the GPU was busy: what a recording itself measured of its limits."""

from __future__ import annotations

import re

from traceanalyzer.analysis.algebra.intervals import clip, contains
from traceanalyzer.analysis.roofline.sampled_bounds import MIN_SAMPLES
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace.distinct import distinct

TELLING = re.compile(
    r"dram|tensor|sm.{0,12}(active|issue|throughput)|sms active|fp(16|32|64)|nvlink|pcie", re.IGNORECASE
)
"""Counters of what can limit a kernel."""


def busy_counters(timed: Timed) -> list[tuple[str, float, int]]:
    """Name, mean and number of samples of each telling counter, over the time in steady steps in which the device that
    they speak of was busy."""
    table = timed.trace.gpu_metrics
    if timed.device is None or not len(table):
        return []
    steps = timed.steps
    busy = clip(timed.activity[timed.device].busy, (int(steps.start[steps.warmup]), int(steps.end[-1])))
    inside = contains(busy, table.start)
    inside &= (table.device == timed.device) | (table.device < 0)
    found = []
    for code in distinct(table.name[inside]).tolist():
        values = table.value[inside & (table.name == code)]
        name = timed.trace.strings[code]
        if len(values) >= MIN_SAMPLES and TELLING.search(name):
            found.append((name, float(values.mean()), len(values)))
    return found
