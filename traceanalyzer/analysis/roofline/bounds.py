"""What limits a kernel: the ceiling of the GPU that it runs nearest to, or none of them."""

import enum
import re

import numpy as np

from traceanalyzer.analysis.time.sampled import alone_through
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import F64, I32, I64, U8, Bool, distinct

NEAR = 0.6
"""Share of a ceiling from which it limits a kernel: below 60 % of both compute and memory Nsight
Compute's own rule speaks of latency ("GPU Speed Of Light Throughput")."""
NEAR_TENSOR_PEAK = 0.55
"""The same for tensor cores, whose datasheet peak is at boost clock: power lets kernels that use
them run below it, so that near this line their FLOPs over the peak are 0.90 to 0.96 of the share of
cycles that the cores are busy (five kernels on an H200, at 1.73 to 1.79 of 1.98 GHz)."""


class Bound(enum.IntEnum):
    """What limits a device op: arithmetic that FLOPs count (COMPUTE), the device memory's
    bandwidth, nothing but too little work to fill the GPU, steps that wait for each other or
    scattered accesses (LATENCY: near no ceiling), PCIe, NVLink or another connection (LINK), or
    issuing instructions that are no FLOPs, such as conversions."""

    UNKNOWN, COMPUTE, MEMORY, LATENCY, LINK, INSTRUCTIONS = range(6)

    @property
    def label(self) -> str | None:
        """As reports name it; None where it is not known."""
        return None if self is Bound.UNKNOWN else self.name.lower()


@dataclass(frozen=True, eq=False)
class Reached:
    """Shares of its ceilings that each device op reaches, 0..1, NaN where not known."""

    arithmetic: F64
    tensor: Bool  # whether the arithmetic is that of tensor cores
    instructions: F64
    memory: F64  # expected traffic; 0 where the cache has the data


ORDINARY_CORES = regex(
    r"simt|ffma|(?<![a-z])sgemm|(?<![a-z])dgemm(?!.{0,1000}tensorop)|_f32f32_f32f32_|gemv|gemmSN|dot_kernel|implicit_convolve_sgemm"
    r"|winograd(?!.{0,1000}(?:tensorop|hmma|mma))",
    re.IGNORECASE,
)
TENSOR_CORES = regex(
    r"tensorop|wgmma|gmma|hmma|imma|[_-]mma|xmma|tcgen05|umma|utcmma|nvjet|1688|16816|16832|s884|h884|flash|fmha"
    r"|mfma|_MI\d+x\d+|sdpa_sm\d+|tf32",
    re.IGNORECASE,
)
YES = 1
NO = 0
UNKNOWN = -1
MIN_SAMPLES = 20  # fewer samples tell nothing of a step, or of a kernel
SHARE = regex(
    r"%|pct", re.IGNORECASE
)  # counters that are shares of the hardware's peak say so in their names
OF_MEMORY = regex(r"dram.{0,12}(throughput|bandwidth)", re.IGNORECASE)
OF_ARITHMETIC = regex(
    r"sm__throughput|tensor.{0,40}active|sm.{0,6}issue|inst_executed_pipe", re.IGNORECASE
)


def bounds(shares: Reached) -> U8:
    """The `Bound` of each device op: the ceiling that it is nearest to, in parts of what counts as
    near."""
    near = np.where(shares.tensor, NEAR_TENSOR_PEAK, NEAR)
    most = np.nan_to_num(shares.arithmetic / near)
    nearest = np.full(len(most), Bound.COMPUTE, np.uint8)
    for kind, share in ((Bound.INSTRUCTIONS, shares.instructions), (Bound.MEMORY, shares.memory)):
        reached = np.nan_to_num(share / NEAR)
        nearest[reached > most] = kind
        np.maximum(most, reached, out=most)
    nearest[~(most >= 1)] = Bound.LATENCY
    return nearest


def measured_bound(compute_share: float, memory_share: float, *, matrix: bool) -> Bound:
    """What limits a kernel by its measured use of the SMs and of the device memory; `matrix`
    kernels keep the SMs busy with arithmetic, others with instructions of all kinds."""
    if max(compute_share, memory_share) < NEAR:
        return Bound.LATENCY
    if memory_share >= compute_share:
        return Bound.MEMORY
    return Bound.COMPUTE if matrix else Bound.INSTRUCTIONS


def tensor_cores(name: str) -> int:
    """Whether a matrix kernel of this name uses tensor (matrix) cores: YES, NO or UNKNOWN."""
    if ORDINARY_CORES.search(name):
        return NO
    return YES if TENSOR_CORES.search(name) else UNKNOWN


def sampled_bounds(timed: Timed) -> U8:
    """For each device op what limits kernels of its name as counters sampled while they ran say, as
    a `Bound`; UNKNOWN where too few samples fell into them, or no unit was near its peak."""
    ops = timed.trace.device_ops
    table = timed.trace.gpu_metrics
    result = np.full(len(ops), int(Bound.UNKNOWN), np.uint8)
    if not len(table) or not len(ops):
        return result
    row = _running(timed, table.start, table.device)
    memory, arithmetic = (_reached(timed, row, telling) for telling in (OF_MEMORY, OF_ARITHMETIC))
    for code in memory.keys() | arithmetic.keys():
        most = max(
            (memory.get(code, 0.0), int(Bound.MEMORY)),
            (arithmetic.get(code, 0.0), int(Bound.COMPUTE)),
        )
        if most[0] >= NEAR * 100:
            result[timed.linked.is_kernel & (ops.name == code)] = most[1]
    return result


def _reached(timed: Timed, row: I64, telling: re.Pattern[str]) -> dict[int, float]:
    """For each kernel name the mean of the largest of these counters, where enough samples fell
    into its kernels."""
    table = timed.trace.gpu_metrics
    names = timed.trace.device_ops.name
    result: dict[int, float] = {}
    for counter, text in enumerate(timed.trace.strings):
        if not telling.search(text) or not SHARE.search(text):
            continue
        measured = (table.name == counter) & (row >= 0)
        codes, inverse, count = np.unique(
            names[row[measured]], return_inverse=True, return_counts=True
        )
        mean = np.bincount(inverse, weights=table.value[measured], minlength=len(codes)) / count
        for place in np.flatnonzero(count >= MIN_SAMPLES).tolist():
            code = int(codes[place])
            result[code] = max(result.get(code, 0.0), float(mean[place]))
    return result


def _running(timed: Timed, time: I64, device: I32) -> I64:
    """The op that ran at each of these times and through the time since the sample before, alone on
    its device; -1 where there was none, or another beside it."""
    result = np.full(len(time), -1, np.int64)
    for number in timed.activity:
        sampled = np.flatnonzero((device == number) | (device < 0))
        moments = distinct(time[sampled])
        period = int(np.median(np.diff(moments))) if len(moments) > 1 else 0
        owner = alone_through(
            timed, timed.trace.device_ops.device == number, time[sampled] - period, time[sampled]
        )
        result[sampled[owner >= 0]] = owner[owner >= 0]
    return result
