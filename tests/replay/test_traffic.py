"""What kernels move where they are merged or in 16 bits, and the casts that the host launches
then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, program, within
from traceanalyzer.analysis.groups.passes import crossing
from traceanalyzer.replay.changes.precision import USUAL, in_16_bits
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

NO = np.zeros(3, bool)


@pytest.mark.parametrize(
    ("traffic", "out", "reducing", "moved"),
    [
        ([2, 2, 2], [1, 1, 1], [], [1, 0, 1]),  # one tensor goes through: read once, written once
        ([2, 3, 2], [1, 1, 1], [], [1, 1, 1]),  # the second reads another tensor, too
        ([2, 2, 1], [1, 1, 0], [2], [1, 0, 0]),  # a sum at the end leaves (nearly) nothing
        (
            [1, 2, 2],
            [0, 1, 1],
            [0],
            [1, 0, 1],
        ),  # what was reduced first is read by the next: told apart
    ],
)
def test_what_a_run_moves_is_what_comes_in_and_goes_out(
    traffic: list[float], out: list[float], reducing: list[int], moved: list[float]
) -> None:
    reduces = NO.copy()
    reduces[reducing] = True
    found = crossing(
        np.zeros(3, np.int64), np.array(traffic, float) * 1e6, np.array(out, float) * 1e6, reduces
    )
    assert (found / 1e6).tolist() == moved


def test_runs_hand_nothing_to_each_other() -> None:
    found = crossing(np.array([0, 1, -1]), np.full(3, 2.0), np.full(3, 1.0), NO)
    assert found.tolist() == [2.0, 2.0, 0.0]


def tape_of(step: partial[None]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def in_fp32(p: Program, *, us: float, dispatch: float = 10, kernel: str = ADD) -> None:
    def one(name: str, shapes: str, kernel: str, us: float) -> None:
        dtypes = p.code('["float","float"]')
        within(
            p, name, lambda p: p.spend(dispatch).launch(kernel, us), shapes=shapes, dtypes=dtypes
        )

    for _ in range(5):
        one("aten::mm", "[[4096,1024],[1024,1024]]", "ampere_sgemm_128x64_nn", 30)
        one("aten::add", "[[32000,4096],[32000,4096]]", kernel, us)


def test_16_bits_halve_the_traffic_of_kernels_that_are_limited_by_it() -> None:
    saved = {}
    for us in (400, 4000):
        tape = tape_of(partial(in_fp32, us=us))
        found = in_16_bits(USUAL)(tape)
        assert found is not None
        saved[us] = 1 - float(found.duration.sum() / tape.duration.sum())
    assert saved[400] > 0.25
    assert saved[4000] < 0.1


def test_kernels_that_index_each_number_are_hardly_faster_in_16_bits() -> None:
    """The same bytes, by PyTorch's kernel for operands that do not lie alike."""
    indexing = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<BinaryFunctor<float>>>"
    left = {}
    for kernel in (ADD, indexing):
        tape = tape_of(partial(in_fp32, us=400, kernel=kernel))
        found = in_16_bits(USUAL)(tape)
        assert found is not None
        left[kernel] = float(found.duration.max() / 400e3)
    assert left[ADD] == pytest.approx(0.6)
    assert left[indexing] == pytest.approx(0.85)


def test_the_host_launches_casts() -> None:
    tape = tape_of(partial(in_fp32, us=2))
    found = in_16_bits(USUAL)(tape)
    assert found is not None
    assert found.dispatch.sum() > 1.1 * tape.dispatch.sum()
