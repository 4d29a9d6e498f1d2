"""Compiled gradients of lookups are added up as they come; PyTorch's own are sorted first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from traceanalyzer.replay.changes.unsorted_gradients import (
    added_as_they_come,
    sorted_gradients,
)
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.replay.tape import Tape

ROWS = "[[65536, 8], [65536], [], [], []]"
INDEXED = "[[100000, 8], [[65536]], [65536, 8], [], []]"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
SORT = "DeviceRadixSortOnesweepKernel"
WEIGHTS = "void at::native::compute_grad_weight<float, long>"
SUMS = "void at::native::sum_and_scatter<float, long>"
INDEXING = "void at::native::indexing_backward_kernel_small_stride<float, float>"
BRIEF_US = 50
LONG_US = 400


def learned(name: str, shapes: str, *kernels: str) -> Measurements:
    """A network whose last gradient is that of a lookup, made by kernels that take `LONG_US` each."""

    def gradient(p: Program) -> None:
        p.spend(5).launch(FILL, BRIEF_US)
        for kernel in kernels:
            p.spend(5).launch(kernel, LONG_US)

    def step(p: Program) -> None:
        for _ in range(8):
            within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, BRIEF_US), sequence=1)
        node = "autograd::engine::evaluate_function: EmbeddingBackward0"
        within(p, node, lambda p: within(p, name, gradient, shapes=shapes))

    return program(step)


def tape_of(m: Measurements) -> Tape:
    tape = make_tape(m.rated)
    assert tape is not None
    return tape


@pytest.mark.parametrize(
    ("name", "shapes", "kernels"),
    [
        ("aten::embedding_dense_backward", ROWS, (SORT, WEIGHTS, SUMS)),
        ("aten::_index_put_impl_", INDEXED, (SORT, SORT, INDEXING)),
    ],
)
def test_one_kernel_adds_up_what_was_sorted(
    name: str, shapes: str, kernels: tuple[str, ...]
) -> None:
    m = learned(name, shapes, *kernels)
    tape = tape_of(m)
    found = sorted_gradients(tape)
    assert found.ops.sum() == len(kernels) * tape.steps
    assert found.added.sum() == 65536 * 8 * tape.steps
    left = added_as_they_come(tape, 32.0)
    spared = tape.duration.sum() - left.duration.sum()
    assert spared / tape.steps / 1000 == pytest.approx(len(kernels) * LONG_US, rel=0.05)
    compiled = step_us(m, "compile")
    assert compiled is not None
    assert compiled < 9 * BRIEF_US + 0.5 * LONG_US


@pytest.mark.parametrize(
    ("name", "shapes", "kernels"),
    [
        ("aten::embedding_dense_backward", ROWS, ("embedding_backward_feature_kernel<float>",)),
        ("aten::embedding_dense_backward", ROWS, (SORT, SUMS.replace("<float", "<c10::BFloat16"))),
        ("aten::embedding_dense_backward", "", (SORT, WEIGHTS, SUMS)),
        ("aten::sort", ROWS, (SORT, WEIGHTS, SUMS)),
    ],
    ids=["few indices", "16 bits", "no shapes", "no gradient"],
)
def test_others_stay_as_they_are(name: str, shapes: str, kernels: tuple[str, ...]) -> None:
    tape = tape_of(learned(name, shapes, *kernels))
    assert not sorted_gradients(tape).ops.any()
    assert (added_as_they_come(tape, 32.0).duration == tape.duration).all()
