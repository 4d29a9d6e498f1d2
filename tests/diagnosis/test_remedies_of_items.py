"""Loops over items: calls of one model of which none needs another, told from time steps and layers
by shapes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, Program
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call
from traceanalyzer.replay.changes.loops.joined_calls import calls_joined
from traceanalyzer.replay.patterns.independent import MOST_LISTED
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Step = Callable[[Program], object]

CROPS = 8
LAYERS = 7
MOLECULES = (12, 31, 17, 40, 22, 26)


def put_together(p: Program, shapes: Sequence[str]) -> None:
    """Of long lists the recorder leaves the shapes out."""
    listed = ", ".join(shapes) if len(shapes) <= MOST_LISTED else ""
    call(p, "stack", f"[{listed}]", "[]")


def encoder(p: Program, tokens: str = "[32, 36, 192]") -> None:
    for _ in range(LAYERS):
        call(p, "layer_norm", tokens, "[192]", "[192]")
        call(p, "linear", tokens, "[768, 192]", kernel=GEMM)
        call(p, "gelu", tokens.replace("192]", "768]"))
        call(p, "linear", tokens.replace("192]", "768]"), "[192, 768]", kernel=GEMM)
        call(p, "add", tokens, tokens)


def crops(p: Program, count: int = CROPS, *, kept: bool = True) -> None:
    for _ in range(count):
        call(p, "conv2d", "[32, 3, 96, 96]", "[192, 3, 16, 16]", kernel=GEMM)
        encoder(p)
        call(p, "mean", "[32, 36, 192]", "[]")
    if kept:
        put_together(p, ["[32, 192]"] * count)


def molecules(p: Program, sizes: Sequence[int], *, widths: Sequence[int] = ()) -> None:
    for size, width in zip(sizes, widths or [128] * len(sizes), strict=True):
        for _ in range(LAYERS):
            call(p, "index", f"[{size}, 128]", "[]")
            call(p, "linear", f"[{4 * size}, 256]", f"[{width}, 256]", kernel=GEMM)
            call(p, "silu", f"[{4 * size}, {width}]")
            call(p, "index_add_", f"[{size}, 128]", f"[{4 * size}]", f"[{4 * size}, 128]")
        call(p, "sum", f"[{size}, 1]", "[]")
    put_together(p, ["[1]"] * len(sizes))


def cells(p: Program, *, joined: bool) -> None:
    """Time steps of layers of recurrent cells, and a head; the state goes from one step to the
    next."""
    for _ in range(CROPS):
        for _ in range(LAYERS):
            if joined:
                call(p, "cat", "[[32, 96], [32, 160]]", "[]")
                call(p, "linear", "[32, 256]", "[160, 256]", kernel=GEMM)
            else:
                call(p, "linear", "[32, 96]", "[160, 96]", kernel=GEMM)
                call(p, "linear", "[32, 200]", "[160, 200]", kernel=GEMM)
            call(p, "tanh", "[32, 160]")
            call(p, "relu", "[32, 160]")
        call(p, "linear", "[32, 160]", "[10, 160]", kernel=GEMM)
    put_together(p, ["[32, 10]"] * CROPS)


@pytest.mark.parametrize(
    "step", [crops, partial(crops, count=MOST_LISTED + 5), partial(molecules, sizes=MOLECULES)]
)
def test_calls_for_items_are_one(step: Step) -> None:
    tape = tape_of(step)
    one = calls_joined(tape)
    assert one is not None
    assert step_time_ns(one) < 0.3 * step_time_ns(tape)


@pytest.mark.parametrize(
    "step",
    [
        partial(crops, kept=False),
        partial(molecules, sizes=sorted(MOLECULES)),
        partial(molecules, sizes=MOLECULES, widths=(128, 128, 128, 64, 64, 64)),
        partial(cells, joined=True),
        partial(cells, joined=False),
    ],
    ids=[
        "not put together",
        "a text that grows",
        "other weights",
        "state joined to the input",
        "state in a product",
    ],
)
def test_calls_that_may_need_each_other_stay(step: Step) -> None:
    assert calls_joined(tape_of(step)) is None
