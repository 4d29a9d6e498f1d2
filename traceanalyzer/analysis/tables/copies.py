"""Memory copies: between what memory, how fast, whether the host waited, and what of it nothing
hides."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, shared_time, texts_where
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.tables.syncs import op_path
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, metric, regex
from traceanalyzer.trace import F64, I32, I64, Bool, CopyKind, MemoryKind

STAGED_BYTES = 64_000
"""A synchronous copy to the device of up to this size returns as soon as its source has been staged
(NVIDIA's rule `cuda_memcpy_sync` leaves them out for that)."""
BANDWIDTH_BYTES = 1_000_000
"""Copies under this measure their own latency (microseconds), not the link."""
_SIZES = (
    (STAGED_BYTES, "up to 64 kB"),
    (1_000_000, "64 kB to 1 MB"),
    (64_000_000, "1 MB to 64 MB"),
)
"""Upper bound in bytes and title of each size class."""
_LARGEST = (np.inf, "over 64 MB")
_UNKNOWN = (-1, "not recorded")
_DIRECTIONS = {kind: kind.name.lower().replace("_", " ") for kind in CopyKind}
_STREAM_ORDERED = regex(r"Async|MemcpyBatch|GraphLaunch")
"""Names of calls that may return before their copy has been made."""


@dataclass(frozen=True)
class CopyStats:
    """Copies of one sort on one device, in the steady state."""

    rank: int | None = metric("rank of the process")
    device: int = metric("CUDA ordinal of the device")
    direction: str = metric("direction; host is CPU memory, device GPU memory")
    source_memory: str | None = metric("kind of memory read; null where not recorded")
    target_memory: str | None = metric("kind of memory written; null where not recorded")
    size: str = metric("range of sizes (1 MB is 1e6 bytes)")
    call: str | None = metric("API call that made them; null where not recorded")
    op: str | None = metric("operators around the call, outermost first")
    blocking: bool | None = metric(
        "whether the host waits for them: the call is synchronous, or the memory pageable, and it is not a copy to "
        "the device of up to 64,000 bytes; where the memory is not known, whether the call returned after the copy"
    )
    count: float = metric("copies a step")
    bytes: float | None = metric("bytes copied a step", "bytes")
    total_ms: float = metric("time of the copies a step (sum)")
    exposed_ms: float = metric(
        "part of it with neither compute nor collective on the device; time that n "
        "copies share counts 1/n for each"
    )
    bandwidth_gbs: float | None = metric(
        "bytes over time (1 GB is 1e9 bytes); null for copies under 1 MB, which measure latency"
    )


def copy_stats(timed: Timed) -> list[CopyStats]:
    """A row for each sort of copy, by exposed, then total time."""
    ops = timed.trace.device_ops
    rows = np.flatnonzero(timed.linked.is_copy & timed.steady_ops)
    exposed = _exposed(timed, rows)
    bounds = [bound for bound, _ in _SIZES]
    size = np.searchsorted(bounds, ops.bytes[rows])
    size[ops.bytes[rows] < 0] = -1
    columns = (ops.device, ops.copy_kind, ops.source_memory, ops.target_memory)
    kinds = [column[rows] for column in columns]
    groups = Groups.of(*kinds, size, *_asked_by(timed, rows)).rows
    table = [_row(timed, rows[group], float(exposed[group].sum())) for group in groups]
    return sorted(table, key=lambda row: (-row.exposed_ms, -row.total_ms))


def _exposed(timed: Timed, rows: I64) -> F64:
    """Time of each copy, ns, in which its device neither computed nor communicated, shared between
    copies."""
    ops = timed.trace.device_ops
    exposed = np.zeros(len(rows))
    for device, activity in timed.activity.items():
        of_device = ops.device[rows] == device
        copies = rows[of_device]
        alone = shared_time(ops.start[copies], ops.end[copies], activity.exposed_copy)
        exposed[of_device] = alone
    return exposed


def _asked_by(timed: Timed, rows: I64) -> tuple[I32, Bool, I32, I32]:
    """The call that made each copy, whether it waits, and the innermost and outermost operator
    around it."""
    tree = timed.linked.tree
    call = timed.linked.launch[rows]
    node = at(tree.node_of_call, call, -1)
    names = at(timed.trace.api_calls.name, call, -1)
    inner = tree.names(at(tree.operator, node, -1))
    outer = tree.names(at(tree.outer_operator, node, -1))
    return names, _waited_for(timed.joined, rows), inner, outer


def _row(timed: Timed, chosen: I64, exposed: float) -> CopyStats:
    ops = timed.trace.device_ops
    steps = timed.steps.steady_count
    first = int(chosen[0])
    call = int(timed.linked.launch[first])
    size = ops.bytes[chosen]
    known = bool((size >= 0).all())
    total = float((ops.end[chosen] - ops.start[chosen]).sum())
    fast_enough = known and total > 0 and bool((size >= BANDWIDTH_BYTES).all())
    name = None
    op = None
    blocking = None
    if call >= 0:
        name = timed.trace.text(int(timed.trace.api_calls.name[call]))
        op = op_path(timed.linked, int(timed.linked.tree.node_of_call[call]))
        blocking = bool(_waited_for(timed.joined, chosen[:1])[0])
    return CopyStats(
        rank=timed.trace.rank,
        device=int(ops.device[first]),
        direction=_DIRECTIONS[CopyKind(ops.copy_kind[first])],
        source_memory=_memory_name(int(ops.source_memory[first])),
        target_memory=_memory_name(int(ops.target_memory[first])),
        size=next(title for bound, title in (_UNKNOWN, *_SIZES, _LARGEST) if size[0] <= bound),
        call=name,
        op=op,
        blocking=blocking,
        count=len(chosen) / steps,
        bytes=float(size.sum()) / steps if known else None,
        total_ms=total / NS_PER_MS / steps,
        exposed_ms=exposed / NS_PER_MS / steps,
        bandwidth_gbs=float(size.sum()) / total if fast_enough else None,
    )


def _memory_name(kind: int) -> str | None:
    """The kind of memory in words; None where it was not recorded."""
    return MemoryKind(kind).name.lower() if kind else None


def _waited_for(joined: HostAttribution, rows: I64) -> Bool:
    """Which of these copies make the host wait until they are done."""
    ops = joined.trace.device_ops
    names = at(joined.trace.api_calls.name, joined.linked.launch[rows], -1)
    ordered = texts_where(joined.trace.strings, _STREAM_ORDERED.search)[names] | (names < 0)
    staged = (ops.copy_kind[rows] == CopyKind.HOST_TO_DEVICE) & (ops.bytes[rows] <= STAGED_BYTES)
    within = ops.copy_kind[rows] == CopyKind.DEVICE_TO_DEVICE
    kinds = np.stack((ops.source_memory[rows], ops.target_memory[rows]))
    pageable = (kinds == MemoryKind.PAGEABLE).any(axis=0)
    unknown = (kinds == MemoryKind.UNKNOWN).any(axis=0)
    # A call on pinned memory that returned late was slow, it did not wait.
    returned_after = at(joined.blocks, joined.linked.launch[rows], False)
    return ~staged & (pageable | (~ordered & ~within)) | (unknown & returned_after)
