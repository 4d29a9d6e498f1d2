"""What operators take and give, and which runs of them are a chain."""

from __future__ import annotations

import pytest

from tests.replay.patterns.operators import linear, op
from traceanalyzer.replay.patterns.operators import Operator, flow, is_chain, output_shape


def part(number: int, *shape: int) -> Operator:
    return op("select", list(shape), [], [], values=["", "0", str(number)])


@pytest.mark.parametrize(
    ("one", "takes", "gives"),
    [
        (linear(6, 4, 8), (6, 4), (6, 8)),
        (op("mm", [6, 4], [4, 8]), (6, 4), (6, 8)),
        (op("addmm", [8], [6, 4], [4, 8]), (6, 4), (6, 8)),
        (op("relu", [6, 8]), (6, 8), (6, 8)),
        (op("copy_", [6, 8], [8]), (8,), (6, 8)),
        (op("conv2d", [1, 3, 8, 8], [4, 3, 3, 3]), None, None),
        (op("matmul", [2, 6, 4], [2, 4, 8]), None, None),
        (op("linear", [6, 4]), None, None),
        (op("batch_norm", [6, 8], [8], [8], [8], [8]), (6, 8), (6, 8)),
        (op("l1_loss", [6, 8], [6, 8], [], values=["", "", "1"]), (6, 8), ()),
        (op("l1_loss", [6, 8], [6, 8], [], values=["", "", "0"]), None, None),
        (op("l1_loss", [6, 8], [6, 8], []), (6, 8), ()),
        (op("cross_entropy_loss", [6, 8], [6], [], [], values=["", "", "", "1"]), (6, 8), ()),
        (op("mean", [6, 8], [], values=["", ""]), (6, 8), ()),
        (op("mean", [6, 8], [], [], values=["", "[1]", "False"]), None, None),
        (op("mean", [6, 8]), None, None),
        (op("add", [], [], [], values=["", "", "1"]), (), ()),
        (op("add", [], [], []), (), ()),
    ],
)
def test_what_an_operator_takes_and_gives(one: Operator, takes: object, gives: object) -> None:
    assert flow(one) == (takes, gives)
    assert output_shape(one) == gives


def test_a_sum_gives_as_much_as_its_larger_operand() -> None:
    assert output_shape(op("add", [8], [6, 8])) == (6, 8)
    assert flow(op("add", [8], [6, 8])).gives is None, (
        "which of them comes from the operator before is not known"
    )


HEAD = (linear(6, 4, 32), op("relu", [6, 32]), linear(6, 32, 2))
OF_PART = (op("mm", [1, 8], [8, 2]), op("mm", [1, 2], [2, 8]))
OWN = (part(1, 12, 1, 8), *OF_PART, part(1, 12, 1, 8), op("copy_", [1, 8], [1, 8]))
OTHER = (part(1, 12, 1, 8), *OF_PART, part(2, 12, 1, 8), op("copy_", [1, 8], [1, 8]))


@pytest.mark.parametrize(
    ("run", "chain"),
    [
        (HEAD, True),
        ((*HEAD, op("index_add", [6, 2])), False),
        ((linear(6, 4, 32), linear(6, 16, 2)), False),
        ((op("relu", [6, 4]), op("exp", [6, 4])), False),
        ((linear(6, 4, 32), linear(6, 32, 4)), False),
        ((part(0, 12, 6, 4), linear(6, 4, 32), linear(6, 32, 4)), True),
        ((part(0, 7, 3, 4), linear(6, 4, 32), linear(6, 32, 4)), False),
        (OWN, True),
        (OTHER, False),
        (OWN[:-1], False),
        ((), False),
    ],
    ids=[
        "network",
        "ends elsewhere",
        "a gap",
        "no product",
        "a layer",
        "of a part",
        "of no part",
        "own part",
        "another's part",
        "a part for nothing",
        "nothing",
    ],
)
def test_a_chain_takes_what_the_one_before_gives(run: tuple[Operator, ...], chain: bool) -> None:
    assert is_chain(run) == chain
