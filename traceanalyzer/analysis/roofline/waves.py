"""How blocks of kernels fill the GPU: as many at a time as threads, registers and shared memory of its SMs allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from traceanalyzer.analysis.joined.linked import Linked
    from traceanalyzer.trace import F64


def waves_of(linked: Linked) -> F64:
    """Blocks of each kernel over the blocks that the GPU holds at a time, NaN where not known."""
    ops = linked.trace.device_ops
    result = np.full(len(ops), np.nan)
    rows = np.flatnonzero((ops.blocks > 0) & (ops.threads > 0))
    if not len(rows):
        return result
    shapes = np.stack((ops.device, ops.threads, ops.registers, ops.shared_bytes))[:, rows]
    distinct, inverse = np.unique(shapes, axis=1, return_inverse=True)
    capacity = np.full(distinct.shape[1], np.nan)
    for i, (device, threads, registers, shared) in enumerate(distinct.T.tolist()):
        gpu = linked.gpus.get(device)
        resident = gpu.resident_blocks(threads, registers, shared) if gpu else None
        if gpu and gpu.sms and resident:
            capacity[i] = gpu.sms * resident
    result[rows] = ops.blocks[rows] / capacity[inverse.reshape(-1)]
    return result


def resident_blocks(linked: Linked, waves: F64) -> F64:
    """Blocks of each kernel that the GPU holds at a time: one an SM where that is not known better."""
    blocks = linked.trace.device_ops.blocks
    held = np.divide(blocks, waves, out=np.full(len(blocks), np.nan), where=waves > 0)
    return np.where(np.isfinite(held), held, linked.limit("sms"))
