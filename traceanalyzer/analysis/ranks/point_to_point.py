"""Bytes that ranks send each other directly, from the sends and receives that say their peer."""

from collections.abc import Iterator, Sequence

import numpy as np

from traceanalyzer.analysis.names.collectives import collective_kind, element_bytes, message_bytes
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric
from traceanalyzer.trace import I64, Trace, distinct


@dataclass(frozen=True)
class TrafficRow:
    """What one rank sends another in a mean steady step."""

    sender: int = metric("rank that sends")
    receiver: int = metric("rank that receives")
    messages: float = metric("messages a step")
    bytes: float | None = metric("bytes a step; null where the size of a message is not known", "bytes")
    seen_by: str = metric("whose recording tells: the sender's, or the receiver's where the sender's does not")


def traffic(recordings: Sequence[Timed]) -> list[TrafficRow]:
    """A row for each pair of ranks, by bytes; empty where no send or receive says its peer."""
    found: dict[tuple[int, int], TrafficRow] = {}
    for kind in ("send", "recv"):
        for i, timed in enumerate(recordings):
            for row in _rows(timed, i if timed.trace.rank is None else timed.trace.rank, kind):
                found.setdefault((row.sender, row.receiver), row)
    return sorted(found.values(), key=lambda row: (-(row.bytes or 0), row.sender, row.receiver))


def _rows(timed: Timed, rank: int, kind: str) -> Iterator[TrafficRow]:
    """What a rank's recording says of its sends, or of its receives, in the steady state."""
    table, code = timed.trace.collectives, _steady_calls(timed)
    of_kind = np.array([collective_kind(timed.trace.text(name) or "") == kind for name in table.name.tolist()], bool)
    code = code[(of_kind & (table.peer >= 0))[code]]
    sizes, steps = _sizes(timed.trace, kind), timed.steps.steady_count
    for peer in distinct(table.peer[code]).tolist():
        size = sizes[code[table.peer[code] == peer]]
        known = float(size.sum()) / steps if (size >= 0).all() else None
        sender, receiver = (rank, peer) if kind == "send" else (peer, rank)
        yield TrafficRow(sender, receiver, len(size) / steps, known, "sender" if kind == "send" else "receiver")


def _steady_calls(timed: Timed) -> I64:
    """Row of `Trace.collectives` of each call of the host's that says what it communicates, in the steady state."""
    ranges, steps = timed.trace.host_ranges, timed.steps
    first, last = steps.host_start[steps.warmup], steps.host_end[-1]
    rows = (ranges.collective >= 0) & (ranges.start >= first) & (ranges.start < last)
    return ranges.collective[rows].astype(np.int64)


def _sizes(trace: Trace, kind: str) -> I64:
    """Bytes of each row of `Trace.collectives`, were it of this kind; -1 where not known."""
    table = trace.collectives
    elements = [element_bytes(trace.text(code) or "") for code in table.dtype.tolist()]
    counts = (table.in_elements.tolist(), table.out_elements.tolist())
    return np.array([message_bytes(kind, i, o, -1, e) for i, o, e in zip(*counts, elements, strict=True)], np.int64)
