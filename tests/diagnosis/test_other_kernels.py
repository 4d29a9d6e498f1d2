"""What is promised where kernels become other kernels: fused, in 16 bits; and what is said of those that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, REDUCE, program, within
from traceanalyzer.analysis.replay.changes.compiling import INFERENCE, functions_compiled
from traceanalyzer.analysis.replay.changes.fusion import (
    REREAD_OF_LONGEST,
    WRITTEN_OUT,
    Reading,
    fusing,
)
from traceanalyzer.analysis.replay.changes.numbers import CASTS, with_casts
from traceanalyzer.analysis.replay.simulate import step_time_ns
from traceanalyzer.analysis.replay.tape import make_tape
from traceanalyzer.diagnosis.diagnose import LEAST_TOUCHED, diagnose
from traceanalyzer.diagnosis.draft import Draft, Remedy
from traceanalyzer.diagnosis.finding import Evidence

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.analysis.replay.tape import Tape

SGEMM = "ampere_sgemm_128x64_nn"
OPERATORS = {
    ADD: ("aten::add", "[[4096, 4096], [4096, 4096], []]", '["float", "float", "Scalar"]'),
    REDUCE: ("aten::sum", "[[4096, 4096], [], [], []]", '["float", "", "", ""]'),
}


def chain(*kernels: tuple[str, float]) -> Tape:
    """A step that is one run of kernels on the same data, after a product."""

    def step(p: Program) -> None:
        within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, 300))
        for name, us in kernels:
            op, shapes, dtypes = OPERATORS[name]
            within(p, op, lambda p, name=name, us=us: p.spend(5).launch(name, us), shapes=shapes, dtypes=p.code(dtypes))

    tape = make_tape(program(step))
    assert tape is not None
    return tape


def fused_us(tape: Tape, reading: Reading, *, library: bool = False) -> float:
    """What the kernels beside the product take a step."""
    found = fusing(WRITTEN_OUT, reading, library=library)(tape)
    assert found is not None
    return float(found.duration[~tape.source.is_matrix[tape.row]].sum()) / found.steps / 1e3


def test_the_longest_reduction_of_a_run_is_read_again() -> None:
    """Its run takes as long as it, and half of its time comes on top; never more than by the cautious reading."""
    tape = chain((ADD, 90), (REDUCE, 200), (ADD, 90))
    hopeful, usual, cautious = (fused_us(tape, one) for one in (Reading.HOPEFUL, Reading.USUAL, Reading.CAUTIOUS))
    assert hopeful < usual <= cautious
    assert usual == pytest.approx(min(hopeful + REREAD_OF_LONGEST * 200, cautious))


def test_a_librarys_operator_begins_with_its_first_reduction() -> None:
    tape = chain((ADD, 70), (REDUCE, 30), (ADD, 40))
    alone = chain((REDUCE, 30), (ADD, 40))
    for reading in (Reading.USUAL, Reading.CAUTIOUS):
        assert fused_us(tape, reading, library=True) == pytest.approx(70 + fused_us(alone, reading, library=True))
        assert fused_us(tape, reading) < fused_us(tape, reading, library=True)


def test_without_a_reduction_all_of_a_chain_is_the_librarys() -> None:
    tape = chain((ADD, 70), (ADD, 30), (ADD, 40))
    assert fused_us(tape, Reading.CAUTIOUS, library=True) == fused_us(tape, Reading.CAUTIOUS)


def test_casts_are_launched_with_the_products_they_are_for() -> None:
    def step(p: Program) -> None:
        for name in (SGEMM, ADD, SGEMM):
            within(p, "aten::mm", lambda p, name=name: p.spend(30).launch(name, 10))

    tape = make_tape(program(step))
    assert tape is not None
    products = np.array(
        ["sgemm" in tape.source.trace.text(code) for code in tape.source.trace.device_ops.name[tape.row]]
    )
    usual = int(np.median(tape.dispatch[tape.dispatch > 0]))
    more = with_casts(tape, products).dispatch - tape.dispatch
    assert more.sum() == 2 * CASTS * usual * tape.steps
    assert (more >= 0).all()


@pytest.mark.parametrize(("share", "told"), [(0.6 * LEAST_TOUCHED, False), (2 * LEAST_TOUCHED, True)])
def test_nothing_of_unknown_gain_is_advised_for_kernels_that_take_little(share: float, told: bool) -> None:
    m = program(lambda p: p.launch(GEMM, 400).launch(GEMM, 400))
    draft = Draft(
        "x", "compute", "title", "compute", None, [Evidence("kernels", share, "share", "")], [Remedy("do", "basis")]
    )
    found = diagnose(m, [lambda _m, _free: iter([draft])])
    assert [f.id for f in found.findings] == ["x"]
    assert [a.action for a in found.recommendations] == (["do"] if told else [])


@pytest.mark.parametrize(("kernels", "us", "gains"), [(5, 3, False), (60, 3, True), (5, 300, True)])
def test_a_compiled_function_costs_the_host_a_call_of_it(kernels: int, us: float, gains: bool) -> None:
    """Five small launches are no dearer than such a call; sixty are, and long kernels hide it."""
    tape = chain(*[(ADD, us)] * kernels)
    found = {one: functions_compiled(one, 3)(tape) for one in (Reading.USUAL, Reading.CAUTIOUS)}
    usual, cautious = (one and step_time_ns(one) for one in found.values())
    assert usual is not None
    assert cautious is not None
    assert usual <= cautious <= step_time_ns(tape)
    assert (usual < 0.8 * step_time_ns(tape)) == gains
    one = found[Reading.USUAL]
    assert one is not None
    spent, before = float(one.dispatch.sum()) / tape.steps, float(tape.dispatch.sum()) / tape.steps
    each = before / (kernels + 1)
    assert spent == pytest.approx(min(before, each * (1 + INFERENCE[Reading.USUAL].call)), rel=0.25)
