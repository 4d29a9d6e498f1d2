"""Operators on lists of tensors and fused optimizer steps: every list read once, what is updated written.

Recordings name the type of a list only as `TensorList`; it is taken from the kernel's name (`kernel_types.py`). A
list of more than 30 tensors is left out of a recording; `left_out.py` says when it is known all the same.
"""

from collections.abc import Callable

from traceanalyzer.analysis.roofline.op_models.call import Call, Work
from traceanalyzer.analysis.roofline.op_models.tensors import TensorList

ADAM_FLOPS = 14.0
"""A parameter: weight decay 2, first moment 3, second moment 4, denominator 3, update 2."""
SGD_FLOPS = 6.0
"""A parameter: weight decay 2, momentum 2, update 2."""
ADAGRAD_FLOPS = 8.0


def foreach(flops: float) -> Callable[[Call], Work]:
    """The model of `_foreach_f(list, list or scalar, ..)`: reads each list, writes one; this much work an element."""

    def model(call: Call) -> Work:
        first = call.tensor_list(0)
        lists = [given for given in call.inputs if isinstance(given, tuple) and len(given) == len(first)]
        return _updated(first, read=_bytes(*lists), written=_bytes(first), flops=flops)

    return model


def foreach_addcmul(call: Call) -> Work:
    """`_foreach_addcmul_(list, a, b, value)`: reads list and a, writes the list; 3 FLOPs an element.

    Recordings do not say whether a and b are the same tensors. Optimizers square a gradient with it
    (`exp_avg_sq.addcmul_(grad, grad)`), so b is not counted: the least that may move.
    """
    first, second = call.tensor_list(0), call.tensor_list(1)
    return _updated(first, read=_bytes(first, second), written=_bytes(first), flops=3.0)


def foreach_fill(call: Call) -> Work:
    """`_foreach_zero_(list)`: writes it."""
    first = call.tensor_list(0)
    return _updated(first, read=0.0, written=_bytes(first), flops=0.0)


def foreach_copy(call: Call) -> Work:
    """`_foreach_copy_(targets, sources)`: reads the one, writes the other."""
    first, second = call.tensor_list(0), call.tensor_list(1)
    return _updated(first, read=_bytes(second), written=_bytes(first), flops=0.0)


def foreach_norm(call: Call) -> Work:
    """`_foreach_norm(list, order)`: reads it, writes a number for each tensor; 2 FLOPs an element."""
    first = call.tensor_list(0)
    return _updated(first, read=_bytes(first), written=len(first) * first[0].dtype.bytes, flops=2.0)


def unscale(call: Call) -> Work:
    """`_amp_foreach_non_finite_check_and_unscale_(list, ..)`: reads and writes it; a product an element."""
    first = call.tensor_list(0)
    return _updated(first, read=_bytes(first), written=_bytes(first), flops=1.0)


def adam(call: Call) -> Work:
    """`_fused_adam_(parameters, gradients, first, second, largest, steps, ..)`: reads all, writes all but gradients.

    The largest second moments are kept where `amsgrad` (input 11) is set. Source: native_functions.yaml.
    """
    parameters, gradients, first, second = (call.tensor_list(i) for i in range(4))
    largest = call.tensor_list(4) if call.flag(11) else ()
    state = _bytes(parameters, first, second, largest)
    return _updated(parameters, read=_bytes(gradients) + state, written=state, flops=ADAM_FLOPS)


def sgd(call: Call) -> Work:
    """`_fused_sgd_(parameters, gradients, buffers, *, weight_decay, momentum, ..)`: reads all, gradients stay.

    Without momentum (input 4) there are no buffers.
    """
    parameters, gradients = call.tensor_list(0), call.tensor_list(1)
    momentum = call.tensor_list(2) if call.number(4) else ()
    state = _bytes(parameters, momentum)
    return _updated(parameters, read=_bytes(gradients) + state, written=state, flops=SGD_FLOPS)


def adagrad(call: Call) -> Work:
    """`_fused_adagrad_(parameters, gradients, sums, ..)`: reads all, writes all but gradients."""
    parameters, gradients, sums = (call.tensor_list(i) for i in range(3))
    state = _bytes(parameters, sums)
    return _updated(parameters, read=_bytes(gradients) + state, written=state, flops=ADAGRAD_FLOPS)


def _updated(tensors: TensorList, *, read: float, written: float, flops: float) -> Work:
    return Work(flops * sum(t.numel for t in tensors), read + written, tensors[0].dtype.precision)


def _bytes(*lists: TensorList) -> float:
    return sum((t.bytes for tensors in lists for t in tensors), 0.0)
