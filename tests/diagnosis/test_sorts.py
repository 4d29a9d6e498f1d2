"""Sorts of which the first few are taken, told from those that are needed whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.remedies.program import tape_of
from traceanalyzer.replay.changes.sort_then_slice import LAUNCHES, taken_by_topk
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

SCORES = "[64, 1048576]"
RADIX = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<float>"
SORT_LAUNCHES = 40
SORT_US = 100


def sort(p: Program, values: str = '["", "-1", "True"]', name: str = "aten::sort") -> None:
    def kernels(p: Program) -> None:
        for _ in range(SORT_LAUNCHES):
            p.spend(8).launch(RADIX, SORT_US)

    within(
        p,
        name,
        kernels,
        shapes=f"[{SCORES}, [], []]",
        dtypes=p.code('["float", "Scalar", "Scalar"]'),
        concrete=p.code(values),
    )


def take(p: Program, values: str, name: str = "aten::slice", shape: str = SCORES) -> None:
    within(
        p, name, lambda p: p.spend(3), shapes=f"[{shape}, [], [], [], []]", concrete=p.code(values)
    )


def searched(p: Program) -> None:
    within(p, "aten::mm", lambda p: p.spend(10).launch(GEMM, 300))


def found(step: object) -> Measurements:
    def whole(p: Program) -> None:
        searched(p)
        step(p)  # type: ignore[operator]

    return program(whole)


def test_the_best_100_of_a_million_need_no_sort() -> None:
    def step(p: Program) -> None:
        sort(p)
        take(p, '["", "1", "0", "100", "1"]')

    m = found(step)
    tape = tape_of(m)
    assert tape is not None
    left = taken_by_topk(tape)
    assert left is not None
    assert int((left.duration > 0).sum()) == 2 * tape.steps
    read_us = 64 * 1048576 * 4 * 12 / 4.8e12 * 1e6
    assert step_time_ns(left) / 1e3 == pytest.approx(300 + read_us, rel=0.1)
    assert left.dispatch.sum() < tape.dispatch.sum()
    draft = next(one for one in diagnose(m).findings if one.id == "sorted-whole")
    assert "the first 100 of 1,048,576" in str(draft.evidence[1].value)
    advice = next(one for one in diagnose(m).recommendations if one.id == "sorted-whole")
    assert advice.remedy == "faster_kernels"
    assert "topk" in advice.action
    assert LAUNCHES < SORT_LAUNCHES


def cumulated(p: Program) -> None:
    """Words to choose from: a running sum over all of what is sorted."""
    sort(p)
    within(p, "aten::cumsum", lambda p: p.spend(8).launch(ADD, 50), shapes=f"[{SCORES}, [], []]")
    take(p, '["", "1", "0", "100", "1"]')


def half(p: Program) -> None:
    sort(p)
    take(p, '["", "1", "0", "524288", "1"]')


def of_rows(p: Program) -> None:
    """The first rows, each sorted whole."""
    sort(p)
    take(p, '["", "0", "0", "4", "1"]')


def last(p: Program) -> None:
    sort(p)
    take(p, '["", "1", "1048476", "9223372036854775807", "1"]')


@pytest.mark.parametrize("step", [cumulated, half, of_rows, last, sort])
def test_what_is_needed_whole_is_sorted(step: object) -> None:
    tape = tape_of(found(step))
    assert tape is not None
    assert taken_by_topk(tape) is None


@pytest.mark.parametrize(
    ("values", "name"),
    [('["", "1", "True"]', "aten::argsort"), ('["", "False", "-1", "True"]', "aten::sort")],
)
def test_sorts_come_in_several_forms(values: str, name: str) -> None:
    def step(p: Program) -> None:
        sort(p, values, name)
        take(p, '["", "-1", "0", "100"]', "aten::narrow")

    tape = tape_of(found(step))
    assert tape is not None
    assert taken_by_topk(tape) is not None
