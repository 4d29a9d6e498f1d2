"""Waits of the host for the device taken out, alone or with what was calculated to be read."""

from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import where_changed
from traceanalyzer.base import regex
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.syncs.answers import answers
from traceanalyzer.replay.changes.syncs.indices import (
    indices_again,
    picks_again,
    searches_in_backward,
)
from traceanalyzer.replay.changes.syncs.sizes import sizes_read
from traceanalyzer.replay.changes.syncs.unique_ids import made_unique
from traceanalyzer.replay.changes.syncs.values import (
    kept_as_tensors,
    last_launches,
    masks_spread,
    read_at_the_end,
    scalars_reuploaded,
)
from traceanalyzer.replay.patterns.named import are_named, kernels_named
from traceanalyzer.replay.patterns.repeats import after_each
from traceanalyzer.replay.tape import Tape, parametric
from traceanalyzer.trace import I32, I64, Bool, CopyKind, MemoryKind, distinct

READ_CHAIN_OPERATORS = 4
"""Those before a read that may exist for it alone: cast, absolute value, reduction."""
SUMMARY = regex(
    r"^aten::(to|_to_copy|detach|abs|square|pow|sqrt|norm|linalg_vector_norm|max|min|amax|amin|aminmax|mean|sum|std|var"
    r"|any|all|isnan|isinf|isfinite|eq|ne|gt|lt|ge|le|logical_(and|or|not)|count_nonzero|argmax|argmin)$"
)
"""Operators that summarise or test values. Others before a read are the program's own."""
SUMMARY_KERNEL = regex(
    r"^(?>.*?\bat::native::).*"
    r"(reduce_kernel<|\b(direct_copy_kernel_cuda|AbsFunctor|isnan_kernel_impl|Compare\w{0,40}Functor"
    r"|compare_\w+|pow_tensor_scalar_kernel_impl|sqrt_kernel_cuda)\b)"
)
"""Kernels that summarise, cast or test values, for recordings without operators."""
LONGEST_VALUE = 8  # bytes of one value that is read
LAUNCHES = 1.0
MORE_LAUNCHES = 2.0
"""What it takes to calculate on the device with a number that Python calculated with: an operator,
or some."""
FEWEST_READS = 2  # with one read a step nothing tells what before it belongs to the program


def is_read(tape: Tape) -> Bool:
    """Which events wait for results of the device: they launch nothing, or a copy to the host.
    Copies from pageable memory, and calls right after them in the same operator, wait for something
    else, and a copy on the device for nothing (its call took long by chance)."""
    reading = tape.events_of(tape.copies_of(CopyKind.DEVICE_TO_HOST))
    return tape.waits & ((~tape.launching_events & ~follows_pageable_copy(tape)) | reading)


def follows_pageable_copy(tape: Tape) -> Bool:
    """Events that follow a copy from pageable memory in the operator that makes it: PyTorch waits
    there until the memory can be written to again."""
    operator = tape.source.linked.tree.outer_operator[tape.nodes]
    pageable = tape.source.trace.device_ops.source_memory[tape.row] == MemoryKind.PAGEABLE
    copying = tape.events_of(tape.copies_of(CopyKind.HOST_TO_DEVICE) & pageable)
    return after_each(copying) & ~where_changed(operator) & (operator >= 0)


def read_at_once(tape: Tape) -> Bool:
    """Which events launch something that the host then waits for: in their own call, or in one
    right after it that launches nothing. The first does not hold the host up where the device has
    nothing else left to do."""
    launching = tape.launching_events
    return launching & (tape.waits | np.append((tape.waits & ~launching)[1:], False))


@parametric
def syncs_removed(tape: Tape, reading: Reading) -> Tape | None:
    """The host waits for the device only where it copies from pageable memory, operators that only
    read a value are gone, and chains of operators that lead to nothing but a read; what a mask
    picks is all there, and what a loop reads item by item is read once. What comes back as a number
    is calculated with on the device: for nothing by the optimistic reading; by the pessimistic one
    all values are still calculated, masks and loops stay, and numbers cost more. Tests for the host
    alone, and ids made unique for a lookup, are gone in any case. None without such waits."""
    if not is_read(tape).any():
        return None
    back = tape.memo(scalars_reuploaded)
    needless = answers(tape) | made_unique(tape) | indices_again(tape)
    if reading is Reading.PESSIMISTIC:
        return kept_as_tensors(_without(_unwaited(tape), needless), back, MORE_LAUNCHES)
    spread = tape.memo(masks_spread) or tape
    found = _unwaited(read_at_the_end(spread) or spread)
    found = last_launches(found, picks_again(tape))
    found = _without(found, needless | sizes_read(tape) | searches_in_backward(tape))
    if back.any():
        return found if reading is Reading.OPTIMISTIC else kept_as_tensors(found, back, LAUNCHES)
    chain, operators = read_chains(tape)
    return (
        found.without_launches(chain) if operators > 1 or reading is Reading.OPTIMISTIC else found
    )


def _unwaited(tape: Tape) -> Tape:
    return replace(tape.without_reads(), waits=tape.waits & ~is_read(tape))


def _without(tape: Tape, events: Bool) -> Tape:
    if not events.any():
        return tape
    return tape.without_launches(events[tape.event]).without_dispatch(events)


def read_chains(tape: Tape) -> tuple[Bool, int]:
    """Ops that lead to a read and to nothing else, and how many operators they are of at each read.
    They are the summaries that come before all reads of a step alike; operators are compared by
    name. What precedes only some of the reads belongs to the program, and with a single read a step
    nothing tells."""
    if not tape.source.linked.tree.has_operators:
        return _read_chains_of_kernels(tape)
    operator = tape.of_launches(tape.source.linked.tree.outer_operator)
    read = tape.reads[tape.event]
    row = np.flatnonzero(where_changed(operator) | (operator < 0))
    name = tape.of_operators(operator, tape.source.trace.host_ranges.name)
    summary = are_named(tape.source.linked, operator, SUMMARY)
    chain = _before_all_reads(tape, row, read[row], (summary & ~read)[row], name[row])
    gone = np.zeros(len(tape.row), bool)
    for preceding in chain:
        gone |= np.isin(operator, operator[row[preceding]])
    return gone, len(chain)


def _before_all_reads(tape: Tape, row: I64, read: Bool, summary: Bool, name: I32) -> list[I64]:
    """What comes before all reads of a step alike, the nearest first: for each read its place among
    these launches (ops of a tape), of which some `read`, some may be a `summary`."""
    reads = np.flatnonzero(read & ~after_each(read))
    chain = list[I64]()
    if len(reads) < FEWEST_READS * tape.steps:
        return chain
    while len(chain) < READ_CHAIN_OPERATORS:
        preceding = np.maximum(reads - len(chain) - 1, 0)
        if not (summary[preceding] & (reads > len(chain))).all():
            break
        if len(distinct(name[preceding])) > 1:
            break
        chain.append(preceding)
    return chain


def _read_chains_of_kernels(tape: Tape) -> tuple[Bool, int]:
    """`read_chains` by the names of kernels, with the copies that bring the values; what a
    reduction sets to zero before it is part of it."""
    ops = tape.source.trace.device_ops
    back = tape.copies_of(CopyKind.DEVICE_TO_HOST) & (ops.bytes[tape.row] <= LONGEST_VALUE)
    read = back & read_at_once(tape)[tape.event]
    row = np.flatnonzero(~tape.of_classes("memset"))
    summary = kernels_named(tape, SUMMARY_KERNEL)
    name = ops.name[tape.row]
    chain = _before_all_reads(tape, row, read[row], summary[row], name[row])
    gone = read & bool(chain)
    for preceding in chain:
        gone[row[preceding]] = True
    cleared = tape.of_classes("memset")
    gone[:-1] |= cleared[:-1] & gone[1:]
    return gone, len(chain)
