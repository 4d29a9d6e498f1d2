"""Gradients of embeddings on both sides of the number of indices from which PyTorch sorts them."""

from functools import partial

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import program, within
from traceanalyzer.replay.patterns.parameters import Parameters
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Resizer, Sizes
from traceanalyzer.replay.unmade.sorted_gradients import with_sorted_gradients

FEW = (
    "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>"
)
SORT = "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel"
SUMS = "void at::native::(anonymous namespace)::compute_grad_weight<float, long>"


def gradient(p: Program, indices: int, kernels: list[str]) -> None:
    columns = {
        "shapes": f"[[{indices},64],[{indices}],[],[],[]]",
        "dtypes": p.code('["float","long int","Scalar","Scalar","Scalar"]'),
    }

    def launches(p: Program) -> None:
        for kernel in kernels:
            p.spend(10).launch(kernel, 20)

    within(p, "aten::embedding_dense_backward", launches, **columns)


def at_batch(now: int, then: int, kernels: list[str]) -> tuple[Tape, Tape]:
    tape = make_tape(program(partial(gradient, indices=now, kernels=kernels)).rated)
    assert tape is not None
    sizes = Sizes(Dimensions(now, None), then, None)
    return tape, with_sorted_gradients(tape, Resizer(sizes, Parameters(frozenset(), frozenset())))


def test_many_indices_are_sorted_first() -> None:
    tape, made = at_batch(2048, 8192, [FEW])
    assert (made.duration - tape.duration).tolist() == [75_000] * len(tape.duration)
    usual = np.median(tape.dispatch[tape.dispatch > 0])
    more = (made.dispatch - tape.dispatch)[tape.event]
    assert more == pytest.approx(29 * 0.5 * usual, abs=1)


def test_few_indices_are_not_sorted() -> None:
    tape, made = at_batch(8192, 2048, [SORT, SORT, SUMS])
    assert (made.duration.reshape(-1, 3) == [0, 0, 20_000]).all()
    assert not made.dispatch[tape.event].reshape(-1, 3)[:, :2].any()


@pytest.mark.parametrize(("now", "then"), [(512, 2048), (8192, 32768)])
def test_on_one_side_nothing_changes(now: int, then: int) -> None:
    tape, made = at_batch(now, then, [FEW if now < 3072 else SORT])
    assert (made.duration == tape.duration).all()
    assert (made.dispatch == tape.dispatch).all()
