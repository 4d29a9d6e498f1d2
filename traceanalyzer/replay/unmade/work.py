"""What each device op of a tape has to do, as recorded and at other sizes.

Both come from the model of its operator (`op_models`), asked with the recorded inputs and with
those at the other sizes; of operators without a model from the bytes of their inputs. Optimizers,
and all else whose inputs are parameters, have the same to do at any batch."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.roofline.op_models import MODELS
from traceanalyzer.analysis.roofline.op_models.call import Call, Work
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs, parse_values
from traceanalyzer.analysis.roofline.rated import Rated
from traceanalyzer.base import dataclass, regex
from traceanalyzer.replay.patterns.parameters import OF_LISTS
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.resized import Resizer, Sizes
from traceanalyzer.trace import F64, I32, I64, Bool, CopyKind

MOST_UNKNOWN = 0.2
"""Share of the device's time without shapes above which nothing is predicted."""
MOST_STANDING = 0.2
"""Share of the device's time above which nothing is predicted where products take it whose sizes
stay as the batch changes: weights alone are seldom multiplied for so long, so that the batch stands
in a size that looks like a parameter's."""
LEAST_CHANGED = 0.02
"""Share of the device's time that must go with the sizes asked for."""
NOTHING_SCALES = "hardly any device work goes with {what}: its size is not in the recorded shapes"
UNKNOWN_WORK = (
    "{share:.0%} of the device's time belongs to operators without recorded shapes (CUDA graphs, "
    "compiled code, other libraries): what it would take at other sizes is not known"
)
STANDING_PRODUCTS = (
    "no other batch can be predicted: {share:.0%} of the GPU's time is matmuls whose recorded sizes do "
    "not show the batch; if it is not {batch}, say it with --batch-now"
)
FLAT = 2
"""Dimensions below which a message is a bucket of gradients, whose size is the parameters'."""
RECURRENT = regex(r"^aten::_cudnn_rnn(_backward)?$")
WEIGHTS_IN_ONE = 3
"""Place of the buffer of all weights among the inputs of cuDNN's recurrent layers."""
COMMUNICATION = regex(r"^(c10d::|record_param_comms|nccl:|_c10d_functional::)")


@dataclass(frozen=True, eq=False)
class OpLoad:
    """Work of each op of a tape; NaN where it is not known."""

    flops: F64
    bytes: F64
    elements: F64


@dataclass(frozen=True, eq=False)
class Loads:
    """Work of each op of a tape, before and after."""

    now: OpLoad
    then: OpLoad
    known: Bool
    """Whether the shapes of its operator were recorded, or it is known not to go with them."""

    @property
    def growth(self) -> F64:
        """How many times the data of each op is more; 1 where nothing is known."""
        return _ratio(
            self.then.bytes, self.now.bytes, _ratio(self.then.elements, self.now.elements)
        )

    @property
    def flops_ratio(self) -> float:
        """How many times all arithmetic is more."""
        now = float(np.nansum(self.now.flops))
        return float(np.nansum(self.then.flops)) / now if now else 1.0


@dataclass(frozen=True)
class Totals:
    """FLOPs, bytes and elements of a call; NaN where unknown."""

    flops: float
    bytes: float
    elements: float


NOT_KNOWN = Totals(np.nan, np.nan, np.nan)


def _ratio(then: F64, now: F64, otherwise: F64 | float = 1.0) -> F64:
    known = np.isfinite(then) & np.isfinite(now) & (now > 0)
    return np.where(known, then / np.where(known, now, 1.0), otherwise)


def loads_of_tape(tape: Tape, resizer: Resizer | None) -> Loads:
    """The work of a tape's ops at other sizes; without any, as recorded."""
    recorded = _as_recorded(tape)
    if resizer is None:
        return Loads(recorded, recorded, np.ones(len(recorded.flops), bool))
    source = tape.source
    rows = called_ranges(tape)
    now, then = _of_calls(tape, rows, resizer)
    fixed = tape.in_optimizer | _named(source, rows, OF_LISTS.match)
    known = fixed | np.isfinite(now.elements)
    # Lists of tensors have no element types: what they move goes with their elements.
    usual = _usual_growth(tape, now, then, known & ~fixed)
    grows = {
        name: np.where(fixed, 1.0, _ratio(getattr(then, name), getattr(now, name), usual))
        for name in ("flops", "bytes", "elements")
    }
    elements = np.where(known, now.elements, np.nan)
    share = _share_of_call(tape, rows)
    bytes_ = np.where(np.isfinite(recorded.bytes), recorded.bytes, now.bytes * share)
    products = source.linked.is_matrix[tape.row] & ~np.isfinite(recorded.flops)
    flops = np.where(products, now.flops * share, recorded.flops)
    return Loads(
        OpLoad(flops, bytes_, elements),
        OpLoad(flops * grows["flops"], bytes_ * grows["bytes"], elements * grows["elements"]),
        known,
    )


def _as_recorded(tape: Tape) -> OpLoad:
    """The work of a tape's ops by their models, and of copies by the recorder; elements are not
    told."""
    source = tape.source
    copied = source.trace.device_ops.bytes[tape.row].astype(np.float64)
    bytes_ = np.where(tape.copy & (copied >= 0), copied, source.roofline.bytes[tape.row])
    flops = source.roofline.flops[tape.row]
    return OpLoad(flops, bytes_, np.full(len(flops), np.nan))


def _of_calls(tape: Tape, rows: I64, resizer: Resizer) -> tuple[OpLoad, OpLoad]:
    """What the call of each op (in these host ranges) has to do, as recorded and at other sizes."""
    brings = tape.copies_of(CopyKind.HOST_TO_DEVICE)
    groups = _calls(tape.source, rows, brings)
    brought = brings[groups.first].tolist()
    calls = zip(rows[groups.first].tolist(), brought, strict=True)
    known = tape.source.memo(_Pairs)
    pairs = [known[row, brings_input, resizer] for row, brings_input in calls]
    now = _columns([pair[0] for pair in pairs], groups.index)
    then = _columns([pair[1] for pair in pairs], groups.index)
    return now, then


class _Pairs(dict[tuple[int, bool, Resizer], tuple[Totals, Totals]]):
    """What the call in a host range has to do, as recorded and at other sizes, whether it brings input
    or not: asked once for all tapes of a recording."""

    def __init__(self, source: Rated) -> None:
        super().__init__()
        self._source = source

    def __missing__(self, asked: tuple[int, bool, Resizer]) -> tuple[Totals, Totals]:
        row, brings, resizer = asked
        self[asked] = _pair(self._source, row, resizer, brings=brings)
        return self[asked]


def check_answerable(tape: Tape, loads: Loads, sizes: Sizes, what: str) -> None:
    """Raises QuestionError where too little is known, or nothing goes with the sizes."""
    time = tape.duration.astype(np.float64)
    counted = ~(tape.communication | tape.copy)
    total = float(time[counted].sum())
    unknown = float(time[counted & ~loads.known].sum())
    if total and unknown > MOST_UNKNOWN * total:
        raise QuestionError(UNKNOWN_WORK.format(share=unknown / total))
    changed = counted & (np.abs(loads.growth - 1.0) > 1e-6)
    if not total or float(time[changed].sum()) < LEAST_CHANGED * total:
        raise QuestionError(NOTHING_SCALES.format(what=what))
    products = tape.source.linked.is_matrix[tape.row] & ~tape.in_optimizer
    standing = float(time[counted & products & ~changed].sum())
    if sizes.batch_ratio != 1.0 and standing > MOST_STANDING * total:
        raise QuestionError(STANDING_PRODUCTS.format(share=standing / total, batch=sizes.now.batch))


def called_ranges(tape: Tape) -> I64:
    """For each op the host range of the operator that it is part of: the one whose model describes
    it, else the innermost that launched it; -1 without any."""
    source = tape.source
    tree = source.linked.tree
    modelled = source.roofline.row[tape.row].astype(np.int64)
    node = source.joined.launch_node[tape.row]
    inner = at(tree.operator, node, -1)
    described = at(source.trace.host_ranges.shapes, at(tree.row, inner, -1), -1) >= 0
    operator = np.where(described, inner, at(tree.outer_operator, node, -1))
    around = at(tree.row, operator, -1)
    return np.where(modelled >= 0, modelled, around).astype(np.int64)


def _share_of_call(tape: Tape, rows: I64) -> F64:
    """Share of each op in the time of all that its call launches."""
    groups = Groups.of(rows)
    time = np.maximum(tape.duration, 1).astype(np.float64)
    return np.where(rows >= 0, time / groups.sum(time)[groups.index], 1.0)


def _calls(source: Rated, rows: I64, brings: Bool) -> Groups:
    """Ops whose operators were called alike, and that alike bring input."""
    ranges = source.trace.host_ranges
    groups = Groups.of(rows >= 0, brings)
    for column in (ranges.name, ranges.shapes, ranges.dtypes, ranges.strides, ranges.concrete):
        groups = Groups.of(groups.index, at(column, rows, -1))
    return groups


def _named(source: Rated, rows: I64, test: Callable[[str], object]) -> Bool:
    names = at(source.trace.host_ranges.name, rows, -1)
    groups = Groups.of(names)
    text = source.trace.text
    codes = names[groups.first].tolist()
    found = [bool(test(text(code) or "")) for code in codes]
    return np.array(found, bool)[groups.index]


def _pair(source: Rated, row: int, resizer: Resizer, *, brings: bool) -> tuple[Totals, Totals]:
    """What the call in this host range has to do, and what it would have at the other sizes;
    `brings`: whether it brings input from the host."""
    if row < 0:
        return NOT_KNOWN, NOT_KNOWN
    call = recorded_call(source, row)
    if not call.tensors:
        return NOT_KNOWN, NOT_KNOWN
    if COMMUNICATION.match(call.name):
        return _totals_of(call, _of_messages(call, resizer))
    node = int(source.linked.tree.node_of_range[row])
    backward = node >= 0 and bool(source.joined.in_backward[node])
    return _totals_of(call, resizer.call(call, backward=backward, brings=brings))


def recorded_call(source: Rated, row: int) -> Call:
    """The call of an operator that a host range is; without inputs where none can be read."""
    ranges = source.trace.host_ranges
    text = source.trace.text
    shapes, dtypes, strides, values = (
        text(int(column[row]))
        for column in (ranges.shapes, ranges.dtypes, ranges.strides, ranges.concrete)
    )
    inputs = parse_inputs(shapes or "[]", dtypes, strides)
    return Call(text(int(ranges.name[row])) or "", inputs or (), parse_values(values))


def _of_messages(call: Call, resizer: Resizer) -> Call:
    """Activations that ranks exchange go with the sizes, buckets of gradients do not."""

    def resized(tensor: Tensor) -> Tensor:
        return tensor if len(tensor.shape) < FLAT else resizer.tensor(tensor)

    inputs = tuple(
        tuple(map(resized, one)) if isinstance(one, tuple) else one and resized(one)
        for one in call.inputs
    )
    return replace(call, inputs=inputs)


def _totals_of(now: Call, then: Call) -> tuple[Totals, Totals]:
    """What a call has to do, and the same call at other sizes. Without a model what it moves is
    that of the inputs that go with the sizes, where any do: parameters are read from a cache."""
    pairs = list(zip(now.tensors, then.tensors, strict=True))
    moving = [pair for pair in pairs if pair[0].shape != pair[1].shape] or pairs
    works = (_modelled(now), _modelled(then))
    totals = []
    for work, tensors in zip(works, zip(*moving, strict=True), strict=True):
        elements = float(sum(tensor.numel for tensor in tensors))
        moved = float(sum(one.bytes for one in tensors if np.isfinite(one.bytes))) or np.nan
        known = work is not None and None not in works
        flops = work.flops if known and work is not None else np.nan
        bytes_ = work.bytes if known and work is not None else moved
        totals.append(Totals(flops, bytes_, elements))
    return totals[0], totals[1]


def _modelled(call: Call) -> Work | None:
    model, _ = MODELS.find(call.name)
    if RECURRENT.match(call.name):
        return _recurrent(call)
    if model is None:
        return None
    try:
        return model(call)
    except (ValueError, IndexError, ArithmeticError):
        return None


def _recurrent(call: Call) -> Work | None:
    """The products of a recurrent layer: each token meets each weight, in the backward pass twice.
    What it moves is not told."""
    data = call.optional(0)
    buffer = call.optional(WEIGHTS_IN_ONE)
    listed = call.inputs[1] if len(call.inputs) > 1 else None
    weights = buffer.numel if buffer is not None else 0
    if isinstance(listed, tuple) and listed:
        weights = sum(tensor.numel for tensor in listed)
    if data is None or len(data.shape) < 2 or not weights:
        return None
    times = 2.0 if call.name.endswith("_backward") else 1.0
    rows = float(data.shape[0] * data.shape[1])
    moved = float(data.bytes) if np.isfinite(data.bytes) else np.nan
    return Work(2.0 * times * rows * weights, moved, data.dtype.precision)


def _columns(totals: list[Totals], index: I32 | I64) -> OpLoad:
    flops, bytes_, elements = np.array(
        [(one.flops, one.bytes, one.elements) for one in totals], np.float64
    ).T
    return OpLoad(flops[index], bytes_[index], elements[index])


def _usual_growth(tape: Tape, now: OpLoad, then: OpLoad, known: Bool) -> F64:
    """How many times more elements each op has; where that is not told as all described ops, by
    their time."""
    growth = _ratio(then.elements, now.elements)
    weight = np.where(known, tape.duration, 0).astype(np.float64)
    usual = float((growth * weight).sum() / weight.sum()) if weight.any() else 1.0
    return _ratio(then.elements, now.elements, usual)
