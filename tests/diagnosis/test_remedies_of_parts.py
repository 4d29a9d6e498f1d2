"""Products on parts of tensors, one by one, with what they give rise to in the backward pass, as
one product."""

from __future__ import annotations

import pytest

from tests.analysis.causes.test_gaps import Program
from tests.diagnosis.test_remedies import ADD, GEMM, within
from tests.diagnosis.test_remedies_of_kinds import tape_of
from tests.diagnosis.test_remedies_of_repeats import call, view
from traceanalyzer.replay.changes.kernels import products_batched
from traceanalyzer.replay.changes.loops.joined_calls import calls_joined, ensembles_joined
from traceanalyzer.replay.simulate import step_time_ns

BF16 = '["c10::BFloat16", "c10::BFloat16"]'
REQUESTS = 12
CHANNELS = 16
LAYERS = 12


def part(p: Program, shape: str, number: int) -> None:
    """Part of a tensor, by its number along the first dimension."""
    values = p.code(f'["", "0", "{number}"]')
    within(p, "aten::select", lambda p: p.spend(2), shapes=f"[{shape}, [], []]", concrete=values)


def adapter(p: Program, before: int, after: int, read: int, written: int) -> None:
    """y[written] += x[read] @ down @ up, as PyTorch runs it: the sum is copied to where it is."""
    part(p, f"[{REQUESTS}, 1, {after}]", written)
    part(p, f"[{REQUESTS}, 1, {before}]", read)
    call(p, "matmul", f"[1, {before}]", f"[{before}, 16]", kernel=GEMM)
    call(p, "matmul", "[1, 16]", f"[16, {after}]", kernel=GEMM)
    call(p, "add_", f"[1, {after}]", f"[1, {after}]", "[]")
    part(p, f"[{REQUESTS}, 1, {after}]", written)
    view(p, "copy_", f"[1, {after}], [1, {after}]")


def residual(p: Program) -> None:
    """A layer that adds to what it takes: it has no parts."""
    call(p, "matmul", "[1, 512]", "[512, 16]", kernel=GEMM)
    call(p, "matmul", "[1, 16]", "[16, 512]", kernel=GEMM)
    call(p, "add_", "[1, 512]", "[1, 512]", "[]")


@pytest.mark.parametrize(
    ("each", "found"),
    [
        (lambda p, i: adapter(p, 512, 1536, i, i), True),
        (lambda p, i: adapter(p, 512, 512, i, i), True),
        (lambda p, i: adapter(p, 512, 512, i, i + 1), False),
        (lambda p, _: residual(p), False),
    ],
)
def test_adapters_of_each_request_are_one_product(each: object, found: bool) -> None:
    def step(p: Program) -> None:
        call(p, "rms_norm", f"[{REQUESTS}, 1, 512]")
        for i in range(REQUESTS):
            each(p, i)  # type: ignore[operator]
        call(p, "silu", f"[{REQUESTS}, 1, 512]")

    tape = tape_of(step)
    one = ensembles_joined(tape)
    assert (one is not None) == found
    assert one is None or int((one.duration > 0).sum()) == (1 + 3 + 1) * tape.steps


def learned(p: Program, number: int, *kernels: str, node: str) -> None:
    full = f"autograd::engine::evaluate_function: {node}"

    def backward(p: Program) -> None:
        for kernel in kernels:
            p.spend(10).launch(kernel, 3)

    within(p, full, backward, sequence=number, forward_thread=1)


def test_products_by_channel_are_one_in_the_backward_pass_too() -> None:
    def step(p: Program) -> None:
        for _ in range(2):
            view(p, "unbind", f"[{CHANNELS}, 64, 64]")
        for i in range(CHANNELS):
            call(
                p,
                "mm",
                "[64, 64]",
                "[64, 64]",
                kernel=GEMM,
                us=10,
                dtypes=p.code(BF16),
                sequence=i + 1,
            )
            p.rows["op"][-1] |= {"blocks": 1, "threads": 128}
        call(p, "sum", "[64, 64]", sequence=CHANNELS + 1)
        learned(p, CHANNELS + 1, ADD, node="SumBackward0")
        for i in reversed(range(CHANNELS)):
            learned(p, i + 1, GEMM, ADD, GEMM, ADD, node="MmBackward0")

    tape = tape_of(step)
    one = products_batched(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == (1 + 2 + 4) * tape.steps
    assert step_time_ns(one) < step_time_ns(tape) / 5


def test_views_within_calls_are_part_of_them_in_the_backward_pass() -> None:
    """Each of two calls has as many views as layers; autograd writes their gradients into zeros."""
    calls = 2
    views = 1000

    def step(p: Program) -> None:
        for at in range(calls):
            call(p, "conv2d", "[16, 3, 64, 64]", "[64, 3, 3, 3]", kernel=GEMM)
            for i in range(LAYERS):
                call(p, "conv2d", "[16, 64, 32, 32]", "[64, 64, 3, 3]", kernel=GEMM)
                number = at * views + i + 1
                within(
                    p,
                    "aten::select",
                    lambda p: p.spend(2),
                    shapes="[[16, 64, 32, 32]]",
                    sequence=number,
                )
                call(p, "relu", "[16, 64, 32, 32]")
            call(p, "linear", "[16, 64]", "[128, 64]", kernel=GEMM)
        call(p, "mm", "[16, 128]", "[128, 16]", kernel=GEMM)
        for number in (at * views + i + 1 for at in range(calls) for i in range(LAYERS)):
            learned(p, number, ADD, node="SelectBackward0")

    tape = tape_of(step)
    one = calls_joined(tape)
    assert one is not None
    assert int((one.duration > 0).sum()) == (1 + 3 * LAYERS + 1 + 1) * tape.steps
