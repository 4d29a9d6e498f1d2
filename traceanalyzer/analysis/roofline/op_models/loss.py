"""Losses, forward and backward."""

from traceanalyzer.analysis.roofline.op_models.call import Call, Model, Work, read


def nll(call: Call) -> Work:
    """`nll_loss_forward(x[n,c], target[n], weight, ..)`: reads the target and one element of x for each."""
    x, target = call.tensor(0), call.tensor(1)
    traffic = read(target, call.optional(2)) + target.numel * x.dtype.bytes + 2 * x.dtype.bytes
    return Work(float(target.numel), traffic, x.dtype.precision)


def nll_backward(call: Call) -> Work:
    """`nll_loss_backward(grad, x, target, weight, ..)`: reads gradient and target, writes a gradient like x (zeros)."""
    grad, x, target = call.tensor(0), call.tensor(1), call.tensor(2)
    return Work(float(target.numel), read(grad, target, call.optional(3)) + x.dense_bytes, x.dtype.precision)


def compared(flops: float) -> Model:
    """The model of a loss of `f(x, target, .., reduction)`, as of `mse_loss`: reads both, writes the mean or each.

    Reduction is input 2: 0 is none (each element is written), else one number is.
    """

    def model(call: Call) -> Work:
        x, target = call.tensor(0), call.tensor(1)
        each = len(call.values) > 2 and call.values[2] == "0"
        written = x.dense_bytes if each else x.dtype.bytes
        return Work(flops * x.numel, read(x, target) + written, x.dtype.precision)

    return model
