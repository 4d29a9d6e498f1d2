"""How long a device op takes when it has more or less to do, or runs on another GPU.

A kernel takes a time to start and to drain whatever it does, and beyond that a time that goes with
its work once it fills the GPU. Before it fills the GPU more work runs beside the rest: with w waves
of blocks it goes as sqrt(1 + w^2). Products reach their rate slowly, with the root of their
size. What fits the last cache moves faster than the device memory. No kernel is faster than its
arithmetic and traffic allow."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.roofline.bounds import NO
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.base import NS_PER_S, dataclass
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.row_sums import parted_ns
from traceanalyzer.replay.unmade.work import Loads, OpLoad
from traceanalyzer.trace import F64, Bool
from traceanalyzer.trace.hardware import Hardware

START_NS = {
    "gemm": 2_500.0,
    "convolution": 2_500.0,
    "attention": 3_000.0,
    "recurrent": 2_500.0,
    "normalisation": 2_000.0,
    "reduction": 2_300.0,
    "softmax": 1_400.0,
    "layout": 1_700.0,
    "memcpy": 1_200.0,
    "memset": 1_000.0,
}
"""What the shortest kernels of each class take on H100 and H200, whatever they do (medians of 24,000
kernels of recorded programs)."""
OTHER_START_NS = 1_300.0
MOST_START = 0.85
"""Share of a kernel's time that its start takes at most."""
SLOPE = 1.15
ROOT_NS = 45.0
"""What products take beyond their start: 1.15 of the ideal time and 45 ns times the root of it in
ns (fitted to 4,000 products on H100 and H200, from 1 us to 9 ms)."""
FULL_NS = 1_000.0
"""Ideal time from which a kernel of other kinds fills the GPU, where its blocks do not tell."""
FEW_WAVES = 0.5
"""Waves below which a product that takes longer than the curve says leaves most of the GPU empty;
of larger ones it is slow by itself."""
LOOPING = 16
"""Elements a thread from which on a kernel's threads loop, and more data makes no more blocks."""
IN_CACHE = 1.6
"""How many times faster than the device memory the last cache moves what fits it."""
CACHED = 0.5
UNCACHED = 1.5
"""Parts of the last cache up to which data is found there, and from which on none is."""
OF_BANDWIDTH = 0.6
"""Share of the memory's bandwidth from which on a kernel is limited by it."""
BEST = 1.03
"""Times the ideal time that the best kernel takes ..."""
STARTED = 0.5
"""... beyond this part of its start: what has more to do starts while the rest runs."""


@dataclass(frozen=True, eq=False)
class GpuLimits:
    """What each op's GPU can do at most; NaN where it is not known."""

    peak: F64
    bandwidth: F64
    cache: F64


def limits_on(
    tape: Tape, gpus: dict[int, Hardware | None], formats: NDArray[np.int8] | None = None
) -> GpuLimits:
    """The limits of each op on these GPUs, by the devices of the recording, in these number formats
    (None: those recorded)."""
    source = tape.source
    device = source.trace.device_ops.device[tape.row]
    recorded = source.roofline.precision[tape.row]
    precision = recorded if formats is None else formats
    on_cores = (source.roofline.tensor == NO)[tape.row] & (precision == recorded)
    matrix = source.linked.is_matrix[tape.row]
    peak = np.full(len(device), np.nan)
    bandwidth = np.full(len(device), np.nan)
    cache = np.full(len(device), np.nan)
    for number, gpu in gpus.items():
        if gpu is None:
            continue
        of_device = device == number
        bandwidth[of_device] = gpu.bandwidth
        cache[of_device] = gpu.cache_bytes or np.nan
        plain = gpu.vector.get("fp32", np.nan)
        peak[of_device] = plain
        for format_ in Precision:
            rate = gpu.matrix_peak(format_.name.lower())
            peak[of_device & matrix & ~on_cores & (precision == format_)] = rate or plain
    return GpuLimits(peak, bandwidth, cache)


def ideal_ns(load: OpLoad, limits: GpuLimits) -> F64:
    """The greater of arithmetic and traffic at the limits, ns; 0 where neither is known."""
    arithmetic = np.nan_to_num(load.flops / limits.peak)
    traffic = np.nan_to_num(load.bytes / (limits.bandwidth * _speed_up(load.bytes, limits)))
    return np.fmax(arithmetic, traffic) * NS_PER_S


def _speed_up(bytes_: F64, limits: GpuLimits) -> F64:
    """How many times faster than from the device memory data of this size moves."""
    part = np.nan_to_num(bytes_ / limits.cache, nan=UNCACHED)
    cached = np.clip((UNCACHED - part) / (UNCACHED - CACHED), 0.0, 1.0)
    return 1.0 + (IN_CACHE - 1.0) * cached


def start_ns(tape: Tape) -> F64:
    """The part of each op's time that does not go with its work."""
    classes = tape.source.linked.classes.names
    usual = np.array([START_NS.get(name, OTHER_START_NS) for name in classes])
    start = usual[tape.source.linked.op_class[tape.row]]
    return np.minimum(start, MOST_START * tape.duration)


def resized_ns(tape: Tape, loads: Loads, limits: GpuLimits) -> F64:
    """The time of each op with its other work, ns."""
    time = tape.duration.astype(np.float64)
    start = start_ns(tape)
    matrix = tape.source.linked.is_matrix[tape.row] & np.isfinite(loads.now.flops)
    now = ideal_ns(loads.now, limits)
    then = ideal_ns(loads.then, limits)
    filled = _filled(tape, loads, limits)
    rest = time - start
    waves = _waves(tape, loads, limits)
    few = np.where(waves < FEW_WAVES, filled, product_growth(now, then))
    products = _products_ns(rest, now, then, few)
    others = rest * filled * _out_of_cache(tape, loads, limits)
    predicted = start + np.where(matrix & np.isfinite(products), products, others)
    least = np.where(then > now, BEST * then + STARTED * start, 0.0)
    result: F64 = np.where(_is_same_work(loads), time, np.maximum(predicted, least))
    parted = parted_ns(tape, loads, limits.bandwidth)
    return np.where(np.isfinite(parted), np.minimum(start + parted, result), result)


def _is_same_work(loads: Loads) -> Bool:
    unchanged = np.abs(loads.growth - 1.0) < 1e-9
    flops_now = np.nan_to_num(loads.now.flops)
    return unchanged & (np.nan_to_num(loads.then.flops) == flops_now)


def _products_ns(rest: F64, now: F64, then: F64, beyond: F64) -> F64:
    """What products take beyond their start with these ideal times: what the curve explains of the
    recorded `rest` goes along it, what is beyond it grows as `beyond`; NaN where the ideal time is
    not known."""
    by_curve = _curve_ns(now)
    known = by_curve > 0
    along = np.minimum(rest / np.where(known, by_curve, 1.0), 1.0) * _curve_ns(then)
    slow = np.maximum(rest - by_curve, 0.0) * beyond
    return np.where(known, along + slow, np.nan)


def _curve_ns(ideal: F64) -> F64:
    """What products of this ideal time take beyond their start."""
    return SLOPE * ideal + ROOT_NS * np.sqrt(ideal)


def product_growth(now: F64, then: F64) -> F64:
    """How many times longer products take beyond their start, from these ideal times to those; NaN
    where the first is not known."""
    known = now > 0
    now_ns = np.where(known, _curve_ns(now), 1.0)
    return np.where(known, _curve_ns(then) / now_ns, np.nan)


def _filled(tape: Tape, loads: Loads, limits: GpuLimits) -> F64:
    """How many times longer kernels take beyond their start, as they fill the GPU."""
    waves = _waves(tape, loads, limits)
    return np.sqrt(1.0 + (waves * loads.growth) ** 2) / np.sqrt(1.0 + waves**2)


def _out_of_cache(tape: Tape, loads: Loads, limits: GpuLimits) -> F64:
    """How many times slower data moves that no longer fits the cache, for what the memory
    limits."""
    time = np.maximum(tape.duration, 1)
    limited = np.clip(ideal_ns(loads.now, limits) / time / OF_BANDWIDTH, 0.0, 1.0)
    slower = _speed_up(loads.now.bytes, limits) / _speed_up(loads.then.bytes, limits)
    return slower**limited


def _waves(tape: Tape, loads: Loads, limits: GpuLimits) -> F64:
    """How far each op fills the GPU: waves of its blocks, else its ideal time over that of an op
    that fills it."""
    ops = tape.source.trace.device_ops
    waves = tape.source.roofline.waves[tape.row]
    block_threads = np.maximum(ops.threads[tape.row], 1)
    threads = ops.blocks[tape.row] * block_threads.astype(np.float64)
    each = loads.now.elements / np.where(threads > 0, threads, np.nan)
    looping = np.nan_to_num(each) > LOOPING
    by_size = ideal_ns(loads.now, limits) / FULL_NS
    by_blocks = ~looping | tape.source.linked.is_matrix[tape.row]
    known = np.isfinite(waves) & by_blocks & ~tape.copy
    of_copies = np.where(tape.copy, np.inf, by_size)
    most = 1e6
    return np.minimum(np.where(known, waves, of_copies), most)


def on_gpu_ns(
    tape: Tape, time: F64, load: OpLoad, limits_now: GpuLimits, limits_then: GpuLimits
) -> F64:
    """The time of each op on another GPU, ns: what is limited by the memory goes with its
    bandwidth, the rest beyond the start with the rate of its cores."""
    start = np.minimum(start_ns(tape), MOST_START * time)
    from_memory = load.bytes > CACHED * np.nan_to_num(limits_now.cache)
    traffic = np.nan_to_num(load.bytes / limits_now.bandwidth) * NS_PER_S * from_memory
    arithmetic = np.nan_to_num(load.flops / limits_now.peak) * NS_PER_S
    limited = np.clip(traffic / np.maximum(time, 1.0) / OF_BANDWIDTH, 0.0, 1.0)
    limited = np.where(arithmetic > traffic, 0.0, limited)
    of_cores = np.nan_to_num(limits_now.peak / limits_then.peak, nan=1.0)
    of_memory = np.nan_to_num(limits_now.bandwidth / limits_then.bandwidth, nan=1.0)
    ratio = (1.0 - limited) * of_cores + limited * of_memory
    moved = start + (time - start) * ratio
    stays = tape.copy | tape.communication
    return np.where(stays, time, moved)


def changed(loads: Loads) -> Bool:
    """Which ops have more or less to do."""
    return np.abs(np.log(np.maximum(loads.growth, 1e-9))) > 1e-6
