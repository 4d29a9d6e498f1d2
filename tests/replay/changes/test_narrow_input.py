"""Input that is sent in more bytes than it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, copy, program, step_us, within
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.data import copy_less
from traceanalyzer.trace import CopyKind
from traceanalyzer.trace.circumstances import Stopwatch

PHOTOS = (64, 3, 224, 224)
FLOATS = '["float", "Scalar", "Scalar"]'
COPY_US = 1600
STEP_US = 400


def sends(p: Program, shape: tuple[int, ...], types: str, then: str, values: str) -> None:
    """A copy, a cast or another operator on what it brought, and the rest of the step."""
    numbers = 1
    for size in shape:
        numbers *= size
    columns = {"shapes": f"[{list(shape)}, [], []]"}
    within(
        p,
        "aten::to",
        lambda p: copy(p, COPY_US, CopyKind.HOST_TO_DEVICE, 4 * numbers),
        dtypes=p.code(types),
        **columns,
    )
    within(p, then, lambda p: p.launch(ADD, 20), concrete=p.code(values), **columns)
    within(p, "aten::mm", lambda p: p.launch(GEMM, STEP_US))


@pytest.mark.parametrize(
    ("shape", "types", "values", "share"),
    [
        (PHOTOS, FLOATS, "", 0.25),
        ((64, 224, 224, 3), FLOATS, "", 0.25),
        ((4, 16, 3, 224, 224), FLOATS, "", 0.25),
        (PHOTOS, '["unsigned char", "Scalar", "Scalar"]', "", None),
        ((64, 4, 224, 224), FLOATS, "", None),
        ((64, 3, 4, 4), FLOATS, "", None),
        ((64, 4, 224, 224), FLOATS, '["", "15", "False"]', 0.5),
        ((64, 4, 224, 224), FLOATS, '["", "7", "False"]', None),
        ((64, 4, 224, 224), '["long int", "Scalar", "Scalar"]', '["", "15", "False"]', None),
    ],
    ids=[
        "photos",
        "colours last",
        "films",
        "bytes already",
        "four channels",
        "too small",
        "cast to bf16",
        "cast to doubles",
        "whole numbers",
    ],
)
def test_what_is_sent_in_fewer_bytes(
    shape: tuple[int, ...], types: str, values: str, share: float | None
) -> None:
    then = "aten::to" if values else "aten::relu"
    m = program(lambda p: sends(p, shape, types, then, values))
    offer = copy_less.offer(m)
    assert (offer is not None) == (share is not None)
    if offer is not None:
        left = step_us(m, "copy_less")
        assert left is not None
        assert share is not None
        kept = COPY_US * share + 20 + STEP_US
        assert kept <= left <= kept + 250, "scaling, and a launch or two"
        assert ("uint8" in offer.action.pytorch) == (share == 0.25)


def test_short_copies_of_input_stay_as_they_are() -> None:
    def step(p: Program) -> None:
        sends(p, PHOTOS, FLOATS, "aten::relu", "")
        within(p, "aten::mm", lambda p: p.launch(GEMM, 8 * COPY_US))

    assert copy_less.offer(program(step)) is None


def test_a_copy_is_short_beside_the_step_without_the_profiler() -> None:
    def step(p: Program) -> None:
        sends(p, PHOTOS, FLOATS, "aten::relu", "")
        p.spend(8 * COPY_US)

    recorded = program(step)
    ns = 4 * COPY_US * 1000
    timed = Stopwatch(ns, ns, ns, steady=True, after_profiler=False, unit=None)
    trace = replace(recorded.trace, stopwatch=timed, unprofiled_step_ns=ns)
    assert copy_less.offer(recorded) is None
    assert copy_less.offer(measure(trace)) is not None


MASKS = (16, 40, 256, 256)


def compares(p: Program, before: str, how: str) -> None:
    """A mask is sent, an operator takes pictures or the mask, and a loss compares it."""
    numbers = 16 * 40 * 256 * 256
    both = f"[{list(MASKS)}, {list(MASKS)}]"
    one = f"[{list(MASKS)}, [], []]"
    floats = p.code(FLOATS)
    pair = p.code('["float", "float"]')

    def send(p: Program) -> None:
        copy(p, COPY_US, CopyKind.HOST_TO_DEVICE, 4 * numbers)

    within(p, "aten::to", send, shapes=one, dtypes=floats)
    within(p, "aten::conv2d", lambda p: p.launch(GEMM, STEP_US), shapes=before, dtypes=pair)
    if how == "aten::mul":
        within(p, "aten::softmax", lambda p: p.launch(ADD, 20), shapes=one, dtypes=floats)
    within(p, how, lambda p: p.launch(ADD, 20), shapes=both, dtypes=pair)


PICTURES = "[[16, 6, 256, 256], [40, 6, 3, 3]]"


@pytest.mark.parametrize(
    ("before", "how", "mask"),
    [
        (PICTURES, "aten::mul", True),
        (PICTURES, "aten::binary_cross_entropy_with_logits", True),
        (PICTURES, "aten::mse_loss", False),
        ("[[16, 40, 256, 256], [40, 40, 3, 3]]", "aten::mul", False),
    ],
    ids=["dice", "cross entropy", "a picture to draw", "what a network works on"],
)
def test_a_mask_that_probabilities_are_compared_with_is_sent_as_bytes(
    before: str, how: str, *, mask: bool
) -> None:
    m = program(lambda p: compares(p, before, how))
    offer = copy_less.offer(m)
    assert (offer is not None) == mask
    if offer is not None:
        left = step_us(m, "copy_less")
        assert left is not None
        kept = COPY_US / 4 + STEP_US + (40 if how == "aten::mul" else 20)
        assert kept <= left <= kept + 250, "the mask is made of the bytes; a launch or two"
        assert "class as a byte" in offer.action.pytorch
