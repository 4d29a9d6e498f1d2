"""An optimizer on the host: gradients go there at the end of a step, weights come back in the next."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, copy, program, step_us
from traceanalyzer.replay.changes.data.offloaded import LEAST_TENSORS
from traceanalyzer.trace import CopyKind

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program

SIZES = [1 << (14 + place % 4) for place in range(LEAST_TENSORS)]
COPY_US = 50
COMPUTE_US = 400
UPDATE_US = 3000


def trained(p: Program, sizes: list[int], back: list[int]) -> None:
    """A step that begins with the weights of the last update and ends with that of the host."""
    for size in back:
        copy(p, COPY_US, CopyKind.HOST_TO_DEVICE, size)
    p.launch(GEMM, COMPUTE_US)
    for size in sizes:
        copy(p, COPY_US, CopyKind.DEVICE_TO_HOST, size)
    p.sync().spend(UPDATE_US)


def test_an_optimizer_with_its_state_stays_on_the_device() -> None:
    m = program(partial(trained, sizes=SIZES, back=SIZES))
    found = step_us(m, "keep_on_device")
    assert found is not None
    assert COMPUTE_US <= found < 1.5 * COMPUTE_US  # neither copies nor the update, both far longer


@pytest.mark.parametrize(
    ("sizes", "back"),
    [
        (SIZES, [*SIZES[1:], 1 << 20]),
        (SIZES[1:], SIZES[1:]),
        (SIZES, SIZES[1:]),
    ],
    ids=["another size", "too few", "one less"],
)
def test_results_and_inputs_are_no_way_back(sizes: list[int], back: list[int]) -> None:
    m = program(partial(trained, sizes=sizes, back=back))
    assert step_us(m, "keep_on_device") is None
