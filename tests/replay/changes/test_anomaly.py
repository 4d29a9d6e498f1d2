"""Anomaly detection of autograd, left on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.effort import EFFORTS, HOURS, ONE_LINE, with_efforts
from traceanalyzer.diagnosis.remedies.host import remove_syncs
from traceanalyzer.replay.changes.syncs.anomaly import (
    detects_anomalies,
    without_anomaly_detection,
    without_checks,
)
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.replay.tape import Tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

LAYERS = 12
LAYER_US = 100
STACK_US = 400
"""What the host does in an operator of the forward pass to keep a stack."""


def forward(p: Program) -> None:
    within(p, "aten::mm", lambda p: p.spend(STACK_US).launch(GEMM, LAYER_US))
    p.spend(1)


def check(p: Program) -> None:
    p.spend(1)
    within(p, "aten::isnan", lambda p: p.spend(10).launch(ADD, 2))
    p.spend(1)
    within(p, "aten::item", lambda p: p.spend(10).sync())
    p.spend(1)


def backward(p: Program, *, checked: bool) -> None:
    def node(p: Program) -> None:
        p.spend(1)
        within(p, "MmBackward0", lambda p: p.spend(20).launch(GEMM, LAYER_US))
        if checked:
            check(p)
        p.spend(1)

    within(p, "autograd::engine::evaluate_function: MmBackward0", node)


def step(p: Program, checked: int) -> None:
    for _ in range(LAYERS):
        forward(p)
    for layer in range(LAYERS):
        backward(p, checked=layer < checked)


def learned(checked: int) -> Measurements:
    return program(partial(step, checked=checked))


def step_us(tape: Tape | None) -> float:
    assert tape is not None
    return step_time_ns(tape) / 1e3


def test_checks_and_stacks_are_gone() -> None:
    m = learned(LAYERS)
    tape = make_tape(m.rated)
    assert tape is not None
    assert detects_anomalies(tape)
    both_us = step_us(without_anomaly_detection(tape))
    of_the_gpu = 2 * LAYERS * LAYER_US
    assert of_the_gpu <= both_us < 1.1 * of_the_gpu
    assert both_us < step_us(without_checks(tape)) < step_us(tape)
    offer = remove_syncs.offer(m)
    assert offer is not None
    assert "set_detect_anomaly(False)" in (offer.action.pytorch or "")


def test_a_few_tests_of_the_program_are_its_own() -> None:
    tape = make_tape(learned(LAYERS // 4).rated)
    assert tape is not None
    assert not detects_anomalies(tape)
    assert without_anomaly_detection(tape) is None


def test_it_takes_a_line_though_syncs_usually_take_hours() -> None:
    advice = with_efforts(diagnose(learned(LAYERS)).recommendations)
    assert {one.remedy: one.effort for one in advice}["remove_syncs"] == ONE_LINE
    assert EFFORTS["remove_syncs"] == HOURS
