"""Operators on lists of tensors and fused optimizer steps: every list read once, what is updated written.

Recordings name the type of a list only as `TensorList`; it is taken from the kernel's name (`tensors.py`). A
list of more than 30 tensors is left out of a recording; `left_out.py` says when it is known all the same.
"""

from collections.abc import Callable

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, Work
from traceanalyzer.analysis.roofline.op_models.tensors import TensorList

ADAM_FLOPS = 14.0
"""A parameter: weight decay 2, first moment 3, second moment 4, denominator 3, update 2."""
SGD_FLOPS = 6.0
"""A parameter: weight decay 2, momentum 2, update 2."""
ADAGRAD_FLOPS = 8.0


def foreach(flops: float) -> Model:
    """The model of `_foreach_f(list, list or scalar, ..)`: reads each list, writes one; this much work an element."""

    def model(call: Call) -> Work:
        first = call.tensor_list(0)
        lists = [given for given in call.inputs if isinstance(given, tuple) and len(given) == len(first)]
        return _updated(first, read=_bytes(*lists), written=_bytes(first), flops=flops)

    return model


def listed(flops: float, reads: tuple[int, ...] = (0,)) -> Model:
    """The model of an operator that reads these lists and writes the first, with this much work an element.

    Recordings do not say whether two lists are the same tensors. Optimizers square a gradient with `_foreach_addcmul_`
    (`exp_avg_sq.addcmul_(grad, grad)`), so its last list is not counted: the least that may move.
    """

    def model(call: Call) -> Work:
        first = call.tensor_list(0)
        return _updated(first, read=_bytes(*map(call.tensor_list, reads)), written=_bytes(first), flops=flops)

    return model


def foreach_norm(call: Call) -> Work:
    """`_foreach_norm(list, order)`: reads it, writes a number for each tensor; 2 FLOPs an element."""
    first = call.tensor_list(0)
    return _updated(first, read=_bytes(first), written=len(first) * first[0].dtype.bytes, flops=2.0)


def fused(flops: float, state: tuple[int, ...], kept: Callable[[Call], tuple[int, ...]] = lambda _: ()) -> Model:
    """The model of `_fused_adam_(parameters, gradients, first, second, largest, steps, ..)` and its kin: reads
    gradients and the lists of its state, parameters among them, and writes the latter; some are `kept` by its settings.
    Source: native_functions.yaml."""

    def model(call: Call) -> Work:
        parameters, gradients = call.tensor_list(0), call.tensor_list(1)
        moved = _bytes(parameters, *map(call.tensor_list, (*state, *kept(call))))
        return _updated(parameters, read=_bytes(gradients) + moved, written=moved, flops=flops)

    return model


adam = fused(ADAM_FLOPS, (2, 3), lambda call: (4,) if call.flag(11) else ())
"""The largest second moments are kept where `amsgrad` is set."""
sgd = fused(SGD_FLOPS, (), lambda call: (2,) if call.number(4) else ())
"""Without momentum there are no buffers."""
adagrad = fused(ADAGRAD_FLOPS, (2,))


def _updated(tensors: TensorList, *, read: float, written: float, flops: float) -> Work:
    return Work(flops * sum(t.numel for t in tensors), read + written, tensors[0].dtype.precision)


def _bytes(*lists: TensorList) -> float:
    return sum((t.bytes for tensors in lists for t in tensors), 0.0)
