"""Remedies for programs that do the same thing many times: tensor by tensor, item by item, time
step by time step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, REDUCE, program, within
from tests.diagnosis.test_remedies_of_kinds import read, tape_of
from traceanalyzer.diagnosis.remedies.loops import batch_calls, fused_optimizer
from traceanalyzer.replay.changes.loops.joined_calls import calls_joined, ensembles_joined
from traceanalyzer.replay.changes.loops.repetition import batched
from traceanalyzer.replay.changes.loops.unfused_rnn import (
    recurrent_fused,
    tensors_listed,
    unfused_cells,
)
from traceanalyzer.replay.changes.optimizer import optimizer_by_lists, optimizer_fused
from traceanalyzer.replay.simulate import step_time_ns
from traceanalyzer.trace import RangeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[Program], object]

LISTS = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOp<float>>"
SIZES = ("[32, 32, 3, 3]", "[32]", "[64, 32, 3, 3]", "[64]")
TENSORS = 40
TIMES = 16


def call(
    p: Program, name: str, *shapes: str, kernel: str = ADD, us: float = 3, **columns: object
) -> None:
    within(
        p,
        f"aten::{name}",
        lambda p: p.spend(15).launch(kernel, us),
        shapes=f"[{', '.join(shapes)}]",
        **columns,
    )


def view(p: Program, name: str, shape: str) -> None:
    within(p, f"aten::{name}", lambda p: p.spend(2), shapes=f"[{shape}, [], []]")


def averages(p: Program) -> None:
    for i in range(TENSORS):
        size = SIZES[i % 4]
        call(p, "mul", size, "[]")
        call(p, "mul", size, "[]")
        call(p, "add", size, size, "[]")
        call(p, "copy_", size, size, "[]")


def norms(p: Program) -> None:
    for i in range(TENSORS):
        call(p, "linalg_vector_norm", SIZES[i % 4], "[]", kernel=REDUCE)
    call(p, "stack", "[]", kernel=ADD)
    for i in range(TENSORS):
        call(p, "mul_", SIZES[i % 4], "[]")


def one_a_list(p: Program) -> None:
    for i in range(TENSORS):
        call(p, "_foreach_lerp_", f"[{SIZES[i % 4]}]", f"[{SIZES[i % 4]}]", "[]", kernel=LISTS)


def lamb(p: Program) -> None:
    """An optimizer that is written out: seventeen operators on each tensor."""
    for i in range(TENSORS):
        size = SIZES[i % 4]
        for name, shapes in (
            ("mul_", [size]),
            ("add_", [size, size]),
            ("mul_", [size]),
            ("addcmul_", [size, size, size]),
            ("sqrt", [size]),
            ("add", [size]),
            ("div", [size, size]),
            ("mul", [size]),
            ("add", [size, size]),
            ("linalg_vector_norm", [size]),
            ("linalg_vector_norm", [size]),
            ("clamp", ["[]"]),
            ("div", ["[]", "[]"]),
            ("clamp", ["[]"]),
            ("mul", ["[]"]),
            ("mul", [size, "[]"]),
            ("sub_", [size, size]),
        ):
            call(p, name, *shapes)


def zeros(p: Program) -> None:
    for i in range(TENSORS):
        call(p, "zero_", SIZES[i % 4])


def steps(p: Program) -> None:
    for i in range(TENSORS):
        call(p, "div_", SIZES[i % 4], "[]")
        call(p, "neg_", SIZES[i % 4])


@pytest.mark.parametrize(
    ("loop", "word"),
    [
        (averages, "_foreach_lerp_"),
        (norms, "clip_grad_norm_"),
        (one_a_list, "_foreach_lerp_"),
        (lamb, "_foreach_addcmul_"),
        (zeros, "torch._foreach_zero_"),
        (steps, "torch._foreach_div_, torch._foreach_neg_"),
    ],
)
def test_a_loop_over_tensors_is_a_call_for_all(loop: Step, word: str) -> None:
    def step(p: Program) -> None:
        call(p, "linear", "[8, 64]", "[64, 64]", kernel=GEMM, us=30)
        loop(p)

    tape = tape_of(step)
    listed = tensors_listed(tape)
    assert listed is not None
    assert step_time_ns(listed) < step_time_ns(tape) / 5
    offer = fused_optimizer.offer(program(step))
    assert offer is not None
    assert word in offer.action.pytorch


def chain_on_one_tensor(p: Program) -> None:
    for _ in range(TENSORS):
        call(p, "mul", "[4096, 64]", "[]")
        call(p, "add", "[4096, 64]", "[4096, 64]", "[]")


def chain_that_widens(p: Program) -> None:
    for _ in range(TENSORS):
        call(p, "mul", "[4096, 64]", "[4096, 1]")
        call(p, "add", "[4096, 1]", "[4096, 1]", "[]")


def layers_of_other_sizes(p: Program) -> None:
    for i in range(TENSORS):
        call(p, "conv2d", SIZES[i % 4], kernel=GEMM)
        call(p, "add", SIZES[i % 4], SIZES[i % 4], "[]")
        call(p, "mul", SIZES[i % 4], "[]")


def lists_of_many(p: Program) -> None:
    for _ in range(TENSORS):
        call(p, "_foreach_mul_", "[[32], [64, 3], [32]]", "[]", kernel=LISTS)


@pytest.mark.parametrize(
    "loop", [chain_on_one_tensor, chain_that_widens, layers_of_other_sizes, lists_of_many]
)
def test_chains_layers_and_lists_are_no_loops_over_tensors(loop: Step) -> None:
    assert tensors_listed(tape_of(loop)) is None


def in_groups(p: Program, name: str, size: str, times: int) -> None:
    start = p.now
    for _ in range(times):
        for operator in ("_foreach_mul_", "_foreach_add_"):
            call(p, operator, size, "[]", kernel=f"{LISTS} {operator}")
    p.annotation(f"Optimizer.step#{name}.step", start, p.now)


@pytest.mark.parametrize(
    ("size", "times", "small"),
    [
        ("[[64, 32]]", TENSORS, True),
        ("[[64, 32], [64]]", TENSORS, True),
        ("[]", 3, False),
        ("[[9], [64]]", 2, False),
    ],
)
def test_an_optimizer_with_a_group_for_every_tensor_takes_them_one_by_one(
    size: str, times: int, small: bool
) -> None:
    step = partial(in_groups, name="SGD", size=size, times=times)
    tape = tape_of(step)
    listed = optimizer_by_lists(tape)
    assert (listed is not None) == small
    if listed is not None:
        assert step_time_ns(listed) < step_time_ns(tape) / 8
        offer = fused_optimizer.offer(program(step))
        assert offer is not None
        assert "one group" in offer.action.pytorch


def test_an_optimizer_that_calls_the_model_is_no_loop_over_tensors() -> None:
    def step(p: Program) -> None:
        start = p.now
        for _ in range(TENSORS):
            call(p, "linear", "[8, 64]", "[64, 64]", kernel=GEMM)
            call(p, "relu", "[8, 64]")
        averages(p)
        p.annotation("Optimizer.step#SAM.step", start, p.now)

    tape = tape_of(step)
    assert optimizer_by_lists(tape) is None
    assert tensors_listed(tape) is not None


@pytest.mark.parametrize(("inner", "found"), [(1, True), (64, False)])
def test_products_of_a_column_and_a_row_are_no_calls_of_a_model(inner: int, found: bool) -> None:
    """Adafactor has the means of rows and of columns, and of these those of the whole."""

    def step(p: Program) -> None:
        start = p.now
        for _ in range(TENSORS):
            call(p, "lerp_", "[512, 1]", "[512, 1]")
            call(p, "matmul", f"[512, {inner}]", f"[{inner}, 256]", kernel=GEMM)
            call(p, "mul_", "[512, 256]", "[512, 256]")
        p.annotation("Optimizer.step#Adafactor.step", start, p.now)

    tape = tape_of(step)
    listed = optimizer_by_lists(tape)
    assert (listed is not None) == found
    assert listed is None or step_time_ns(listed) < step_time_ns(tape) / 8


def test_adam_with_a_group_for_every_tensor_is_fused_for_all_of_them() -> None:
    tape = tape_of(partial(in_groups, name="AdamW", size="[[64, 32]]", times=72))
    fused = optimizer_fused(tape)
    assert fused is not None
    assert int((fused.duration > 0).sum()) == 2 * tape.steps


def lstm(p: Program) -> None:
    call(p, "linear", "[64, 12]", "[512, 12]", "[512]", kernel=GEMM)
    call(p, "linear", "[64, 128]", "[512, 128]", "[512]", kernel=GEMM)
    call(p, "add", "[64, 512]", "[64, 512]", "[]")
    view(p, "chunk", "[64, 512]")
    for name in ("sigmoid", "sigmoid", "tanh"):
        call(p, name, "[64, 128]")
    for name in ("mul", "mul", "add"):
        call(p, name, "[64, 128]", "[64, 128]")
    for name in ("sigmoid", "tanh"):
        call(p, name, "[64, 128]")
    call(p, "mul", "[64, 128]", "[64, 128]")


def gru(p: Program) -> None:
    for size in ("12", "128"):
        call(p, "matmul", f"[64, {size}]", f"[{size}, 384]", kernel=GEMM)
    for name in ("sigmoid", "sigmoid"):
        call(p, name, "[64, 128]")
    call(p, "addcmul", "[64, 128]", "[64, 128]", "[64, 128]")
    call(p, "tanh", "[64, 128]")
    call(p, "lerp", "[64, 128]", "[64, 128]", "[64, 128]")


def plain(p: Program) -> None:
    call(p, "linear", "[64, 12]", "[128, 12]", "[128]", kernel=GEMM)
    call(p, "linear", "[64, 128]", "[128, 128]", "[128]", kernel=GEMM)
    call(p, "add", "[64, 128]", "[64, 128]", "[]")
    call(p, "tanh", "[64, 128]")


def tanh_layer(p: Program) -> None:
    call(p, "linear", "[64, 128]", "[128, 128]", "[128]", kernel=GEMM)
    call(p, "tanh", "[64, 128]")


def gated_layer(p: Program) -> None:
    for name in ("linear", "sigmoid", "linear", "tanh", "mul", "rsub", "mul", "add"):
        call(p, name, "[64, 128]", "[128, 128]")


def with_attention(p: Program) -> None:
    lstm(p)
    call(p, "softmax", "[64, 30]")


@pytest.mark.parametrize(
    ("cell", "parts", "found"),
    [
        (lstm, True, True),
        (gru, True, True),
        (plain, True, True),
        (plain, False, False),
        (tanh_layer, True, False),
        (lstm, False, False),
        (gated_layer, True, False),
        (with_attention, True, False),
    ],
)
def test_a_recurrent_layer_that_is_written_out_is_one_call(
    cell: Step, parts: bool, found: bool
) -> None:
    def step(p: Program) -> None:
        for _ in range(TIMES):
            if parts:
                view(p, "select", f"[64, {TIMES}, 12]")
            cell(p)
        call(p, "stack", "[]")

    tape = tape_of(step)
    layer = recurrent_fused(tape)
    assert (layer is not None) == found
    assert layer is None or step_time_ns(layer) < step_time_ns(tape) / 5


def test_each_time_step_of_a_layer_that_is_written_out_is_a_cell_of_its_own() -> None:
    """Its operators, and the views between that launch nothing, have the number of its last one."""

    def step(p: Program) -> None:
        for _ in range(TIMES):
            view(p, "select", f"[64, {TIMES}, 12]")
            lstm(p)
        call(p, "stack", "[]")

    tape = tape_of(step)
    tree = tape.source.linked.tree
    operators = np.flatnonzero(~tree.is_call & (tree.kind == RangeKind.OP))
    cells = unfused_cells(tape)[operators]
    in_a_cell = 13  # operators of `lstm`
    first = [-1] + [0] * in_a_cell  # the view before the first cell follows none
    others = [number for number in range(1, TIMES) for _ in range(in_a_cell + 1)]
    of_a_step = np.array([*first, *others, -1])
    ends = np.unique(cells[cells >= 0]).reshape(tape.steps, TIMES)
    expected = [np.where(of_a_step >= 0, of_step[of_a_step], -1) for of_step in ends]
    assert cells.tolist() == np.concatenate(expected).tolist()
    assert [tape.source.trace.strings[code] for code in set(tree.names(ends.ravel()).tolist())] == [
        "aten::mul"
    ]


def test_a_sequence_that_is_taken_apart_before_is_an_input_too() -> None:
    def step(p: Program) -> None:
        view(p, "unbind", f"[{TIMES}, 64, 12]")
        for _ in range(TIMES):
            lstm(p)

    assert recurrent_fused(tape_of(step)) is not None


def learned(p: Program, number: int) -> None:
    for name in ("MulBackward0", "AddmmBackward0"):
        full = f"autograd::engine::evaluate_function: {name}"
        within(p, full, lambda p: p.spend(15).launch(GEMM, 3), sequence=number, forward_thread=1)


def iterated(p: Program, i: int) -> None:
    if not i:
        view(p, "unbind", f"[{TIMES}, 3, 32]")
    view(p, "unsqueeze", "[3, 32]")


def by_number(p: Program, i: int) -> None:
    for shape in (f"[{TIMES}, 3, 32]", f"[{TIMES}, 3, 32]", f"[{TIMES}]"):
        within(
            p,
            "aten::slice",
            lambda p: p.spend(2),
            shapes=f"[{shape}]",
            concrete=p.code(f'["", "0", "{i}", "{i + 1}", "1"]'),
        )


def in_time(p: Program, i: int) -> None:
    within(
        p,
        "aten::slice",
        lambda p: p.spend(2),
        shapes="[[3, 16, 32]]",
        concrete=p.code(f'["", "1", "{i}", "{i + 1}", "1"]'),
    )


@pytest.mark.parametrize(
    ("taken", "each", "found"),
    [
        (iterated, True, True),
        (by_number, True, True),
        (iterated, False, False),
        (in_time, True, False),
    ],
)
def test_items_with_a_backward_pass_each_are_one_call(
    taken: Callable[[Program, int], object], each: bool, found: bool
) -> None:
    def step(p: Program) -> None:
        for i in range(TIMES):
            taken(p, i)
            for _ in range(12):
                call(p, "linear", "[1, 3, 32]", "[32, 32]", kernel=GEMM, sequence=i + 1)
            if each:
                learned(p, i + 1)
        if not each:
            learned(p, TIMES)

    tape = tape_of(step)
    one = batched(tape)
    assert (one is not None) == found
    assert one is None or step_time_ns(one) < step_time_ns(tape) / 4


@pytest.mark.parametrize("end", ["stack", "sort"])
def test_calls_that_read_in_their_middle_are_one_whole_call(end: str) -> None:
    def step(p: Program) -> None:
        view(p, "unbind", f"[{TIMES}, 9, 9]")
        for _ in range(TIMES):
            for name in ("matmul", "mul", "linalg_solve"):
                for _ in range(3):
                    call(p, name, "[9, 9]", kernel=GEMM)
            read(p)
            for name in ("sub", "add", "neg"):
                call(p, name, "[9, 9]")
        call(p, end, "[9, 9]")

    tape = tape_of(step)
    one = batched(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == (13 if end == "stack" else 14) * tape.steps


def taken(p: Program, name: str, shape: str, values: str) -> None:
    within(
        p,
        f"aten::{name}",
        lambda p: p.spend(2),
        shapes=f"[{shape}, [], []]",
        concrete=p.code(values),
    )


PLACES = (501, 301, 181, 644, 44, 103, 383, 12)


@pytest.mark.parametrize(
    ("name", "shape", "values", "then", "found"),
    [
        ("split", f"[{TIMES}, 32]", '["", "1", "0"]', "", True),
        ("split", f"[{TIMES}, 32]", '["", "8", "0"]', "", False),
        ("split", f"[32, {TIMES}]", '["", "1", "1"]', "", False),
        ("split_with_sizes", "[512, 32]", '["", "[100, 200, 112, 100]", "0"]', "", True),
        ("unbind", f"[3, {TIMES}, 32]", '["", "0"]', "", False),
        ("unbind", f"[{TIMES}]", '["", "0"]', "", False),
        ("unsqueeze", "[3, 32, 32]", '["", "0"]', "", True),
        ("unsqueeze", "[3, 32, 32]", '["", "2"]', "", False),
        ("select", f"[{TIMES}, 32]", '["", "0", "{i}"]', "", True),
        ("select", f"[{TIMES}, 32]", '["", "0", "{i}"]', "copy_", False),
        ("select", f"[32, {TIMES}]", '["", "1", "{i}"]', "", False),
        ("slice", "[3, 720, 1280]", '["", "1", "{place}", "800", "1"]', "", True),
        ("slice", "[3, 720, 1280]", '["", "1", "1", "-1", "1"]', "", False),
        ("add", "[3, 32]", "", "", False),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_calls_told_by_reads_alone_are_one_only_where_items_are_taken_before(
    name: str, shape: str, values: str, then: str, found: bool, when: str
) -> None:
    def step(p: Program) -> None:
        def take(i: int) -> None:
            told = values.replace("{i}", str(i)).replace("{place}", str(PLACES[i % len(PLACES)]))
            taken(p, name, shape, told)
            if then:
                call(p, then, "[32]", "[32]")

        for i in range(TIMES):
            if when == "before":
                take(i)
            for _ in range(12):
                call(p, "conv2d", "[1, 4, 32, 32]", kernel=GEMM)
            read(p)
        if when == "after":
            for i in range(TIMES):
                take(i)

    assert (batched(tape_of(step)) is not None) == (found and when == "before")


def test_what_is_read_between_two_items_is_read_within_a_call() -> None:
    def step(p: Program) -> None:
        for i in range(TIMES):
            by_number(p, i)
            call(p, "all", "[1, 32]", kernel=REDUCE)
            read(p)
            for _ in range(12):
                call(p, "linear", "[1, 3, 32]", "[32, 32]", kernel=GEMM)

    tape = tape_of(step)
    one = batched(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == (1 + 1 + 12) * tape.steps


def test_parts_of_a_batch_that_are_written_to_parts_of_another_are_an_ensemble() -> None:
    def step(p: Program) -> None:
        for _ in range(TIMES):
            view(p, "select", f"[64, {TIMES}, 336]")
            call(p, "linear", "[64, 336]", "[96, 336]", "[96]", kernel=GEMM)
            view(p, "select", f"[64, {TIMES}, 96]")
            call(p, "copy_", "[64, 96]", "[64, 96]", "[]")
        call(p, "add", f"[64, {TIMES}, 96]")

    tape = tape_of(step)
    one = ensembles_joined(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == 3 * tape.steps


@pytest.mark.parametrize(
    ("source", "written", "found"),
    [
        (f"[64, {TIMES}, 96]", False, True),
        (f"[{TIMES}, 96, 96]", False, False),
        (f"[64, {TIMES}, 96]", True, False),
    ],
)
def test_products_of_parts_are_one_unless_weights_are_the_parts_or_results_go_back(
    source: str, written: bool, found: bool
) -> None:
    def step(p: Program) -> None:
        for _ in range(TIMES):
            view(p, "select", source)
            call(p, "linear", "[64, 96]", "[96, 96]", kernel=GEMM)
            if written:
                view(p, "select", source)
                call(p, "copy_", "[64, 96]", "[64, 96]", "[]")
        call(p, "stack", "[]")

    assert (ensembles_joined(tape_of(step)) is not None) == found


STATE = "[1, 4, 32, 32]"
WIDE = "[1, 256, 32, 32]"


def denoiser(p: Program, layers: int = 8) -> None:
    call(p, "conv2d", STATE, "[256, 4, 3, 3]", kernel=GEMM)
    for _ in range(layers):
        call(p, "group_norm", WIDE, "[256]")
        call(p, "silu", WIDE)
        call(p, "conv2d", WIDE, "[256, 256, 3, 3]", kernel=GEMM)
    call(p, "conv2d", WIDE, "[4, 256, 3, 3]", kernel=GEMM)


def guided(p: Program) -> None:
    for _ in range(4):
        denoiser(p)
        denoiser(p)
        for name in ("sub", "mul", "add"):
            call(p, name, STATE, STATE)


def half_steps(p: Program) -> None:
    for _ in range(4):
        denoiser(p)
        for name in ("mul", "add"):
            call(p, name, STATE, STATE)


def forecast(p: Program) -> None:
    for _ in range(3):
        denoiser(p)
    call(p, "stack", "[]")


def layer(p: Program) -> None:
    call(p, "layer_norm", WIDE, "[256]")
    for _ in range(12):
        call(p, "linear", WIDE, "[256, 256]", kernel=GEMM)
        call(p, "gelu", WIDE)
    call(p, "add", WIDE, WIDE)


def layers(p: Program) -> None:
    for _ in range(2):
        layer(p)
    call(p, "sub", WIDE, WIDE)


def embed(p: Program) -> None:
    call(p, "conv2d", "[16, 3, 64, 64]", "[64, 3, 3, 3]", kernel=GEMM)
    for _ in range(12):
        call(p, "conv2d", "[16, 64, 32, 32]", "[64, 64, 3, 3]", kernel=GEMM)
        call(p, "relu", "[16, 64, 32, 32]")
    call(p, "linear", "[16, 64]", "[128, 64]", kernel=GEMM)


def two_views(p: Program) -> None:
    embed(p)
    embed(p)
    call(p, "mm", "[16, 128]", "[128, 16]", kernel=GEMM)


def small_views(p: Program) -> None:
    for size, times in ((64, 2), (48, 4)):
        for _ in range(times):
            call(p, "conv2d", f"[16, 3, {size}, {size}]", "[64, 3, 3, 3]", kernel=GEMM)
            for _ in range(12):
                call(
                    p,
                    "conv2d",
                    f"[16, 64, {size // 2}, {size // 2}]",
                    "[64, 64, 3, 3]",
                    kernel=GEMM,
                )
                call(p, "relu", f"[16, 64, {size // 2}, {size // 2}]")
            call(p, "mean", f"[16, 64, {size // 2}, {size // 2}]", kernel=REDUCE)
            call(p, "layer_norm", "[16, 64]")
            call(p, "linear", "[16, 64]", "[128, 64]", kernel=GEMM)


def one_view(p: Program) -> None:
    embed(p)
    call(p, "mm", "[16, 128]", "[128, 16]", kernel=GEMM)


def time_steps(p: Program) -> None:
    for _ in range(6):
        embed(p)


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (guided, True),
        (two_views, True),
        (half_steps, False),
        (forecast, False),
        (layers, False),
        (one_view, False),
        (time_steps, False),
    ],
)
def test_calls_in_a_row_are_one_if_none_needs_the_one_before(step: Step, found: bool) -> None:
    tape = tape_of(step)
    one = calls_joined(tape)
    assert (one is not None) == found
    if one is not None:
        assert 0.4 < step_time_ns(one) / step_time_ns(tape) < 0.7
        offer = batch_calls.offer(program(step))
        assert offer is not None
        assert "torch.cat" in offer.action.pytorch


def test_calls_on_smaller_inputs_begin_where_they_take_them() -> None:
    tape = tape_of(small_views)
    one = calls_joined(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == 2 * 28 * tape.steps


@pytest.mark.parametrize("times", [3, 8])
@pytest.mark.parametrize("updated", [False, True])
def test_calls_between_which_weights_are_updated_need_each_other(times: int, updated: bool) -> None:
    """Epochs over minibatches within a step, whose losses are added up."""

    def step(p: Program) -> None:
        for _ in range(times):
            embed(p)
            values = p.code('["", "", "", "1", "-100", "0."]')
            call(p, "cross_entropy_loss", "[16, 128]", "[16]", "[]", concrete=values)
            if updated:
                in_groups(p.spend(5), "AdamW", "[64, 64, 3, 3]", 1)
            call(p, "add", "[]", "[]", "[]", concrete=p.code('["", "", "1"]'))

    assert (calls_joined(tape_of(step)) is None) == updated
