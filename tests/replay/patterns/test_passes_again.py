"""Backward passes through one graph, one after the other, as one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, step_us, within
from traceanalyzer.diagnosis.remedies.loops import batch_calls
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.patterns.passes_again import FEWEST_PASSES, passes_again
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

LAYERS = 5
PASSES = 30
LAUNCH_US = 20
SMALL = {"blocks": 4}


def small(p: Program, kernel: str, us: float) -> None:
    p.spend(LAUNCH_US - 4).launch(kernel, us)
    p.rows["op"][-1] |= SMALL


def backward(p: Program, numbers: list[int]) -> None:
    for number in reversed(numbers):
        node = "autograd::engine::evaluate_function: MmBackward0"
        within(p, node, lambda p: small(p, GEMM, 5), sequence=number, forward_thread=1)


def sloped(p: Program, passes: int, own_graphs: bool) -> None:
    """A network, and a backward pass for each of its outputs."""
    graph = list(range(LAYERS))
    for number in graph:
        within(p, "aten::mm", lambda p: small(p, GEMM, 5), sequence=number)
    for turn in range(passes):
        within(p, "aten::fill_", lambda p: small(p, ADD, 2))
        head = 100 + turn
        numbers = [one + 10 * (turn + 1) for one in graph] if own_graphs else graph
        backward(p, [*numbers, head])


def sloping(passes: int = PASSES, *, own_graphs: bool = False) -> Measurements:
    return program(partial(sloped, passes=passes, own_graphs=own_graphs))


def test_all_passes_take_the_launches_of_one() -> None:
    m = sloping()
    tape = make_tape(m.rated)
    assert tape is not None
    found = passes_again(tape)
    assert found is not None
    assert int(found.first.sum()) == LAYERS * tape.steps
    assert set(found.count[found.first].tolist()) == {PASSES}
    offer = batch_calls.offer(m)
    assert offer is not None
    assert offer.action == words("batch_calls", "passes")
    launches = 2 * LAYERS + 4
    assert step_us(m, "batch_calls") == pytest.approx(launches * LAUNCH_US, rel=0.25)


def test_the_graph_of_the_gradients_has_work_of_its_own() -> None:
    """A loss of gradients (create_graph=True): its backward pass goes through them, and on."""
    of_gradients = list(range(200, 200 + 4 * LAYERS))

    def step(p: Program) -> None:
        sloped(p, 2 * FEWEST_PASSES, own_graphs=False)
        backward(p, [*range(LAYERS), *of_gradients])

    tape = make_tape(program(step).rated)
    assert tape is not None
    found = passes_again(tape)
    assert found is not None
    left = ~(found.first | found.again)
    forward_and_gradients = LAYERS + len(of_gradients)
    assert int(left.sum()) >= forward_and_gradients * tape.steps


@pytest.mark.parametrize(
    "m", [sloping(own_graphs=True), sloping(FEWEST_PASSES - 1)], ids=["own graphs", "few"]
)
def test_passes_through_graphs_of_their_own_stay(m: Measurements) -> None:
    tape = make_tape(m.rated)
    assert tape is not None
    assert passes_again(tape) is None
