"""Counters that a recorder sampled over time, joined with steps and kernels.

A sample is the mean over the sampling period that ends at its time. It is a kernel's where the
kernel ran through all of that period and nothing else did; kernels shorter than the period have
none: they are unsampled."""

import re

import numpy as np

from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import F64, I64, Bool, distinct

# counters of `nsys profile --gpu-metrics-devices`, and the same ones by their names in CUPTI
ROLES = {
    "sm_active": regex(r"^SMs? Active|^sm__cycles_active", re.IGNORECASE),
    "warps": regex(r"^Compute Warps in Flight|^sm__warps_active", re.IGNORECASE),
    "tensor": regex(r"^Tensor Active|^sm__.*pipe_tensor.*cycles_active", re.IGNORECASE),
    "dram": regex(r"^(DRAM|HBM) (Throughput|Bandwidth|BW)|^dram__throughput", re.IGNORECASE),
    "dram_read": regex(r"^(DRAM|HBM) Read|^dram__read_throughput", re.IGNORECASE),
    "dram_write": regex(r"^(DRAM|HBM) Write|^dram__write_throughput", re.IGNORECASE),
}
PERCENT = regex(
    r"%|pct"
)  # in names of shares of the hardware's peak; others count cycles, bytes or warps
SHOWN = frozenset(("sm_active", "tensor", "dram"))  # what kernels and steps are told of
MIN_STEP_SAMPLES = 3  # a step with fewer has no mean: each may hold as much of its neighbours


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of one device, by what they say: times, ns, and shares of the peak, 0..1."""

    period_ns: int  # median time from one sample to the next
    time: dict[str, I64]
    value: dict[str, F64]

    def mean(self, role: str, start: int, end: int, least: int = 1) -> float | None:
        """Mean of the samples of a time; None where there are fewer than `least`."""
        if role == "dram" and role not in self.time:
            parts = (
                self.mean("dram_read", start, end, least),
                self.mean("dram_write", start, end, least),
            )
            return None if None in parts else sum(part or 0.0 for part in parts)
        if role not in self.time:
            return None
        low, high = np.searchsorted(self.time[role], (start, end), side="right")
        return float(self.value[role][low:high].mean()) if high - low >= least else None

    def count(self, start: int, end: int) -> int:
        """Samples of a time, of the counter with most."""
        times = self.time.values()
        inside = (np.searchsorted(time, (start, end), side="right") for time in times)
        return max((int(high - low) for low, high in inside), default=0)


def samples_of(timed: Timed, device: int) -> Samples | None:
    """The samples of a device; None where there are none that are shares of a peak."""
    table = timed.trace.gpu_metrics
    strings = timed.trace.strings
    of_device = np.flatnonzero((table.device == device) | (table.device < 0))
    time: dict[str, I64] = {}
    value: dict[str, F64] = {}
    for role, name in _named(strings, distinct(table.name[of_device]).tolist()).items():
        rows = of_device[table.name[of_device] == name]
        time[role] = table.start[rows]
        value[role] = table.value[rows] / 100.0
    intervals = (np.diff(one) for one in time.values() if len(one) > 1)
    periods = [np.median(interval) for interval in intervals]
    return Samples(int(min(periods)), time, value) if periods and min(periods) > 0 else None


def _named(strings: list[str], codes: list[int]) -> dict[str, int]:
    """For each role the counter that has it: the first by name, where several do."""
    names = sorted(
        (strings[code], code) for code in codes if code >= 0 and PERCENT.search(strings[code])
    )
    found = {
        role: next((code for name, code in names if test.search(name)), -1)
        for role, test in ROLES.items()
    }
    return {role: code for role, code in found.items() if code >= 0}


@dataclass(frozen=True, eq=False)
class SampledOps:
    """For each device op how many samples are its own, and the sum of their shares by role."""

    count: I64
    total: dict[str, F64]


def sampled_ops(timed: Timed) -> SampledOps | None:
    """The samples of each device op; None where no counters were sampled."""
    size = len(timed.trace.device_ops)
    count = np.zeros(size, np.int64)
    total = dict[str, F64]()
    any_ = False
    for device in timed.activity:
        samples = samples_of(timed, device)
        if samples is None:
            continue
        any_ = True
        counted = _by_role(timed, timed.trace.device_ops.device == device, samples)
        if "dram" not in counted and {"dram_read", "dram_write"} <= counted.keys():
            times, read = counted["dram_read"]
            counted["dram"] = (times, read + counted["dram_write"][1])
        count += np.max([own for own, _ in counted.values()], axis=0)
        for role in SHOWN & counted.keys():
            total[role] = total.get(role, np.zeros(size)) + counted[role][1]
    return SampledOps(count, total) if any_ else None


def _by_role(timed: Timed, on_device: Bool, samples: Samples) -> dict[str, tuple[I64, F64]]:
    """For each op of a device how many samples are its own, and the sum of their values."""
    size = len(on_device)
    result = {}
    for role, time in samples.time.items():
        owner = alone_through(timed, on_device, time - samples.period_ns, time)
        claimed = owner >= 0
        count = np.bincount(owner[claimed], minlength=size).astype(np.int64)
        total = np.bincount(owner[claimed], samples.value[role][claimed], size)
        result[role] = (count, total.astype(np.float64))
    return result


def alone_through(timed: Timed, on_device: Bool, start: I64, end: I64) -> I64:
    """The device op that ran through all of each of these times with no other op beside it, else
    -1."""
    ops = timed.trace.device_ops
    rows = np.flatnonzero(on_device)
    begin = ops.start[rows]
    finish = ops.end[rows]
    longest = np.maximum.accumulate(finish)
    # of those that had begun, the one that ends last
    last = np.maximum.accumulate(np.where(finish == longest, np.arange(len(rows)), 0))
    begun = np.searchsorted(begin, end, side="left")
    ended = np.searchsorted(np.sort(finish), start, side="right")
    latest = last[np.maximum(begun - 1, 0)]
    alone = (begun - ended == 1) & (begun > 0)
    through = alone & (begin[latest] <= start) & (finish[latest] >= end)
    return np.where(through, rows[latest], -1)
