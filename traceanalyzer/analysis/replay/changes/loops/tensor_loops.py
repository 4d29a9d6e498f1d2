"""Loops over weights or gradients: the same few elementwise operators on one tensor after the other, as lists.

What such a loop does to one tensor cannot need what it did to another of another size, so sizes tell it from a chain of
operators on the same data: in a loop each operator has tensors of one size, and the next tensor's is another.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.analysis.replay.changes.optimizer import by_lists, updating
from traceanalyzer.analysis.replay.changes.sequences import launching
from traceanalyzer.analysis.replay.on_tape import copies_of
from traceanalyzer.analysis.roofline.op_models.tensors import Tensor, parse_inputs
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.changes.sequences import Launching
    from traceanalyzer.analysis.replay.tape import Tape
    from traceanalyzer.analysis.roofline.op_models.tensors import Shape
    from traceanalyzer.trace import I32, I64, Bool

FEWEST_OPERATORS = 24
"""Operators of a loop at least: fewer launches are not worth another way to write it."""
FEWEST_SIZES = 8
"""Times that the next tensor must have another size than the one before: fewer may be a chain that reduces."""
LONGEST_BODY = 12
"""Operators on one tensor at most: an optimizer has no more."""
ALIKE = 0.9
"""Share of the operators that are the same as so many before: weights without a decay, say, may have one fewer."""
EACH = re.compile(
    r"^aten::(_foreach_\w+|mul_?|add_?|sub_?|div_?|copy_|clone|to|lerp_?|addcmul_?|addcdiv_?|r?sqrt_?|neg_?|abs_?|sign_?"
    r"|pow_?|square_?|exp_?|clamp_?|clamp_m(in|ax)_?|reciprocal_?|maximum|minimum|zero_|norm|linalg_norm|linalg_vector_norm"
    r"|sum|isfinite|isnan|isinf|all|any)$"
)
"""Operators that PyTorch also has for lists of tensors, or that a norm of each says as much as."""


class Loops(NamedTuple):
    """Loops over tensors on a tape."""

    number: I64
    """For each op the loop that launches it, -1 without."""
    names: tuple[str, ...]
    """What their operators are called, in order."""


def tensors_listed(tape: Tape) -> Tape | None:
    """Each operator of such a loop takes a few dozen tensors in one launch; None without one outside the optimizer."""
    found = tensor_loops(tape)
    return None if found is None else by_lists(tape, found.number)


def tensor_loops(tape: Tape) -> Loops | None:
    """Loops over tensors outside the optimizer; None without any."""
    calls = launching(tape)
    kinds, kind = np.unique(np.stack((calls.name, calls.shapes)), axis=1, return_inverse=True)
    kind, sizes = kind.reshape(-1), [_size(tape, name, shapes) for name, shapes in kinds.T.tolist()]
    usable = np.array([size is not None for size in sizes], bool)[kind]
    usable &= ~calls.backward & _on_device(tape, calls)
    number, loops, names = np.full(len(kind), -1, np.int64), 0, set()
    for first, stop in _runs(usable, calls.step):
        mine = [sizes[one] for one in kind[first:stop].tolist()]
        if _is_loop(calls.name[first:stop], mine):
            number[first:stop] = loops
            loops += 1
            names |= set(calls.name[first:stop].tolist())
    texts = tuple(sorted(tape.source.trace.text(one) or "" for one in names))
    return Loops(calls.of_ops(number, len(tape.row)), texts) if loops else None


def _size(tape: Tape, name: int, shapes: int) -> Shape | None:
    """The size of the one tensor, or of the tensors of one size, that such an operator works on, () for a number; None
    for other operators."""
    trace = tape.source.trace
    if name < 0 or not EACH.match(trace.text(name) or ""):
        return None
    inputs = parse_inputs(trace.text(shapes) or "", None, None) if shapes >= 0 else None
    if not inputs:
        return None
    lists = [one for one in inputs if isinstance(one, tuple)]
    if any(len(one) != 1 for one in lists):
        return None
    tensors = [one[0] if isinstance(one, tuple) else one for one in inputs]
    found = {one.shape for one in tensors if isinstance(one, Tensor) and one.numel > 1}
    return None if len(found) > 1 else next(iter(found), ())


def _on_device(tape: Tape, calls: Launching) -> Bool:
    """Which of these operators launch nothing but kernels and copies within the device, outside an optimizer's step."""
    away = copies_of(tape, CopyKind.HOST_TO_DEVICE) | copies_of(tape, CopyKind.DEVICE_TO_HOST) | updating(tape)
    result: Bool = ~np.logical_or.reduceat(away, calls.first) if len(away) else np.zeros(0, bool)
    return result


def _runs(usable: Bool, step: I32) -> list[tuple[int, int]]:
    """Stretches of usable operators within a step."""
    new = np.diff(np.where(usable, step, -1), prepend=-2) != 0
    edge = np.flatnonzero(np.append(new, True))
    pairs = zip(edge[:-1].tolist(), edge[1:].tolist(), strict=True)
    return [(first, stop) for first, stop in pairs if usable[first] and stop - first >= FEWEST_OPERATORS]


def _is_loop(names: I32, sizes: list[Shape | None]) -> bool:
    """Whether the same few operators come again and again, and sizes change often."""
    tensors = [size for size in sizes if size]
    changes = sum(a != b for a, b in pairwise(tensors))
    alike = max(float((names[body:] == names[:-body]).mean()) for body in range(1, LONGEST_BODY + 1))
    return changes >= FEWEST_SIZES and alike >= ALIKE
