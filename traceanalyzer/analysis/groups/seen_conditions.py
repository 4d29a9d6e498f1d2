"""Conditions of the recording that the trace itself shows: number formats, and the shapes of a
step's input."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at, texts_where
from traceanalyzer.analysis.groups.input_loading import loaders_in
from traceanalyzer.analysis.groups.ops import duration, steady
from traceanalyzer.analysis.names.pytorch import module_of
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.op_models.tensors import tensors_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.base import regex
from traceanalyzer.trace import Condition, distinct

PRODUCT_FORMATS = "number formats of matrix kernels"
LEAST_SHARE = 0.05
"""A number format with less of the matrix kernels' time is not one that the program was given."""
SHOWN_INPUTS = 4
LOSS = regex(
    r"^aten::(?!\w*_backward$)(nll_loss\w*|mse_loss|l1_loss|smooth_l1_loss|huber_loss|kl_div|binary_cross_entropy\w*"
    r"|_?ctc_loss\w*|\w*margin\w*_loss|cosine_embedding_loss)$"
)
"""Operators that calculate losses; `cross_entropy_loss` ends in one of them."""
SHORT_TYPES = {"float": "fp32", "double": "fp64", "Half": "fp16", "BFloat16": "bf16"}


def seen_conditions(rated: WithRoofline) -> Iterator[Condition]:
    """What the trace shows of the conditions under which it was recorded."""
    formats = _formats(rated)
    if formats:
        yield Condition(PRODUCT_FORMATS, ", ".join(formats))
    loss = _loss_types(rated)
    if loss:
        yield Condition("number format of the loss", loss)
    inputs = _inputs(rated)
    if inputs:
        yield Condition("input copied to the GPU", inputs)
    stated = {one.name for one in rated.trace.conditions}
    model = None if "model" in stated else _model(rated)
    if model is not None:
        yield Condition("model", model)
    loaders = loaders_in(rated.trace.strings)
    if any(loaders) and not any(name.endswith("num_workers") for name in stated):
        yield Condition("loader num_workers", "1 or more" if loaders[1] else "0")


def _model(rated: WithRoofline) -> str | None:
    """The class of the outermost module that is called most and calls others; None where none was
    recorded."""
    calls = rated.joined.origins.calls
    roots = calls.name[
        [i for i in distinct(calls.parent).tolist() if i >= 0 and calls.parent[i] < 0]
    ]
    modules = (module_of(calls.strings[code]) for code in roots.tolist())
    kinds = Counter(named.kind for named in modules if named is not None)
    return next((kind for kind, _ in kinds.most_common(1)), None)


def _formats(rated: WithRoofline) -> list[str]:
    """Formats that matrix kernels calculate in, those with most of their time first."""
    rows = steady(rated.timed) & rated.linked.is_matrix
    time = duration(rated.linked)[rows]
    kind = rated.roofline.precision[rows]
    total = np.bincount(kind, weights=time, minlength=len(Precision))
    least = LEAST_SHARE * time.sum()
    known = [kind for kind in Precision if kind and total[kind] > 0 and total[kind] >= least]
    return [p.name.lower() for p in sorted(known, key=lambda p: -total[p])]


def _loss_types(rated: WithRoofline) -> str:
    """What operators of losses in the steady steps take first; of those within each other the
    innermost, which autocast has given the type that it calculates in."""
    ranges = rated.trace.host_ranges
    is_loss = texts_where(rated.trace.strings, LOSS.match)[ranges.name]
    rows = np.flatnonzero(is_loss & rated.timed.steady_host(ranges.start))
    rows = rows[np.lexsort((ranges.start[rows], ranges.thread[rows]))]
    inner, outer = rows[1:], rows[:-1]
    holds_next = np.zeros(len(rows), bool)
    holds_next[:-1] = ranges.thread[inner] == ranges.thread[outer]
    holds_next[:-1] &= ranges.start[inner] < ranges.end[outer]
    codes = distinct(ranges.dtypes[rows[~holds_next]]).tolist()
    types = {_first_type(rated.trace.text(code)) for code in codes if code >= 0}
    return ", ".join(sorted(SHORT_TYPES.get(one, one) for one in types if one))


def _inputs(rated: WithRoofline) -> str:
    """Shapes and types of what the steady steps copy to the GPU, largest first."""
    found: dict[str, float] = {}
    for shapes, dtypes in _copied_operands(rated):
        tensors = tensors_of(shapes, dtypes)
        first = next((tensor for tensor in tensors if tensor.shape), None)
        if first is not None:
            found[f"{list(first.shape)} {_first_type(dtypes)}".strip()] = first.dense_bytes
    largest = sorted(found, key=lambda text: (-found[text], text))
    more = f", {len(largest) - SHOWN_INPUTS} more" if len(largest) > SHOWN_INPUTS else ""
    return ", ".join(largest[:SHOWN_INPUTS]) + more


def _copied_operands(rated: WithRoofline) -> Iterator[tuple[str | None, str | None]]:
    """The shapes and types of the operands of each operator that copies input to the GPU."""
    tree = rated.linked.tree
    ranges = rated.trace.host_ranges
    node = rated.joined.launch_node[rated.joined.is_input_h2d & rated.timed.steady_ops]
    op = at(tree.operator, node, -1)
    rows = distinct(tree.row[op[op >= 0]])
    operands = Groups.of(ranges.shapes[rows], ranges.dtypes[rows])
    for row in rows[operands.first].tolist():
        yield (
            rated.trace.text(int(ranges.shapes[row])),
            rated.trace.text(int(ranges.dtypes[row])),
        )


def _first_type(dtypes: str | None) -> str:
    """The type of an operator's first input as the recorder names it."""
    first, _, _ = (dtypes or "").lstrip("[").partition(",")
    return first.strip('"]').removeprefix("c10::")
