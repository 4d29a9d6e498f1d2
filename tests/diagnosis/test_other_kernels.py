"""What is promised where kernels become other kernels: fused, in 16 bits; and what is said of those
that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, REDUCE, program, within
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.draft import Draft, Proposal
from traceanalyzer.diagnosis.finding import Evidence, same_for_all
from traceanalyzer.diagnosis.recommend import MIN_TOUCHED_SHARE
from traceanalyzer.replay.changes.casts import OF_PRODUCT, OF_USUAL, with_casts
from traceanalyzer.replay.changes.compiling import INFERENCE, functions_compiled
from traceanalyzer.replay.changes.fusion import REREAD_OF_LONGEST, WRITTEN_OUT, Reading, fusing
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Tape

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
            within(
                p,
                op,
                lambda p, name=name, us=us: p.spend(5).launch(name, us),
                shapes=shapes,
                dtypes=p.code(dtypes),
            )

    tape = make_tape(program(step).rated)
    assert tape is not None
    return tape


def fused_us(tape: Tape, reading: Reading, *, library: bool = False) -> float:
    """What the kernels beside the product take a step."""
    found = fusing(WRITTEN_OUT, reading, library=library)(tape)
    assert found is not None
    return float(found.duration[~tape.source.linked.is_matrix[tape.row]].sum()) / found.steps / 1e3


def test_the_longest_reduction_of_a_run_is_read_again() -> None:
    """Its run takes as long as it, and half of its time comes on top; never more than by the
    pessimistic reading."""
    tape = chain((ADD, 90), (REDUCE, 200), (ADD, 90))
    optimistic, usual, pessimistic = (
        fused_us(tape, one) for one in (Reading.OPTIMISTIC, Reading.TYPICAL, Reading.PESSIMISTIC)
    )
    assert optimistic < usual <= pessimistic
    assert usual == pytest.approx(min(optimistic + REREAD_OF_LONGEST * 200, pessimistic))


def test_a_librarys_operator_begins_with_its_first_reduction() -> None:
    tape = chain((ADD, 70), (REDUCE, 30), (ADD, 40))
    alone = chain((REDUCE, 30), (ADD, 40))
    for reading in (Reading.TYPICAL, Reading.PESSIMISTIC):
        assert fused_us(tape, reading, library=True) == pytest.approx(
            70 + fused_us(alone, reading, library=True)
        )
        assert fused_us(tape, reading) < fused_us(tape, reading, library=True)


def test_without_a_reduction_all_of_a_chain_is_the_librarys() -> None:
    tape = chain((ADD, 70), (ADD, 30), (ADD, 40))
    assert fused_us(tape, Reading.PESSIMISTIC, library=True) == fused_us(tape, Reading.PESSIMISTIC)


def test_without_shapes_casts_are_counted_by_products() -> None:
    def step(p: Program) -> None:
        for name in (SGEMM, ADD, SGEMM):
            within(p, "aten::mm", lambda p, name=name: p.spend(30).launch(name, 10))

    tape = make_tape(program(step).rated)
    assert tape is not None
    products = np.array(
        [
            "sgemm" in tape.source.trace.text(code)
            for code in tape.source.trace.device_ops.name[tape.row]
        ]
    )
    usual = int(np.median(tape.dispatch[tape.dispatch > 0]))
    more = with_casts(tape, products).dispatch - tape.dispatch
    assert more.sum() == pytest.approx(2 * OF_PRODUCT * OF_USUAL * usual * tape.steps, rel=1e-3)
    assert (more >= 0).all()


@pytest.mark.parametrize(
    ("share", "told"), [(0.6 * MIN_TOUCHED_SHARE, False), (2 * MIN_TOUCHED_SHARE, True)]
)
def test_nothing_of_unknown_gain_is_advised_for_kernels_that_take_little(
    share: float, told: bool
) -> None:
    m = program(lambda p: p.launch(GEMM, 400).launch(GEMM, 400))
    draft = Draft(
        "x",
        "compute",
        "title",
        "compute",
        None,
        [Evidence("kernels", share, "share", "")],
        [Proposal(same_for_all("do"), "basis")],
    )
    found = diagnose(m, [lambda _m, _free: iter([draft])])
    assert [f.id for f in found.findings] == ["x"]
    assert [a.action for a in found.recommendations] == (["do"] if told else [])


@pytest.mark.parametrize(("kernels", "us", "gains"), [(5, 3, False), (60, 3, True), (5, 300, True)])
def test_a_compiled_function_costs_the_host_a_call_of_it(
    kernels: int, us: float, gains: bool
) -> None:
    """Five small launches are no dearer than such a call; sixty are, and long kernels hide it."""
    tape = chain(*[(ADD, us)] * kernels)
    found = {
        one: functions_compiled(one, 3)(tape) for one in (Reading.TYPICAL, Reading.PESSIMISTIC)
    }
    usual, pessimistic = (one and step_time_ns(one) for one in found.values())
    assert usual is not None
    assert pessimistic is not None
    assert usual <= pessimistic <= step_time_ns(tape)
    assert (usual < 0.8 * step_time_ns(tape)) == gains
    one = found[Reading.TYPICAL]
    assert one is not None
    spent = float(one.dispatch.sum()) / tape.steps
    before = float(tape.dispatch.sum()) / tape.steps
    each = before / (kernels + 1)
    assert spent == pytest.approx(
        min(before, each * (1 + INFERENCE[Reading.TYPICAL].call)), rel=0.25
    )
