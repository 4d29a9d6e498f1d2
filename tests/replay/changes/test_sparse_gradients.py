"""Dense gradients of large tables, as gradients of the rows that were looked up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import GEMM, program, step_us, within
from traceanalyzer.replay.changes.sparse_gradients import Touched, touched_rows
from traceanalyzer.replay.recorded import make_tape

if TYPE_CHECKING:
    from tests.analysis.causes.test_gaps import Program
    from traceanalyzer.diagnosis.measurements import Measurements

ROWS = 1_000_000
WIDTH = 128
TABLE = f"[{ROWS}, {WIDTH}]"
FILL_US = 300
UPDATE_US = 2000
OTHER_US = 700
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
UPDATE = "void multi_tensor_apply_kernel<at::native::PointwiseOpListFunctor>"


def looked_up(p: Program, ids: int, dense: bool, listed: str, then: tuple[str, ...] = ()) -> None:
    shapes = f"[{TABLE}, [{ids}], [], [], []]"
    within(p, "aten::embedding", lambda p: p.spend(5).launch("gather", 50), shapes=shapes)
    within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, OTHER_US))

    def backward(p: Program) -> None:
        within(p, "aten::fill_", lambda p: p.spend(5).launch(ADD, FILL_US), shapes=f"[{TABLE}, []]")
        p.spend(5).launch("sum_and_scatter", 50)

    def gradient(p: Program) -> None:
        name = "aten::embedding_dense_backward" if dense else "aten::embedding_sparse_backward"
        within(p, name, backward)

    within(p, "autograd::engine::evaluate_function: EmbeddingBackward0", gradient)
    for node in then:
        evaluated(p, node)
    start = p.now
    columns = {"shapes": listed, "dtypes": p.code('["TensorList", "TensorList"]')}
    p.spend(1)
    within(p, "aten::_foreach_addcdiv_", lambda p: p.spend(5).launch(UPDATE, UPDATE_US), **columns)
    p.spend(1)
    p.annotation("Optimizer.step#Adagrad.step", start, p.now)


def evaluated(p: Program, node: str) -> None:
    def inner(p: Program) -> None:
        p.spend(1)
        within(p, node, lambda p: p.spend(1), shapes=f"[{TABLE}]")

    within(p, f"autograd::engine::evaluate_function: {node}", inner)


def learned(
    ids: int = 1000, *, dense: bool = True, listed: str = TABLE, then: tuple[str, ...] = ()
) -> Measurements:
    step = partial(looked_up, ids=ids, dense=dense, listed=f"[[{listed}], [{listed}]]", then=then)
    return program(step)


def test_the_optimizer_goes_through_the_rows_that_were_looked_up() -> None:
    m = learned()
    tape = make_tape(m.rated)
    assert tape is not None
    assert touched_rows(tape) == {(ROWS, WIDTH): Touched(pytest.approx(1000 / ROWS), 0.0)}
    left = step_us(m, "sparse_gradients")
    assert left == pytest.approx(OTHER_US + 100 + UPDATE_US * 1000 / ROWS, rel=0.05)


@pytest.mark.parametrize(
    ("then", "is_parameter"),
    [
        (("torch::autograd::AccumulateGrad",), True),
        (("SpmmBackward0", "torch::autograd::AccumulateGrad"), False),
    ],
)
def test_a_table_that_is_made_of_parameters_has_no_rows_to_leave_out(
    then: tuple[str, ...], is_parameter: bool
) -> None:
    tape = make_tape(learned(then=then).rated)
    assert tape is not None
    assert ((ROWS, WIDTH) in touched_rows(tape)) == is_parameter


@pytest.mark.parametrize(
    ("lookups", "adds", "is_sparse"), [(1, 1, False), (2, 1, True), (2, 2, False)]
)
def test_a_table_that_is_the_output_layer_too_has_a_dense_gradient(
    lookups: int, adds: int, is_sparse: bool
) -> None:
    """Its gradients are added: of each lookup, and of the layer."""

    def added(p: Program) -> None:
        p.spend(1)
        within(p, "aten::add", lambda p: p.spend(1), shapes=f"[{TABLE}, {TABLE}, []]")

    def step(p: Program) -> None:
        for _ in range(lookups - 1):
            ids = f"[{TABLE}, [1000], [], [], []]"
            within(p, "aten::embedding", lambda p: p.spend(5).launch("gather", 50), shapes=ids)
        for _ in range(adds):
            within(p, "autograd::engine::evaluate_function: EmbeddingBackward0", added)
        looked_up(p, 1000, dense=True, listed=f"[[{TABLE}], [{TABLE}]]")

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert ((ROWS, WIDTH) in touched_rows(tape)) == is_sparse


def test_other_tensors_of_the_list_stay_by_their_elements() -> None:
    half = learned(listed=f"{TABLE}, [{ROWS}, {WIDTH - 1}], [{ROWS}]")
    left = step_us(half, "sparse_gradients")
    assert left == pytest.approx(OTHER_US + 100 + UPDATE_US / 2, rel=0.05)


@pytest.mark.parametrize(
    "m",
    [learned(ids=ROWS // 2), learned(dense=False), learned(listed="")],
    ids=["half of the rows", "sparse already", "what is updated is not recorded"],
)
def test_otherwise_nothing_changes(m: Measurements) -> None:
    assert step_us(m, "sparse_gradients") is None


def test_an_optimizer_may_call_more_than_there_are_ranges() -> None:
    """Its calls of the API are no operators."""

    def step(p: Program) -> None:
        looked_up(p, 1000, dense=True, listed=f"[[{TABLE}], [{TABLE}]]")
        start = p.now
        for _ in range(20):
            p.spend(1).launch(UPDATE, 1)
        p.annotation("Optimizer.step#Adagrad.step", start, p.now)

    tape = make_tape(program(step).rated)
    assert tape is not None
    assert set(touched_rows(tape)) == {(ROWS, WIDTH)}


def two_tables(p: Program) -> None:
    """Pairs of people and of many strangers each, from two tables of one shape: of one of them most rows
    are looked up."""
    for ids in (1000, ROWS // 4 * 3):
        looked_up(p, ids, dense=True, listed="[]")
    shapes = f"[[{TABLE}, {TABLE}], [{TABLE}, {TABLE}]]"
    start = p.now
    columns = {"shapes": shapes, "dtypes": p.code('["TensorList", "TensorList"]')}
    p.spend(1)
    within(p, "aten::_foreach_add_", lambda p: p.spend(5).launch(UPDATE, UPDATE_US), **columns)
    p.spend(1)
    p.annotation("Optimizer.step#SGD.step", start, p.now)


def test_tables_of_one_shape_count_each_for_itself() -> None:
    tape = make_tape(program(two_tables).rated)
    assert tape is not None
    (found,) = touched_rows(tape).values()
    assert found == Touched(0.5, 0.5, frozenset({1000 * WIDTH}))


SUMS = "void at::native::sum_and_scatter<float, long>"
SORT = "DeviceRadixSortOnesweepKernel"
IDS = 10_000


def learned_by(*update: str) -> Measurements:
    """A table whose gradient sorts the ids for 400 us and adds up for 300, and what updates it."""

    def backward(p: Program) -> None:
        within(p, "aten::fill_", lambda p: p.spend(5).launch(ADD, FILL_US), shapes=f"[{TABLE}, []]")
        p.spend(5).launch(SORT, 400).spend(5).launch(SUMS, 300)

    def step(p: Program) -> None:
        looked = f"[{TABLE}, [{IDS}], [], [], []]"
        within(p, "aten::embedding", lambda p: p.spend(5).launch("gather", 50), shapes=looked)
        within(p, "aten::mm", lambda p: p.spend(5).launch(GEMM, OTHER_US))
        rows = f"[[{IDS}, {WIDTH}], [{IDS}], [], [], []]"
        within(
            p,
            "autograd::engine::evaluate_function: EmbeddingBackward0",
            lambda p: within(p, "aten::embedding_dense_backward", backward, shapes=rows),
        )
        start = p.now
        columns = {"shapes": f"[[{TABLE}]]", "dtypes": p.code('["TensorList"]')}
        for name in update:
            p.spend(1)
            within(p, name, lambda p: p.spend(5).launch(UPDATE, UPDATE_US), **columns)
        p.spend(1)
        p.annotation("Optimizer.step#SGD.step", start, p.now)

    return program(step)


def test_plain_sgd_adds_the_rows_as_they_come() -> None:
    """32 bytes for each number at 4.8 TB/s."""
    left = step_us(learned_by("aten::_foreach_add_"), "sparse_gradients")
    assert left == pytest.approx(OTHER_US + 50 + 1e6 * IDS * WIDTH * 32 / 4.8e12, rel=0.05)


def test_an_optimizer_with_a_state_sorts_the_rows() -> None:
    m = learned_by("aten::_foreach_mul_", "aten::_foreach_add_")
    left = step_us(m, "sparse_gradients")
    assert left == pytest.approx(OTHER_US + 50 + 700 + 2 * UPDATE_US * IDS / ROWS, rel=0.05)
