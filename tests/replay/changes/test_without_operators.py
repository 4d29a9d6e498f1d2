"""What the names and the order of kernels tell where no operators were recorded, as by nsys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, copy, program
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.remedies.program import may_load
from traceanalyzer.replay.changes.attention import attention_fused
from traceanalyzer.replay.changes.fusion import Reading
from traceanalyzer.replay.changes.loops.joined_calls import lookups_joined
from traceanalyzer.replay.changes.loops.unfused_rnn import recurrent_fused
from traceanalyzer.replay.changes.syncs.syncs import read_chains, syncs_removed
from traceanalyzer.replay.changes.warmup import no_work_of_its_own
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.trace import CopyKind, DeviceOpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.replay.tape import Change, Tape

MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>"
LOG_SOFTMAX = SOFTMAX.replace("10, false", "10, true")
TOPK = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>"
GATHERED = "void at::native::_cuda_scatter_gather_internal_kernel<false, {}, long>"
FLOATS = GATHERED.format("at::native::OpaqueType<4>")
PLACES = GATHERED.format("at::native::OpaqueType<8>")
CELL = "void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float, float, int, 1>"
CELL_BACKWARD = CELL.replace("forward", "backward")
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(x)>"
ABS = "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float>>"
MAXIMUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MaxNanFunctor<float>>>"
)
LISTS = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<x>"


def tape_of(step: Callable[[Program], object]) -> Tape:
    tape = make_tape(program(step).rated)
    assert tape is not None
    assert not tape.source.linked.tree.has_operators
    return tape


def launching(*kernels: str, us: float = 50) -> Callable[[Program], None]:
    def step(p: Program) -> None:
        for name in kernels:
            p.spend(5).launch(name, us)

    return step


def left_of(change: Change, *kernels: str) -> list[str] | None:
    """The kernels of a step that still take time after the change; None where nothing changes."""
    found = change(tape_of(launching(*kernels)))
    if found is None:
        return None
    rows = found.row[(found.duration > 0) & (found.step_of_op == found.step_of_op[0])]
    trace = found.source.trace
    return [trace.strings[code] for code in trace.device_ops.name[rows]]


def test_attention_is_a_softmax_between_two_products() -> None:
    assert left_of(attention_fused, GEMM, MUL, SOFTMAX, GEMM, MUL) == [GEMM, MUL]


@pytest.mark.parametrize(
    "between",
    [(LOG_SOFTMAX,), (SOFTMAX, TOPK), (MUL,), (SOFTMAX, f"{GEMM}_bias_TNT")],
    ids=["a loss", "a choice of experts", "no softmax", "a layer with a bias"],
)
def test_other_kernels_between_products_are_no_attention(between: tuple[str, ...]) -> None:
    assert left_of(attention_fused, GEMM, *between, GEMM) is None


def test_lookups_of_numbers_right_after_each_other_are_one() -> None:
    assert left_of(lookups_joined, *[FLOATS] * 6, GEMM) == [FLOATS, GEMM]
    assert left_of(lookups_joined, *[PLACES] * 6, GEMM) is None  # each may say where the next looks
    assert left_of(lookups_joined, *[FLOATS, *[MUL] * 5] * 6) is None
    assert left_of(lookups_joined, *[FLOATS, GEMM] * 6) is None


def test_cells_with_products_alone_between_them_are_a_layer() -> None:
    forward = [GEMM, GEMM, CELL] * 8
    backward = [CELL_BACKWARD, MUL, GEMM] * 8
    left = left_of(recurrent_fused, *forward, MUL, *backward)
    assert left is not None
    assert len(left) == 17  # a launch a time step, forward and backward, and what is no cell
    assert left_of(recurrent_fused, *[GEMM, TOPK, GEMM, CELL] * 8) is None


@pytest.mark.parametrize(
    ("before", "count", "left"),
    [
        ((CAST, ABS, MAXIMUM), 4, 4),
        ((MUL, MAXIMUM), 4, 12),
        ((MUL,), 4, 8),
        ((CAST, ABS, MAXIMUM), 1, 4),
    ],
    ids=["a look at a layer", "one summary", "a value of the program", "one read a step"],
)
def test_kernels_that_lead_to_reads_alone_go_with_them(
    before: tuple[str, ...], count: int, left: int
) -> None:
    """What comes before all reads of a step alike, and only sums up; a product each stays."""

    def step(p: Program) -> None:
        for _ in range(count):
            for name in (GEMM, *before):
                p.spend(5).launch(name, 50)
            copy(p.spend(5), 2, CopyKind.DEVICE_TO_HOST, 4).sync()

    tape = tape_of(step)
    chain, kernels = read_chains(tape)
    found = syncs_removed(Reading.TYPICAL)(tape)
    assert found is not None
    kept = tape.source.linked.is_kernel[found.row] & (found.duration > 0)
    assert int(kept.sum()) == left * tape.steps
    assert (kernels > 1) == (count > 1 and len(before) > 2)
    assert chain.any() == (kernels > 0)


def test_long_pauses_are_work_of_the_program_but_not_an_optimizers() -> None:
    def paused(us: float, then: str) -> Callable[[Program], None]:
        def step(p: Program) -> None:
            for _ in range(6):
                p.spend(us).launch(then, 20)

        return step

    assert no_work_of_its_own(tape_of(paused(400, MUL))) is not None
    assert no_work_of_its_own(tape_of(paused(400, LISTS))) is None
    assert no_work_of_its_own(tape_of(paused(150, MUL))) is None


@pytest.mark.parametrize("within", [True, False])
def test_input_that_is_prepared_between_kernels_is_no_loaders(within: bool) -> None:
    def step(p: Program) -> None:
        if within:
            launching(GEMM, GEMM)(p)
        p.spend(3000)
        p.launch("Memcpy HtoD", 20, "cudaMemcpyAsync", DeviceOpKind.MEMCPY)
        p.rows["op"][-1] |= {"bytes": 1 << 20, "copy_kind": CopyKind.HOST_TO_DEVICE}
        launching(GEMM, GEMM)(p)

    by_nsys = measure(replace(program(step).trace, source="nsys"))
    assert may_load(by_nsys) == (not within)
