"""A cache that is joined again, larger, in every step, and what is not one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import GEMM, program, within
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.replay.changes.preallocated import preallocated
from traceanalyzer.replay.patterns.growing_joins import growing_joins
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements
    from traceanalyzer.replay.tape import Tape

CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4, 64, 64>"
CAT_US = 1000.0
LAYERS = 3
LONG = 96
NEW = 4


def join(p: Program, first: str, second: str) -> None:
    columns = {"shapes": f"[[{first}, {second}], []]"}
    within(p, "aten::cat", lambda p: p.spend(5).launch(CAT, CAT_US), **columns)


def decoded(*, grows: bool = True, learns: bool = False) -> Measurements:
    steps = itertools.count()

    def step(p: Program) -> None:
        length = LONG + NEW * next(steps) if grows else LONG
        for _ in range(LAYERS):
            join(p, f"[8, {length}, 64]", f"[8, {NEW}, 64]")
            within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, 20))
        if learns:
            node = "autograd::engine::evaluate_function: CatBackward0"
            within(p, node, lambda p: p.spend(5).launch(GEMM, 20))

    return program(step)


def told(words: int = 4, *, tensors: int = LAYERS) -> Measurements:
    """A step that writes several words, and begins again with the same text in the next."""

    def step(p: Program) -> None:
        for length in range(LONG, LONG + NEW * words, NEW):
            for _ in range(tensors):
                join(p, f"[8, {length}, 64]", f"[8, {NEW}, 64]")
                within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, 20))

    return program(step)


def densely_connected() -> Measurements:
    """Each layer's features are joined to those before, alike in each step."""

    def step(p: Program) -> None:
        for channels in range(LONG, LONG + LAYERS * NEW, NEW):
            join(p, f"[8, {channels}, 64]", f"[8, {NEW}, 64]")

    return program(step)


def tape_of(m: Measurements) -> Tape:
    tape = make_tape(m.rated)
    assert tape is not None
    return tape


def test_a_cache_of_its_final_size_is_given_what_is_new() -> None:
    tape = tape_of(decoded())
    shares = growing_joins(tape)
    grows = np.isfinite(shares)
    assert grows.sum() == LAYERS * tape.steps
    changed = preallocated()(tape)
    assert changed is not None
    wanted = [CAT_US * 1e3 * share for share in shares[grows]]
    assert changed.duration[grows] == pytest.approx(wanted, abs=1)
    assert (changed.duration[~grows] == tape.duration[~grows]).all()
    slow = preallocated(times=2.0)(tape)
    assert slow is not None
    assert slow.duration[grows] == pytest.approx([2 * ns for ns in wanted], abs=2)


def test_a_cache_may_grow_within_a_step() -> None:
    tape = tape_of(told())
    shares = growing_joins(tape)
    assert np.isfinite(shares).sum() == 4 * LAYERS * tape.steps
    assert np.nanmax(shares) == pytest.approx(NEW / (LONG + NEW))


@pytest.mark.parametrize(
    "made",
    [
        lambda: decoded(grows=False),
        lambda: decoded(learns=True),
        densely_connected,
        lambda: told(words=2),
        lambda: told(tensors=1),
    ],
)
def test_joins_that_do_not_grow_from_step_to_step_stay(made: Callable[[], Measurements]) -> None:
    assert preallocated()(tape_of(made())) is None


def test_the_finding_is_the_copy_and_the_advice_a_buffer() -> None:
    found = diagnose(decoded())
    first = found.findings[0]
    assert first.id == "regrown-tensors"
    assert first.headroom_ms == pytest.approx(LAYERS * CAT_US / 1e3 * 0.96, rel=0.05)
    assert found.recommendations[0].remedy == "preallocate"
    assert "cache_implementation='static'" in found.recommendations[0].action
    others = [one.remedy for one in found.recommendations]
    assert "fuse_elementwise" not in others
    assert "regrown-tensors" not in [one.id for one in diagnose(densely_connected()).findings]
