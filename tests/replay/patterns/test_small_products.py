"""Small products of one shape in a row: which of them need nothing of each other, by what a
recording shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.build import TraceBuilder
from tests.analysis.roofline.test_roofline import GEMM, TABLE, op
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.replay.patterns.small_products import SmallProducts, small_product_runs
from traceanalyzer.trace import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

BF16 = "c10::BFloat16"
SQUARE = "[64,64],[64,64]"
View = tuple[str, str, str]
TAKEN: View = ("aten::select", "[[4,64,64],[],[]]", '["", "0", "1"]')
LINEAR = "[1,69,64],[64,64],[64]"
HEADS: list[View] = [
    ("aten::view", "[[1,69,64],[]]", '["", "[1, 69, 4, 16]"]'),
    ("aten::transpose", "[[1,69,4,16],[],[]]", '["", "1", "2"]'),
]
BACK: View = ("aten::view", "[[1,4,69,16],[]]", '["", "[1, 69, 64]"]')


def runs_of(
    shapes: str, views: Sequence[View] = (), first: Sequence[View] = (), name: str = "mm"
) -> SmallProducts | None:
    """The runs of three products with these views after each, and others before the first."""
    b = TraceBuilder()
    for i, (view, taken, values) in enumerate(first):
        b.op(view, 2 * i, 2 * i + 1, shapes=taken, concrete=b.code(values))
    types = ",".join([f'"{BF16}"'] * shapes.count("["))
    for i in range(3):
        at = 100 + i * 50
        one = (GEMM, at + 10, at + 15, {"blocks": 1, "threads": 128})
        op(b, f"aten::{name}", at, f"[{shapes}]", f"[{types}]", one)
        for k, (view, taken, values) in enumerate(views):
            b.op(view, at + 20 + 2 * k, at + 21 + 2 * k, shapes=taken, concrete=b.code(values))
    rated = measure(b.build(devices=(Device(0, "round"),)), Knowledge(hardware=TABLE)).rated
    return small_product_runs(rated, np.ones(3, bool))


def in_a_row(
    shapes: str, views: Sequence[View] = (), first: Sequence[View] = (), name: str = "mm"
) -> float | None:
    """How many of these products are one; None for none."""
    found = runs_of(shapes, views, first, name)
    return None if found is None else found.in_a_row


@pytest.mark.parametrize(
    ("shapes", "name", "found"),
    [
        (SQUARE, "mm", None),  # layers: each may take what the one before it gave
        ("[32,64],[64,64]", "mm", None),
        (
            "[32,32],[32,64]",
            "mm",
            None,
        ),  # the matrix on the left may be the same, and the other side goes on
        ("[2,32,64],[2,64,64]", "bmm", None),
        ("[64,64],[64]", "mv", None),
        ("[32,64],[64,32]", "mm", 3),
        ("[2,32,64],[2,64,32]", "bmm", 3),
        ("[32],[32,64],[64,32]", "addmm", 3),
        ("[64],[64,32],[32,64]", "addmm", 3),  # a layer's weights are as large as its result
        ("[64,32],[64,32],[32,32]", "addmm", None),  # what is added to may be the product before
        (LINEAR, "linear", None),
        ("[4,32,64],[128,64],[128]", "linear", 3),
    ],
)
def test_what_gives_another_size_than_it_takes_needs_nothing_of_its_kind(
    shapes: str, name: str, found: int | None
) -> None:
    assert in_a_row(shapes, name=name) == found


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ([("aten::unbind", "[[3,64,64],[]]", '["", "0"]')] * 2, 3),
        (
            [("aten::unbind", "[[3,64,64],[]]", '["", "0"]')],
            None,
        ),  # of weights alone: the data may go from one to the next
        ([("aten::unbind", "[[64,6,64],[]]", '["", "-2"]')], 3),
        ([("aten::split", "[[384,64],[],[]]", '["", "64", "0"]')], 3),
        ([("aten::chunk", "[[64,384],[],[]]", '["", "6", "1"]')], 3),
        ([("aten::slice", "[[384,64],[],[],[],[]]", '["", "0", "0", "64", "1"]')] * 6, 3),
        ([("aten::narrow", "[[384,64],[],[],[]]", '["", "0", "64", "64"]')] * 6, 3),
        ([("aten::narrow", "[[384,64],[],[],[]]", '["", "0", "64", "32"]')] * 6, None),
        ([("aten::unbind", "[[3,64,64],[]]", '["", "9"]')] * 2, None),  # damaged
        ([TAKEN] * 6, 3),
        ([TAKEN] * 5, None),
    ],
)
def test_products_of_items_are_as_many_as_are_taken_out(
    first: list[View], found: int | None
) -> None:
    assert in_a_row(SQUARE, first=first) == found


def test_results_in_another_form_are_not_what_the_next_product_takes() -> None:
    """Query, key and value of one input; layers that bring the form back are a chain."""
    assert in_a_row(LINEAR, HEADS, name="linear") == 3
    assert in_a_row(LINEAR, [*HEADS, BACK], name="linear") is None
    assert in_a_row(LINEAR, [("aten::t", "[[64,64]]", '[""]')], name="linear") is None


def test_layers_whose_results_are_turned_make_heads() -> None:
    heads = runs_of(LINEAR, HEADS, name="linear")
    others = runs_of("[32,64],[64,32]")
    assert heads is not None
    assert others is not None
    assert (heads.turned_share, others.turned_share) == (1.0, 0.0)


def test_of_an_operator_that_is_no_product_nothing_is_known() -> None:
    assert in_a_row("[1,64,8,8],[64,64,1,1]", name="conv2d") is None
