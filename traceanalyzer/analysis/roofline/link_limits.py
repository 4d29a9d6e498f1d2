"""Least time of what moves data between memories: copies, memsets and collectives, at the rate of what carries them."""

import numpy as np

from traceanalyzer.analysis.algebra import one_of
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.collectives import KINDS, bus_factor
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import F64, I32, I64, CopyKind, DeviceOpKind

NODE_GPUS = 8
"""Ranks of a group beyond this many do not all share one node's links (GB200 racks aside), and the network's rate
is not in any datasheet of the GPU."""

HOST_COPIES = (
    CopyKind.HOST_TO_DEVICE,
    CopyKind.DEVICE_TO_HOST,
    CopyKind.UNIFIED_HOST_TO_DEVICE,
    CopyKind.UNIFIED_DEVICE_TO_HOST,
)


def copy_traffic(linked: Linked) -> tuple[F64, F64]:
    """For each device op the bytes it moves (a copy within the device reads and writes them, a memset writes) and
    the bandwidth of what carries them, bytes/s; NaN for kernels and where size or rate is not known."""
    ops = linked.trace.device_ops
    traffic, rate = np.full(len(ops), np.nan), np.full(len(ops), np.nan)
    within = (ops.kind == DeviceOpKind.MEMCPY) & (ops.copy_kind == CopyKind.DEVICE_TO_DEVICE)
    host = (ops.kind == DeviceOpKind.MEMCPY) & one_of(ops.copy_kind, HOST_COPIES)
    peer = (ops.kind == DeviceOpKind.MEMCPY) & (ops.copy_kind == CopyKind.PEER_TO_PEER)
    cleared = ops.kind == DeviceOpKind.MEMSET
    for rows, factor, limit in (
        (within, 2, "bandwidth"),
        (cleared, 1, "bandwidth"),
        (host, 1, "host"),
        (peer, 1, "link"),
    ):
        traffic[rows] = factor * np.where(ops.bytes[rows] >= 0, ops.bytes[rows], np.nan)
        rate[rows] = linked.limit(limit)[rows]
    return traffic, rate


def collective_traffic(timed: Timed) -> tuple[F64, F64]:
    """For each kernel of a collective the bytes that its GPU has to send over its links, and their bandwidth.

    Message times NCCL's bus factor (2(n-1)/n for all_reduce, ...); the kernels of one call share it by time. NaN
    where message, group or link is not known, or the group spans more than a node.
    """
    ops, calls = timed.trace.device_ops, timed.collective_calls
    if not len(calls):
        return np.broadcast_to(np.nan, len(ops)), np.broadcast_to(np.nan, len(ops))
    traffic, rate = np.full(len(ops), np.nan), np.full(len(ops), np.nan)
    size = np.append(timed.trace.collectives.group_size, np.int32(-1))[calls.metadata]
    factor = [bus_factor(KINDS[kind], int(n)) for kind, n in zip(calls.kind, size, strict=True)]
    bus = np.array([np.nan if f is None else f for f in factor])
    sent = np.where((calls.bytes > 0) & (size > 1) & (size <= NODE_GPUS), calls.bytes * bus, np.nan)
    traffic[calls.kernels] = (sent[calls.of_kernel]) * share_of_group(
        ops.end - ops.start, calls.kernels, calls.of_kernel
    )
    rate[calls.kernels] = timed.linked.limit("link")[calls.kernels]
    return traffic, rate


def share_of_group(duration: I64, rows: I64, group: I32 | I64) -> F64:
    """Share of each of these device ops in the time of its group (equal shares where that is none)."""
    time = duration[rows].astype(np.float64)
    total = np.bincount(group, weights=time, minlength=int(group.max(initial=-1)) + 1)
    count = np.bincount(group, minlength=len(total))
    return np.where(total[group] > 0, time / np.maximum(total[group], 1), 1 / np.maximum(count[group], 1))
