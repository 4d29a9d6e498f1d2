"""A model that is called without gradients and with them, unchanged, as called once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, step_us, within
from tests.replay.changes.test_weights_cast import CAST_US, WEIGHTS, cast
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.remedies.kernels import CALLED_ONCE, MAYBE_CALLED_ONCE, no_recompute
from traceanalyzer.diagnosis.remedies.remedy import words
from traceanalyzer.replay.changes.called_again import (
    LEAST_KERNELS,
    calls_made_twice,
    have_one_input,
)
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

IDS = "[16, 768]"
LAYER_US = 50
CALL_US = LEAST_KERNELS * (LAYER_US + 1)


def call(
    p: Program, name: str, *, learns: bool, kernel: str = GEMM, layer_us: float = LAYER_US
) -> None:
    start = p.now
    p.spend(1)
    numbered = {"sequence": 7} if learns else {}
    columns = {"shapes": f"[[32000, 1024], {IDS}]", **numbered}
    within(p, "aten::embedding", lambda p: p.spend(5).launch(kernel, layer_us), **columns)
    for _ in range(LEAST_KERNELS - 1):
        within(p, "aten::mm", lambda p: p.spend(5).launch(kernel, layer_us), **numbered)
    p.spend(1)
    p.annotation(f"nn.Module: {name}", start, p.now)


def learnt(p: Program, before: str, *, kernel: str, updated: bool, other_input: bool) -> None:
    call(p, before, learns=False, kernel=kernel)
    if other_input:
        for _ in range(2):
            columns = {"shapes": f"[{IDS}, {IDS}]"}
            within(p, "aten::where", lambda p: p.spend(5).launch(ADD, 5), **columns)
    if updated:
        p.annotation("Optimizer.step#Adam.step", p.now, p.now + 5).spend(6)
    call(p, "Policy_0", learns=True)
    node = "autograd::engine::evaluate_function: MmBackward0"
    within(p, node, lambda p: p.spend(5).launch(GEMM, LAYER_US))


def learning(
    before: str = "Policy_0",
    *,
    kernel: str = GEMM,
    updated: bool = False,
    other_input: bool = False,
) -> Measurements:
    return program(
        partial(learnt, before=before, kernel=kernel, updated=updated, other_input=other_input)
    )


def test_the_call_without_gradients_is_gone() -> None:
    m = learning()
    assert step_us(m, "no_recompute") == pytest.approx(CALL_US + LAYER_US, rel=0.05)
    offer = no_recompute.offer(m)
    assert offer.action == words("no_recompute", "called_once")
    assert offer.scenario == CALLED_ONCE


def test_it_is_advised_where_the_host_sets_the_pace() -> None:
    def step(p: Program) -> None:
        call(p, "Policy_0", learns=False, layer_us=1)
        call(p, "Policy_0", learns=True, layer_us=1)
        node = "autograd::engine::evaluate_function: MmBackward0"
        within(p, node, lambda p: p.spend(5).launch(GEMM, 1))

    found = diagnose(program(step))
    assert found.findings[0].id == "launch-bound"
    assert not [one for one in found.findings if one.cls == "compute"]
    assert "no_recompute" in [one.remedy for one in found.recommendations]


def test_where_inputs_may_differ_it_may_not_help() -> None:
    m = learning(other_input=True)
    tape = make_tape(m.rated)
    assert tape is not None
    assert not have_one_input(tape)
    assert no_recompute.offer(m).scenario == MAYBE_CALLED_ONCE


@pytest.mark.parametrize(
    "m",
    [learning("Reference_1"), learning(updated=True), learning(kernel=ADD)],
    ids=["another model", "updated in between", "other kernels"],
)
def test_other_calls_stay(m: Measurements) -> None:
    tape = make_tape(m.rated)
    assert tape is not None
    assert not calls_made_twice(tape).any()


def cast_call(p: Program, *, learns: bool, casts: bool) -> None:
    """A call of a model whose layers have fp32 weights under an autocast: the first call casts them."""
    start = p.now
    p.spend(1)

    def linear(p: Program) -> None:
        if casts:
            cast(p, WEIGHTS, CAST_US)
        within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, LAYER_US))

    for _ in range(LEAST_KERNELS):
        columns = {"shapes": f"[[8, 1024], {WEIGHTS}]", "dtypes": p.code('["float", "float"]')}
        within(p, "aten::linear", linear, **columns, **({"sequence": 7} if learns else {}))
    p.spend(1)
    p.annotation("nn.Module: Policy_0", start, p.now)


def twice(p: Program, *, learns_first: bool) -> None:
    cast_call(p, learns=learns_first, casts=True)
    cast_call(p, learns=not learns_first, casts=False)
    node = "autograd::engine::evaluate_function: MmBackward0"
    within(p, node, lambda p: p.spend(5).launch(GEMM, LAYER_US))


@pytest.mark.parametrize("learns_first", [True, False])
def test_the_weights_are_cast_by_the_call_that_stays(learns_first: bool) -> None:
    m = program(partial(twice, learns_first=learns_first))
    once = LEAST_KERNELS * (CAST_US + LAYER_US) + LAYER_US
    assert step_us(m, "no_recompute") == pytest.approx(once, rel=0.05)
