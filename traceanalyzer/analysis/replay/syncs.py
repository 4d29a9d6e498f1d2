"""Waits of the host for the device taken out, alone or with what was calculated to be read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.replay.edits import events_of, without, without_launches
from traceanalyzer.analysis.replay.fusion import largest_operands
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.trace import I32, Bool

READ_CHAIN = 4
"""Operators before a read that may exist for it alone: cast, absolute value, reduction."""
FEWEST_READS = 2
"""With one read a step nothing tells what before it belongs to the program."""


def is_read(tape: Tape) -> Bool:
    """Which events wait for the device but do not wait because they copy from pageable memory of the host."""
    ops = tape.source.trace.device_ops
    brings = events_of(tape, ops.copy_kind[tape.row] == CopyKind.HOST_TO_DEVICE)
    result: Bool = tape.waits & ~brings
    return result


def syncs_removed(tape: Tape) -> Tape | None:
    """The host waits for the device only where it copies from pageable memory, and operators that only read a value
    are gone; None without such a wait."""
    reads = is_read(tape)
    if not reads.any():
        return None
    return replace(
        without(tape, tape.reads[tape.event]), waits=tape.waits & ~reads, dispatch=tape.dispatch - tape.reading
    )


def syncs_and_values_removed(tape: Tape) -> Tape | None:
    """The same, and what was calculated for nothing but the reads is not calculated."""
    found = syncs_removed(tape)
    return found and without_launches(found, _only_read(tape))


def _only_read(tape: Tape) -> Bool:
    """Ops that lead to a read and to nothing else: what comes before all reads alike. Operators are compared by name;
    what precedes only some of the reads belongs to the program."""
    read, operator = tape.reads[tape.event], tape.source.roofline.row[tape.row]
    name = np.append(tape.source.trace.host_ranges.name, np.int32(-1))[operator]
    sized = largest_operands(tape.source)[tape.row] > 0
    # Operators in the order of their launch, reads between them; an operator's device ops stand together.
    first = np.append(True, (operator[1:] != operator[:-1]) | (operator[1:] < 0))[: len(operator)]
    row = np.flatnonzero(first)
    reads = np.flatnonzero(read[row] & ~np.append(False, read[row][:-1]))
    gone = np.zeros(len(tape.row), bool)
    for back in range(1, READ_CHAIN + 1):
        here = reads - back
        if (
            len(here) < FEWEST_READS
            or here.min() < 0
            or not _alike(name[row[here]], sized[row[here]] & ~read[row[here]])
        ):
            break
        gone |= np.isin(operator, operator[row[here]])
    return gone & ~read


def _alike(names: I32, usable: Bool) -> bool:
    return bool(usable.all()) and len(np.unique(names)) == 1
