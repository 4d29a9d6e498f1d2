"""The model compiled, or in 16 bits: what kernels move then, and what the host launches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.diagnosis.test_remedies import ADD, GEMM, program, within
from traceanalyzer.analysis.groups.crossing import crossing
from traceanalyzer.analysis.replay.changes.capture import compiled, compiled_badly, compiled_well
from traceanalyzer.analysis.replay.changes.numbers import in_16_bits
from traceanalyzer.analysis.replay.simulate import step_time_ns
from traceanalyzer.analysis.replay.tape import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.analysis.replay.tape import Tape

SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float>>>"
NO = np.zeros(3, bool)


@pytest.mark.parametrize(
    ("traffic", "out", "reducing", "moved"),
    [
        ([2, 2, 2], [1, 1, 1], [], [1, 0, 1]),  # one tensor goes through: read once, written once
        ([2, 3, 2], [1, 1, 1], [], [1, 1, 1]),  # the second reads another tensor, too
        ([2, 2, 1], [1, 1, 0], [2], [1, 0, 0]),  # a sum at the end leaves (nearly) nothing
        ([1, 2, 2], [0, 1, 1], [0], [1, 0, 1]),  # what was reduced first is read by the next: told apart
    ],
)
def test_what_a_run_moves_is_what_comes_in_and_goes_out(
    traffic: list[float], out: list[float], reducing: list[int], moved: list[float]
) -> None:
    reduces = NO.copy()
    reduces[reducing] = True
    found = crossing(np.zeros(3, np.int64), np.array(traffic, float) * 1e6, np.array(out, float) * 1e6, reduces)
    assert (found / 1e6).tolist() == moved


def test_runs_hand_nothing_to_each_other() -> None:
    found = crossing(np.array([0, 1, -1]), np.full(3, 2.0), np.full(3, 1.0), NO)
    assert found.tolist() == [2.0, 2.0, 0.0]


def tape_of(step: partial[None]) -> Tape:
    tape = make_tape(program(step))
    assert tape is not None
    return tape


def layers(p: Program, *, dispatch: float, us: float, norm: str = "aten::add") -> None:
    for _ in range(20):
        within(p, "aten::linear", lambda p: p.spend(dispatch).launch(GEMM, us))
        within(p, "aten::relu", lambda p: p.spend(dispatch).launch(ADD, 2))
        within(p, norm, lambda p: p.spend(dispatch).launch(ADD, 2))


def test_a_host_that_is_the_limit_gains_little_by_fewer_but_dearer_launches() -> None:
    tape = tape_of(partial(layers, dispatch=10, us=2))
    found, well, badly = compiled(tape), compiled_well(tape), compiled_badly(tape)
    assert found is not None
    assert well is not None
    assert badly is not None
    assert 0.9 * step_time_ns(tape) < step_time_ns(found) < 1.4 * step_time_ns(tape)
    assert step_time_ns(well) < step_time_ns(found) < step_time_ns(badly)


def test_a_slow_program_is_launched_faster_by_compiled_code() -> None:
    tape = tape_of(partial(layers, dispatch=80, us=2))
    found = compiled(tape)
    assert found is not None
    assert step_time_ns(found) < step_time_ns(tape) / 2


def test_a_norm_over_a_batch_keeps_its_stages() -> None:
    plain, staged = (
        tape_of(partial(layers, dispatch=10, us=2, norm=name)) for name in ("aten::add", "aten::batch_norm")
    )
    with_norm, without = compiled(staged), compiled(plain)
    assert with_norm is not None
    assert without is not None
    assert with_norm.dispatch.sum() > 1.3 * without.dispatch.sum()


def test_a_sum_over_columns_is_split_over_the_gpu() -> None:
    def step(p: Program) -> None:
        p.spend(20).launch(GEMM, 500)
        shapes, dtypes = "[[300000,128],[],[],[]]", p.code('["float"]')
        within(p, "aten::sum", lambda p: p.spend(10).launch(SUM, 400), shapes=shapes, dtypes=dtypes)
        for _ in range(2):
            within(p, "aten::add", lambda p: p.spend(10).launch(ADD, 2), shapes="[[64],[64]]")

    tape = make_tape(program(step))
    assert tape is not None
    found = compiled(tape)
    assert found is not None
    assert 0 < step_time_ns(tape) - step_time_ns(found) < 400_000


def in_fp32(p: Program, *, us: float, dispatch: float = 10) -> None:
    def one(name: str, shapes: str, kernel: str, us: float) -> None:
        dtypes = p.code('["float","float"]')
        within(p, name, lambda p: p.spend(dispatch).launch(kernel, us), shapes=shapes, dtypes=dtypes)

    for _ in range(5):
        one("aten::mm", "[[4096,1024],[1024,1024]]", "ampere_sgemm_128x64_nn", 30)
        one("aten::add", "[[32000,4096],[32000,4096]]", ADD, us)


def test_16_bits_halve_the_traffic_of_kernels_that_are_limited_by_it() -> None:
    saved = {}
    for us in (400, 4000):
        tape = tape_of(partial(in_fp32, us=us))
        found = in_16_bits(0.75, 0.6)(tape)
        assert found is not None
        saved[us] = 1 - float(found.duration.sum() / tape.duration.sum())
    assert saved[400] > 0.25
    assert saved[4000] < 0.1


def test_the_host_launches_casts() -> None:
    tape = tape_of(partial(in_fp32, us=2))
    found = in_16_bits(0.75, 0.6)(tape)
    assert found is not None
    assert found.dispatch.sum() > 1.1 * tape.dispatch.sum()
