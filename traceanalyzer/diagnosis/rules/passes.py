"""Findings on passes over memory that another operator, layout or type would spare."""

from collections.abc import Iterator

import numpy as np

from traceanalyzer.analysis.groups import layout
from traceanalyzer.analysis.groups.layout import SECTOR_BYTES, strided_work
from traceanalyzer.analysis.groups.ops import group, per_step, steady
from traceanalyzer.analysis.groups.ops import written_out_attention as find_attention
from traceanalyzer.diagnosis.draft import Draft, Proposal, share, times
from traceanalyzer.diagnosis.finding import Evidence, Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.changes.sort_then_slice import sorts_of_few, taken_by_topk, topk_ns
from traceanalyzer.replay.scenarios import Scenario
from traceanalyzer.trace import Bool

FUSED = Words(
    "Use torch.nn.functional.scaled_dot_product_attention: its kernels keep the scores on the chip.",
    "Use a fused attention kernel (cuDNN, FlashAttention): it keeps the scores on the chip.",
    "Use jax.nn.dot_product_attention with implementation='cudnn': it keeps the scores on the chip.",
)
NHWC = Words(
    "Keep the model and its inputs in channels-last: model.to(memory_format=torch.channels_last), the same for the "
    "input.",
    "Keep tensors in NHWC from end to end: convolutions then need no transposition.",
)
CAST_ONCE = Words(
    "Cast once: keep weights in the type they are used in (model.to(torch.bfloat16) with an optimizer that holds "
    "fp32 masters), cast inputs where they enter, keep autocast's weight cache on.",
    "Cast once and keep the result.",
)
ONE_LAYOUT = Words(
    "Keep the layout through the chain: operators that take strides, transposes folded into the products (bmm, "
    "linear and scaled_dot_product_attention take transposed inputs), view instead of reshape.",
    "Keep one layout through the chain; cuBLAS takes transposed operands.",
)
EXAMPLES = 3
"""Operands and sorts named in the evidence."""
TOPK = Scenario(
    "topk",
    taken_by_topk,
    "topk reads what is sorted 12 times at the memory's rate, in 20 launches, and takes no longer than the sort",
    missing="no sort was recorded of which only the first few are taken",
)
TAKE_FEW = everywhere(
    "Take the first few without sorting the rest: values, indices = x.topk(k) instead of x.sort() and [:k]."
)


def written_out_attention(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Softmax and its neighbours between two batched products, forward or backward."""
    found = find_attention(m.rated, free)
    if found is None:
        return
    total = found.passes.total_ms
    evidence = [
        share(m, total, "passes over the scores between the two products of attention"),
        Evidence("attentions", found.attentions, "", "forward and backward each"),
    ]
    if found.bytes_saved is not None:
        where = f"scores read and written by these passes, {m.timed.steps.per}"
        evidence.append(Evidence("traffic saved", found.bytes_saved, "bytes", where))
    evidence += times(found.passes.top)
    basis = "without the passes between the products; the products' own traffic with the scores goes too"
    fused = Proposal(FUSED, basis, name="fused_attention")
    title = "Attention is written out in separate operators"
    yield Draft("attention-written-out", "memory", title, "compute", total, evidence, [fused], found.passes.rows, FUSED)


def channels_last(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Layout kernels that the convolution library runs around its own, because tensors come channels first."""
    found = layout.channel_kernels(m.timed, free)
    if found is None:
        return
    evidence = [share(m, found.total_ms, "kernels that change the layout of tensors around convolutions")]
    evidence += times(found.top)
    basis = "without these kernels; weights in channels-last need none of them"
    remedy = Proposal(NHWC, basis, name="channels_last")
    title = "Convolutions change the layout of their tensors"
    yield Draft("channels-last", "memory", title, "compute", found.total_ms, evidence, [remedy], found.rows, NHWC)


def repeated_casts(m: Measurements, free: Bool) -> Iterator[Draft]:
    """The same tensors (by type and shape) cast to another type several times a step. Whether a cast can go is not
    in the recording, so no headroom is claimed."""
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
    remedy = Proposal(CAST_ONCE, "which tensors are the same is not in the recording", name="low_precision")
    title = "The same tensors are cast repeatedly"
    yield Draft("repeated-casts", "memory", title, "compute", None, evidence, [remedy], found.kernels.rows, CAST_ONCE)


def layout_copies(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Copies that only make a tensor contiguous."""
    found = layout.layout_copies(m.timed, free)
    if found is None:
        return
    evidence = [share(m, found.total_ms, "copies that make tensors contiguous (contiguous, clone)")]
    evidence += times(found.top)
    remedy = Proposal(ONE_LAYOUT, "which of the copies the operators after them need is not in the recording")
    title = "Tensors are copied to change their layout"
    yield Draft("layout-copies", "memory", title, "compute", None, evidence, [remedy], found.rows, ONE_LAYOUT)


def uncoalesced(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Elementwise kernels that read or write one operand across its order. What the same work takes in one order is not
    in the recording, so no headroom is claimed; other findings may have it."""
    found = strided_work(m.rated)
    if found is None:
        return
    evidence = [share(m, found.kernels.total_ms, "elementwise kernels whose operands lie in different orders")]
    evidence += [
        Evidence("operands", text, "", f"neighbours {SECTOR_BYTES} bytes or more apart")
        for text in found.examples[:EXAMPLES]
    ]
    evidence += times(found.kernels.top)
    action = (
        "Bring the operands into one order before the loop: one contiguous() or one memory format for weights and "
        "inputs, transposes folded into the products that make or take the tensor."
    )
    remedy = Proposal(everywhere(action), "what the same work takes in one order is not in the recording")
    title = "Elementwise kernels access memory out of order (uncoalesced)"
    yield Draft("uncoalesced-access", "memory", title, "compute", None, evidence, [remedy])


def sorted_whole(m: Measurements, free: Bool) -> Iterator[Draft]:
    """Sorts after which a slice takes the first few."""
    found = m.joined.memo(sorts_of_few)
    if not found.sorts.any():
        return
    operator = m.linked.tree.outer_operator[m.linked.tree.node_of_call[m.linked.launch]]
    rows = steady(m.timed) & free & (m.linked.launch >= 0) & found.sorts[operator]
    if not rows.any():
        return
    kernels = group(m.timed, rows)
    each, first = np.unique(operator[rows], return_index=True)
    needed = topk_ns(found.bytes[each], m.linked.limit("bandwidth")[rows][first])
    claim_ms = max(kernels.total_ms - per_step(m.timed, needed), 0.0)
    evidence = [share(m, kernels.total_ms, "sorts of which the first few are taken")]
    evidence += [Evidence("sorted", text, "", "shape and what is taken") for text in found.examples[:EXAMPLES]]
    evidence += times(kernels.top)
    remedy = Proposal(TAKE_FEW, "replaced by topk", TOPK, name="faster_kernels")
    title = "A whole tensor is sorted where only the first few are taken"
    yield Draft("sorted-whole", "memory", title, "compute", claim_ms, evidence, [remedy], rows)
