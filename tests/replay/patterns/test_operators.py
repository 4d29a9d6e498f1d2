"""What a recording says of operators, read once for each kind; and what has a name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.diagnosis.test_remedies import GEMM, Program, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from tests.replay.patterns.operators import op
from traceanalyzer.replay.patterns.named import (
    are_named,
    kernels_named,
    launched_within,
    operators_named,
)
from traceanalyzer.replay.patterns.operators import Operator, count, operators


def test_shapes_are_of_tensors_and_lists_apart() -> None:
    one = op("index_put", [8, 4], [[8], [8]], [4], values=["", "", "", "True"])
    assert one.shapes == [(8, 4), (4,)]
    assert one.lists == [[(8,), (8,)]]
    assert (one.first, one.first_tensor, one.listed) == ((8, 4), (8, 4), [])
    assert one.values[-1] == "True"


def test_a_list_first_is_what_is_listed() -> None:
    one = op("cat", [[2, 3], [2, 5]], [])
    assert one.listed == [(2, 3), (2, 5)]
    assert one.first == ()


@pytest.mark.parametrize("shapes", [None, "", "[[-1]]", "no shapes", "[[1, 2], {}]"])
def test_what_is_not_recorded_or_damaged_takes_nothing(shapes: str | None) -> None:
    one = Operator("aten::mm", (shapes, None, "no values"))
    assert (one.inputs, one.typed, one.shapes, one.lists, one.values) == ((), (), [], [], ())


def test_element_types_that_do_not_fit_leave_the_shapes() -> None:
    one = Operator("aten::mm", ("[[4, 4], [4, 4]]", '["float"]', None))
    assert one.shapes == [(4, 4), (4, 4)]
    assert one.typed == ()


def test_operators_are_counted_by_name() -> None:
    assert count([op("mul"), op("mul_"), op("matmul")], re.compile(r"^aten::mul_?$")) == 2


def step(p: Program) -> None:
    within(p, "aten::linear", lambda p: call(p.spend(1), "addmm", "[8]", "[4, 4]", kernel=GEMM))
    call(p, "relu", "[4, 8]")


def test_operators_of_a_recording_are_read_once() -> None:
    tape = tape_of(step)
    known = operators(tape.source.linked)
    outer = tape.source.linked.tree.outermost_operators
    found = known.of_nodes(np.append(outer, -1))
    assert [one.name for one in found[:2]] == ["aten::linear", "aten::relu"]
    assert found[-1].name == ""
    assert found[0] is found[2], "the next step's is the same"
    asked: list[Operator] = []
    assert len(known.tell(outer, lambda one: asked.append(one))) == len(outer)
    assert len(asked) == 2


def test_what_has_a_name() -> None:
    tape = tape_of(step)
    linear, relu, add = (re.compile(name) for name in ("^aten::linear$", "^aten::relu$", "addmm"))
    products = launched_within(tape, linear)
    assert (products == kernels_named(tape, re.compile("gemm"))).all()
    assert (products == launched_within(tape, add)).all(), "an operator within counts, too"
    assert (launched_within(tape, relu) == ~products).all()
    outer = tape.of_launches(tape.source.linked.tree.outer_operator)
    assert (are_named(tape.source.linked, outer, linear) == products).all()
    assert not are_named(tape.source.linked, outer, add).any(), "only what is asked for itself"
    assert (
        operators_named(tape.source.linked, add).sum()
        == operators_named(tape.source.linked, linear).sum()
    )
