"""Findings on passes over memory that another operator, layout or type would spare."""

from collections.abc import Iterator

import numpy as np

from traceanalyzer.analysis.groups import layout
from traceanalyzer.analysis.groups.layout import SECTOR_BYTES, strided_work
from traceanalyzer.analysis.groups.ops import find_written_out_attention as find_attention
from traceanalyzer.analysis.groups.ops import group, per_step, steady
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share, times
from traceanalyzer.diagnosis.finding import Evidence, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.replay.changes.sort_then_slice import sorts_of_few, taken_by_topk, topk_ns
from traceanalyzer.replay.patterns.growing_joins import growing_joins
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.trace import Bool

EXAMPLES = 3  # operands and sorts named in the evidence
TOPK = Scenario(
    "topk",
    taken_by_topk,
    missing="no sort was recorded of which only the first few are taken",
    basis=(
        "topk reads what is sorted 12 times at the memory's rate, in 20 launches, and takes "
        "no longer than the sort"
    ),
)


def written_out_attention(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Softmax and its neighbours between two batched products, forward or backward."""
    attention = find_attention(m.rated, free)
    if attention is None:
        return
    total = attention.passes.total_ms
    rows = attention.passes.rows
    evidence = [
        share(m, total, "passes over the scores between the two products of attention"),
        Evidence("attentions", attention.attentions, "", "forward and backward each"),
    ]
    if attention.bytes_saved is not None:
        where = f"scores read and written by these passes, {m.timed.steps.per}"
        evidence.append(Evidence("traffic saved", attention.bytes_saved, "bytes", where))
    evidence += times(attention.passes.top)
    basis = (
        "without the passes between the products; the products' own traffic with the scores "
        "goes too"
    )
    yield finding(
        "attention-written-out",
        "compute",
        total,
        evidence,
        rows=rows,
        basis=basis,
        name="fused_attention",
    )


def channels_last(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Layout kernels that the convolution library runs around its own, because tensors come
    channels first."""
    found = layout.channel_kernels(m.timed, free)
    if found is None:
        return
    evidence = [
        share(m, found.total_ms, "kernels that change the layout of tensors around convolutions")
    ]
    evidence += times(found.top)
    basis = "without these kernels; weights in channels-last need none of them"
    total = found.total_ms
    rows = found.rows
    yield finding(
        "channels-last", "compute", total, evidence, rows=rows, basis=basis, name="channels_last"
    )


def repeated_casts(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Tensors (by type and shape) that are cast to another type several times a step. Whether a
    cast can go is not in the recording, so no headroom is claimed."""
    found = layout.casts(m.timed, free)
    if found is None:
        return
    evidence = [
        share(m, found.total_ms, "casts of tensors to another type"),
        Evidence(f"casts {m.timed.steps.per}", found.casts, "", "device ops"),
        Evidence("casts of equal inputs", found.alike, "", "mean count of one shape and type"),
        Evidence("time", found.first_ms, "ms", "the first of each shape and type alone"),
        *times(found.kernels.top, "time in the kernel"),
    ]
    basis = "which tensors are the same is not in the recording"
    rows = found.kernels.rows
    yield finding(
        "repeated-casts", "compute", None, evidence, rows=rows, basis=basis, name="low_precision"
    )


def layout_copies(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Copies that only make a tensor contiguous."""
    found = layout.layout_copy_ops(m.timed, free)
    if found is None:
        return
    evidence = [
        share(m, found.total_ms, "copies that make tensors contiguous (contiguous, clone)"),
        *times(found.top),
    ]
    basis = "which of the copies the operators after them need is not in the recording"
    yield finding("layout-copies", "compute", None, evidence, rows=found.rows, basis=basis)


def uncoalesced(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Elementwise kernels that read or write one operand across its order. What the same work takes
    in one order is not in the recording, so no headroom is claimed; other findings may have it."""
    strided = strided_work(m.rated)
    if strided is None:
        return
    apart = f"neighbours {SECTOR_BYTES} bytes or more apart"
    evidence = [
        share(
            m,
            strided.kernels.total_ms,
            "elementwise kernels whose operands lie in different orders",
        ),
        *(Evidence("operands", text, "", apart) for text in strided.examples[:EXAMPLES]),
        *times(strided.kernels.top),
    ]
    action = (
        "Bring the operands into one order before the loop: one contiguous() or one memory format for weights and "
        "inputs, transposes folded into the products that make or take the tensor."
    )
    remedy = Proposal(
        same_for_all(action), "what the same work takes in one order is not in the recording"
    )
    yield finding("uncoalesced-access", "compute", None, evidence, [remedy])


def regrown(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Tensors that are joined again, larger, in every step: a cache that `torch.cat` copies."""
    tape = tape_of(m)
    if tape is None:
        return
    new_share = tape.memo(growing_joins)
    grows = np.isfinite(new_share)
    copied = np.zeros(len(free), float)
    copied[tape.row[grows]] = 1.0 - new_share[grows]
    rows = steady(m.timed) & free & (copied > 0.0)
    if not rows.any():
        return
    kernels = group(m.timed, rows)
    times_ns = m.trace.device_ops.end[rows] - m.trace.device_ops.start[rows]
    claim_ms = per_step(m.timed, times_ns * copied[rows])
    evidence = [
        share(m, kernels.total_ms, "copies into a tensor that grows"),
        Evidence("copied again", float(copied[rows].mean()), "share", "of what they write, mean"),
        *times(kernels.top),
    ]
    yield finding("regrown-tensors", "compute", claim_ms, evidence, rows=rows)


def sorted_whole(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Sorts after which a slice takes the first few."""
    few = m.joined.memo(sorts_of_few)
    if not few.sorts.any():
        return
    operator = m.linked.tree.outer_operator[m.linked.tree.node_of_call[m.linked.launch]]
    rows = steady(m.timed) & free & (m.linked.launch >= 0) & few.sorts[operator]
    if not rows.any():
        return
    kernels = group(m.timed, rows)
    each, first = np.unique(operator[rows], return_index=True)
    needed = topk_ns(few.bytes[each], m.linked.limit("bandwidth")[rows][first])
    claim_ms = max(kernels.total_ms - per_step(m.timed, needed), 0.0)
    evidence = [share(m, kernels.total_ms, "sorts of which the first few are taken")]
    evidence += [
        Evidence("sorted", text, "", "shape and what is taken") for text in few.examples[:EXAMPLES]
    ]
    evidence += times(kernels.top)
    remedy = Proposal(said("sorted-whole"), "replaced by topk", TOPK, name="faster_kernels")
    yield finding("sorted-whole", "compute", claim_ms, evidence, [remedy], rows)
