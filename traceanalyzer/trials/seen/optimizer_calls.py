"""What optimizers are given in the first steps: the norm of each gradient, and the rates of the
update. Adam hides how long a gradient is, so neither losses nor weights show a gradient that was
not clipped, or a loss that was scaled."""

from collections.abc import Iterator
from numbers import Real
from typing import Any

MOST_CALLS = 40  # calls of optimizers that are kept: ten steps of four
MOST_TENSORS = 2000  # of one call


class OptimizerCalls:
    """Keeps tensors of the device until they are read."""

    def __init__(self) -> None:
        self._norms: list[list[Any]] = []
        self._scales: list[Any] = []  # by call what a GradScaler has multiplied the gradients by
        self._overflows: list[Any] = []  # by call whether a GradScaler found an infinite one
        self._rates: list[list[Any]] = []
        self._hook: Any = None

    def install(self) -> None:
        """See from now on."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._hook = register_optimizer_step_pre_hook(self._note)

    def remove(self) -> None:
        """See no more."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def read(self) -> tuple[list[list[float]], list[list[float]]]:
        """By call the norms of the gradients, 0 where there is none, and the rates."""
        norms: list[list[float]] = []
        rates: list[list[float]] = []
        kept = zip(self._norms, self._scales, self._overflows, self._rates, strict=True)
        for of_call, scale, overflow, rates_of_call in kept:
            # other implementations of the optimizer are not called at all then
            if overflow is not None and float(overflow):
                continue
            scaled_by = 1.0 if scale is None else float(scale)
            norms.append([float(norm) / scaled_by for norm in of_call])
            rates.append([float(rate) for rate in rates_of_call])
        return norms, rates

    def _note(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        full = len(self._norms) >= MOST_CALLS
        if full or torch.compiler.is_compiling() or _captures(torch):
            return
        groups = optimizer.param_groups
        weights = [weight for group in groups for weight in group["params"]]
        with torch.no_grad():
            self._norms.append([_norm_of(one.grad) for one in weights[:MOST_TENSORS]])
            self._scales.append(_copied(getattr(optimizer, "grad_scale", None)))
            self._overflows.append(_copied(getattr(optimizer, "found_inf", None)))
            self._rates.append([_copied(rate) for group in groups for rate in _rates_of(group)])


def _captures(torch: Any) -> bool:
    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _norm_of(grad: Any) -> Any:
    """The norm of a gradient, as a tensor: it is read after the timed steps."""
    import torch

    if grad is None:
        return 0.0
    # a sharded tensor's own part: the norm of all of it would be a collective
    own = grad.to_local() if hasattr(grad, "to_local") else grad
    own = own.detach()
    own = own.coalesce().values() if own.is_sparse else own
    return torch.linalg.vector_norm(own.abs() if own.is_complex() else own, dtype=torch.float32)


def _rates_of(group: dict[str, Any]) -> Iterator[Any]:
    """The numbers of a parameter group, as its learning rate, in the order of their names. Switches
    of the implementation, as `fused`, are none."""
    for name in sorted(set(group) - {"params"}):
        values = group[name] if isinstance(group[name], tuple | list) else [group[name]]
        yield from (one for one in values if _is_rate(one))


def _is_rate(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number or (hasattr(value, "numel") and value.numel() == 1)


def _copied(value: Any) -> Any:
    """A value that is changed in place later, as it is now."""
    return value.detach().clone() if hasattr(value, "detach") else value
