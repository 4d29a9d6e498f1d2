"""How blocks of kernels fill the GPU: as many at a time as threads, registers and shared memory of
its SMs allow.

What the recorder worked out itself comes first; else it follows from the launch configuration and
the GPU's limits."""

import numpy as np

from traceanalyzer.analysis.algebra import Coded, Groups, dedup_constant, dictionary_encoded
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, U8


@dataclass(frozen=True, eq=False)
class Residence:
    """For each device op how many of its blocks an SM holds (NaN unknown), and what keeps more from
    it."""

    blocks: F64 | Coded
    limits: U8  # `OccupancyLimit` flags, 0 unknown


def residence_of(linked: TraceJoins) -> Residence:
    """How many blocks of each kernel an SM holds at a time."""
    ops = linked.trace.device_ops
    recorded = np.where(ops.resident_blocks > 0, ops.resident_blocks, np.nan)
    stated = ops.limits.copy()
    rows = np.flatnonzero((ops.threads > 0) & (np.isnan(recorded) | (ops.limits == 0)))
    launched = [
        column[rows] for column in (ops.device, ops.threads, ops.registers, ops.shared_bytes)
    ]
    kinds = Groups.of(*launched)
    blocks = np.full(len(kinds), np.nan)
    limits = np.zeros(len(kinds), np.uint8)
    for i, (device, *shape) in enumerate(
        zip(*(column[kinds.first].tolist() for column in launched), strict=True)
    ):
        gpu = linked.gpus.get(device)
        if gpu is not None and (resident := gpu.resident_blocks(*shape)):
            blocks[i], limits[i] = resident, gpu.occupancy_limits(*shape)
    recorded[rows] = np.where(np.isnan(recorded[rows]), blocks[kinds.index], recorded[rows])
    stated[rows] = np.where(stated[rows] == 0, limits[kinds.index], stated[rows])
    return Residence(dictionary_encoded(recorded), dedup_constant(stated))


def waves_of(linked: TraceJoins) -> F64:
    """Blocks of each kernel over the blocks that the GPU holds at a time, NaN where not known."""
    ops = linked.trace.device_ops
    held = linked.memo(residence_of).blocks[:] * linked.limit("sms")
    return np.where((ops.blocks > 0) & (held > 0), ops.blocks / np.where(held > 0, held, 1), np.nan)


def occupancy_of(linked: TraceJoins, rows: I32 | I64) -> F64:
    """Share of an SM's warps that each of these kernels keeps resident: as the recorder expected it
    (in whole percents, 0 where it cannot tell), else from the blocks that an SM holds, or gets of a
    small grid; NaN: not known."""
    ops = linked.trace.device_ops
    expected = ops.occupancy[rows]
    launched = ops.blocks[rows]
    threads = np.maximum(ops.threads[rows], 0)
    recorded = np.where(expected > 0, expected / 100, np.nan)
    on_each = np.where(launched > 0, launched, np.nan) / linked.limit("sms")[rows]
    held = np.minimum(linked.memo(residence_of).blocks[rows], on_each)
    resident = np.minimum(held * threads / linked.limit("threads_per_sm")[rows], 1.0)
    return np.where(np.isnan(recorded), resident, recorded)


def resident_blocks(linked: TraceJoins, waves: F64) -> F64:
    """Blocks of each kernel that the GPU holds at a time: one an SM where that is not known
    better."""
    blocks = linked.trace.device_ops.blocks
    held = np.divide(blocks, waves, out=np.full(len(blocks), np.nan), where=waves > 0)
    return np.where(np.isfinite(held), held, linked.limit("sms"))
