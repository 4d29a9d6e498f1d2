"""How blocks of kernels fill the GPU: as many at a time as threads, registers and shared memory of
its SMs allow.

What the recorder worked out itself comes first; else it follows from the launch configuration and
the GPU's limits."""

import numpy as np

from traceanalyzer.analysis.algebra import Coded, Groups, dedup_constant, dictionary_encoded
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.base import dataclass
from traceanalyzer.trace import F64, I32, I64, U8
from traceanalyzer.trace.hardware import WARP


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
    incomplete = np.isnan(recorded) | (ops.limits == 0)
    rows = np.flatnonzero((ops.threads > 0) & incomplete)
    blocks, limits = _by_launch(linked, rows)
    unknown = np.isnan(recorded[rows])
    recorded[rows] = np.where(unknown, blocks, recorded[rows])
    stated[rows] = np.where(stated[rows] == 0, limits, stated[rows])
    return Residence(dictionary_encoded(recorded), dedup_constant(stated))


def _by_launch(linked: TraceJoins, rows: I64) -> tuple[F64, U8]:
    """Blocks of these kernels that an SM holds by their launch configuration (NaN unknown), and the
    `OccupancyLimit` flags of what keeps more from it."""
    ops = linked.trace.device_ops
    columns = (ops.device, ops.threads, ops.registers, ops.shared_bytes)
    launched = [column[rows] for column in columns]
    kinds = Groups.of(*launched)
    blocks = np.full(len(kinds), np.nan)
    limits = np.zeros(len(kinds), np.uint8)
    firsts = (column[kinds.first].tolist() for column in launched)
    for kind, (device, *shape) in enumerate(zip(*firsts, strict=True)):
        gpu = linked.gpus.get(device)
        resident = gpu.resident_blocks(*shape) if gpu is not None else None
        if gpu is not None and resident:
            blocks[kind] = resident
            limits[kind] = gpu.occupancy_limits(*shape)
    return blocks[kinds.index], limits[kinds.index]


def waves_of(linked: TraceJoins) -> F64:
    """Blocks of each kernel over the blocks that the GPU holds at a time, NaN where not known."""
    ops = linked.trace.device_ops
    held = linked.memo(residence_of).blocks[:] * linked.limit("sms")
    known = (ops.blocks > 0) & (held > 0)
    return np.where(known, ops.blocks / np.where(held > 0, held, 1), np.nan)


def occupancy_of(linked: TraceJoins, rows: I32 | I64) -> F64:
    """Share of an SM's warps that each of these kernels keeps resident: as the recorder expected it
    (in whole percents, 0 where it cannot tell), else from the blocks that an SM holds, or gets of a
    small grid; NaN: not known."""
    ops = linked.trace.device_ops
    expected = ops.occupancy[rows]
    launched = ops.blocks[rows]
    threads = -(-np.maximum(ops.threads[rows], 0) // WARP) * WARP  # of whole warps
    recorded = np.where(expected > 0, expected / 100, np.nan)
    on_each = np.where(launched > 0, launched, np.nan) / linked.limit("sms")[rows]
    held = np.minimum(linked.memo(residence_of).blocks[rows], on_each)
    resident = np.minimum(held * threads / linked.limit("threads_per_sm")[rows], 1.0)
    return np.where(np.isnan(recorded), resident, recorded)


def resident_blocks(linked: TraceJoins, waves: F64) -> F64:
    """Blocks of each kernel that the GPU holds at a time: one an SM where that is not known
    better."""
    blocks = linked.trace.device_ops.blocks
    held = np.full(len(blocks), np.nan)
    np.divide(blocks, waves, out=held, where=waves > 0)
    return np.where(np.isfinite(held), held, linked.limit("sms"))
