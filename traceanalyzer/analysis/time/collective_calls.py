"""The collectives that ran on the devices, each with what its framework said about it.

The metadata of a kernel is, in this order: the kernel's own; that of the host range
(`record_param_comms`, an NCCL range) that encloses its launch on the same thread, also where
several kernels belong to one range; that of the ranges before it on the thread that launched
nothing themselves (a group of calls launches at its end). Without any the kernel's name tells the
kind, the tensors of the operator around its launch, if that is named like the kind, the message,
and the group is unknown."""

import re
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, isin_few
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.analysis.names import collectives
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.collectives import KINDS, message_bytes
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.base import dataclass, regex
from traceanalyzer.trace import I32, I64, Bool, Trace, distinct, distinct_places

RANGE_NAMES = regex(r"^(nccl:+|c10d::|rccl:+|nccl(?=[A-Z])|MPI_I?)", re.IGNORECASE)
"""How ranges around communication are named: `nccl:all_to_all`, `c10d::alltoall_base_`,
`ncclAllToAll`."""
_OTHER = KINDS.index(collectives.OTHER)
_BARRIER = KINDS.index(collectives.BARRIER)
_POINT_TO_POINT = tuple(KINDS.index(kind) for kind in collectives.POINT_TO_POINT)
_UNTOLD = (
    _OTHER,
    KINDS.index("send_recv"),
)  # kernels of any collective: an all-to-all is sends and receives


class Parts(NamedTuple):
    """What each collective consists of: sends and receives that travel together are a part each,
    others are one."""

    entry: I64
    metadata: I64  # row of `Trace.collectives`, -1 without
    kind: I32  # index in `KINDS`


@dataclass(frozen=True, eq=False)
class CollectiveCalls:
    """One entry for each collective on each device, in order of start. Kernels of one call are one
    collective."""

    start: I64  # start of its first kernel, ns
    end: I64  # end of its last kernel, ns
    row: I64  # its first kernel's row in `Trace.device_ops`
    launched: I64  # when the host launched its first kernel, ns; -1 if not recorded
    device: I32
    stream: I32
    step: I32  # step it belongs to, -1 outside all
    kind: I32  # index in `KINDS`
    metadata: I64  # row of `Trace.collectives`, -1 without
    bytes: I64  # size of the message as `message_bytes` defines it, -1 if not known
    kernels: I64  # rows of `Trace.device_ops` of all collectives' kernels..
    of_kernel: I64  # ... and the entry that each belongs to.
    parts: Parts  # what each consists of

    def __len__(self) -> int:
        return len(self.start)


def collective_calls(linked: TraceJoins, steps: Steps) -> CollectiveCalls:
    """Find the collectives of a trace."""
    ops = linked.trace.device_ops
    known = _told_of_kernels(linked)
    kernels = known.kernels
    first, entry = _group(
        np.where(known.record >= 0, known.record, -2 - kernels), ops.device[kernels]
    )
    rows = kernels[first]
    end = ops.end[rows]
    np.maximum.at(end, entry, ops.end[kernels])
    kind = known.kind[first]
    metadata = known.metadata[first]
    grouped = entry[known.grouped_in]
    alone = _but(np.ones(len(first), bool), grouped)
    return CollectiveCalls(
        start=ops.start[rows],
        end=end,
        row=rows,
        launched=linked.launch_time[rows],
        device=ops.device[rows],
        stream=ops.stream[rows],
        step=steps.of_op[rows],
        kind=kind,
        metadata=metadata,
        bytes=known.bytes[first],
        kernels=kernels,
        of_kernel=entry,
        parts=Parts(
            np.concatenate((alone, grouped)),
            np.concatenate((metadata[alone], known.grouped_metadata)),
            np.concatenate((kind[alone], known.grouped_kind)),
        ),
    )


@dataclass(frozen=True, eq=False)
class _ToldOfKernels:
    """What is known of each communication kernel."""

    kernels: I64  # rows of device ops
    record: I32 | I64  # the record around the launch, -1 without
    metadata: I64  # row of the trace's `collectives`, -1 without
    kind: I32
    bytes: I64
    # the point-to-point messages that were issued together: the place of the kernel that carries
    # each, its metadata and its kind
    grouped_in: I64
    grouped_metadata: I64
    grouped_kind: I32


def _told_of_kernels(linked: TraceJoins) -> _ToldOfKernels:
    kernels = np.flatnonzero(linked.is_communication)
    messages = _Messages.of(linked.trace)
    ops = linked.trace.device_ops
    named = _kinds_of_names(linked.trace, ops.name[kernels])
    record = _enclosing_records(linked, kernels, messages)
    claimed, by = _claimed_records(linked, kernels, record, named, messages)
    of_record = np.append(linked.trace.host_ranges.collective, np.int32(-1)).astype(np.int64)
    claimed = of_record[claimed]
    metadata = of_record[record]
    metadata[by] = claimed
    own = ops.collective[kernels]
    metadata = np.where(own >= 0, own, metadata)
    size = messages.bytes[metadata]
    grouped = own[by] < 0
    _add_up(size, messages.bytes[claimed[grouped]], by[grouped])
    named = np.where(isin_few(named, _UNTOLD), _kinds_of_ranges(linked, kernels, named), named)
    kind = messages.kind[metadata]
    kind = np.where(kind == _OTHER, named, kind).astype(np.int32)
    untold = np.flatnonzero(metadata < 0)
    size[untold] = _sizes_of_operators(linked, kernels[untold], kind[untold])
    grouped &= isin_few(messages.kind[claimed], _POINT_TO_POINT)
    together = np.flatnonzero(grouped)
    return _ToldOfKernels(
        kernels=kernels,
        record=record,
        metadata=metadata,
        kind=kind,
        bytes=size,
        grouped_in=by[together],
        grouped_metadata=claimed[together],
        grouped_kind=messages.kind[claimed[together]],
    )


class _Messages(NamedTuple):
    """Kind and size in bytes of each row of `Trace.collectives`, and at the end (index -1) of
    none."""

    kind: I32
    bytes: I64

    @classmethod
    def of(cls, trace: Trace) -> "_Messages":
        table = trace.collectives
        kinds = [
            collectives.collective_kind(trace.text(code) or "") for code in table.name.tolist()
        ]
        elements = [
            collectives.element_bytes(trace.text(code) or "") for code in table.dtype.tolist()
        ]
        counts = (
            table.in_elements.tolist(),
            table.out_elements.tolist(),
            table.group_size.tolist(),
        )
        size = [message_bytes(*each) for each in zip(kinds, *counts, elements, strict=True)]
        numbers = [*map(KINDS.index, kinds), _OTHER]
        return cls(
            kind=np.array(numbers, np.int32),
            bytes=np.array([*size, -1], np.int64),
        )


def _kinds_of_ranges(linked: TraceJoins, kernels: I64, named: I32) -> I32:
    """The kind that the innermost collective around each launch says, else a send or receive, else
    the name."""
    if not len(kernels):
        return named
    tree = linked.tree
    strings = linked.trace.strings
    names = np.full(len(tree.parent), -1, np.int64)
    names[~tree.is_call] = linked.trace.host_ranges.name[tree.row[~tree.is_call]]
    told = np.array(
        [
            KINDS.index(collectives.collective_kind(RANGE_NAMES.sub("", t)))
            if RANGE_NAMES.match(t)
            else _OTHER
            for t in (*strings, "")
        ],
        np.int32,
    )[names]
    call = at(tree.node_of_call, linked.launch[kernels], -1)
    found = named.copy()
    of_parts = isin_few(told, _POINT_TO_POINT)
    for inside in (of_parts, (told != _OTHER) & ~of_parts):
        node = at(tree.innermost(inside), call, -1)
        found[node >= 0] = told[node[node >= 0]]
    return found


def _sizes_of_operators(linked: TraceJoins, kernels: I64, kind: I32) -> I64:
    """Bytes of each message by the tensors of the innermost operator around its launch named like
    its kind; else -1."""
    size = np.full(len(kernels), -1, np.int64)
    if not len(kernels):
        return size
    trace = linked.trace
    tree = linked.tree
    ranges = linked.trace.host_ranges
    of_node = _kinds_of_nodes(linked)
    call = at(tree.node_of_call, linked.launch[kernels], -1)
    node = at(tree.innermost(of_node > _OTHER), call, -1)
    inside = np.flatnonzero((node >= 0) & (at(of_node, node, -1) == kind))
    row = tree.row[node[inside]]
    calls = Groups.of(kind[inside], ranges.shapes[row], ranges.dtypes[row])
    first = row[calls.first]
    found = [
        collectives.operand_bytes(KINDS[k], str(trace.text(shapes)), str(trace.text(dtypes)))
        for k, shapes, dtypes in zip(
            kind[inside[calls.first]], ranges.shapes[first], ranges.dtypes[first], strict=True
        )
    ]
    size[inside] = np.array(found, np.int64)[calls.index]
    return size


def _kinds_of_nodes(linked: TraceJoins) -> I64:
    """The kind of collective that each node of the host tree with operands is named for, `_OTHER`
    for others, -1 for operators of ATen."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    kinds = [
        -1 if text.startswith("aten::") else KINDS.index(collectives.collective_kind(text))
        for text in (*linked.trace.strings, "")
    ]
    named = np.array(kinds)[tree.of_ranges(ranges.name, -1)]
    return np.where(tree.of_ranges(ranges.shapes, -1) >= 0, named, _OTHER)


def _enclosing_records(linked: TraceJoins, kernels: I64, messages: _Messages) -> I64:
    """The host range with metadata around each launch call, -1 without; a barrier wins over what it
    is made of."""
    tree = linked.tree
    ranges = linked.trace.host_ranges
    nearest = tree.innermost(tree.of_ranges(ranges.collective, -1) >= 0)
    result = np.full(len(kernels), -1, np.int64)
    launched = np.flatnonzero(linked.launch[kernels] >= 0)
    node = nearest[tree.node_of_call[linked.launch[kernels[launched]]]]
    above = tree.enclosing(nearest, node)
    barrier = np.flatnonzero(above >= 0)
    barrier = barrier[messages.kind[ranges.collective[tree.row[above[barrier]]]] == _BARRIER]
    node[barrier] = above[barrier]
    result[launched[node >= 0]] = tree.row[node[node >= 0]]
    return result


def _but(chosen: Bool, others: I64) -> I64:
    """The chosen rows that are none of the others."""
    chosen[others] = False
    return np.flatnonzero(chosen)


def _claimed_records(
    linked: TraceJoins, kernels: I64, record: I64, named: I32, messages: _Messages
) -> tuple[I64, I64]:
    """Host ranges with metadata that launched nothing, and the kernel that the next launch on their
    thread made."""
    ranges = linked.trace.host_ranges
    calls = linked.trace.api_calls
    idle = _but(ranges.collective >= 0, record[record >= 0])
    call = linked.launch[kernels]
    single = np.flatnonzero(call >= 0)
    single = single[linked.api_kind[call[single]] == ApiKind.LAUNCH]
    rows = [np.empty(0, np.int64)]
    by = [np.empty(0, np.int64)]
    for thread in distinct(ranges.thread[idle]):
        idle_ranges = idle[ranges.thread[idle] == thread]
        candidates = single[calls.thread[call[single]] == thread]
        candidates = candidates[np.argsort(calls.start[call[candidates]], kind="stable")]
        following = np.searchsorted(calls.start[call[candidates]], ranges.end[idle_ranges])
        rows.append(idle_ranges[following < len(candidates)])
        by.append(candidates[following[following < len(candidates)]])
    row = np.concatenate(rows)
    kernel = np.concatenate(by)
    same = named[kernel] == messages.kind[ranges.collective[row]]
    fits = (same | isin_few(named[kernel], _UNTOLD)) & (record[kernel] < 0)
    return row[fits], kernel[fits]


def _add_up(size: I64, added: I64, by: I64) -> None:
    """Messages of a group travel together: their sizes add up (in place), unless one of them is
    unknown."""
    size[by] = 0
    np.add.at(size, by, np.maximum(added, 0))
    size[by[added < 0]] = -1


def _group(record: I64, device: I32) -> tuple[I64, I64]:
    """First kernel of each (record, device) in order of first kernels, and the group of each
    kernel."""
    pairs = Groups.of(record, device)
    order = np.argsort(pairs.first, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return pairs.first[order], position[pairs.index]


def _kinds_of_names(trace: Trace, names: I32) -> I32:
    codes, inverse = distinct_places(names)
    kinds = [KINDS.index(collectives.collective_kind(trace.text(int(c)) or "")) for c in codes]
    return np.array(kinds, np.int32)[inverse] if kinds else np.empty(0, np.int32)
