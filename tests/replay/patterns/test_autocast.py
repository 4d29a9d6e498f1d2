"""What autocast would cast, by operators written by hand. The counts of whole layers are those of
PyTorch's dispatcher for the same programs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.diagnosis.test_remedies import ADD, program, within
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.replay.patterns.autocast import autocasts
from traceanalyzer.replay.patterns.autocast_rules import CastRule, rule_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.analysis.causes.test_gaps import Program

ROWS = "[32,64]"
WEIGHT = "[64,64]"
BIAS = "[64]"
TOKENS = "[8,16,64]"
HEADS = "[8,4,16,16]"
NODE = "autograd::engine::evaluate_function: "
STEPS = 6


class Network:
    """A program whose operators are numbered as autograd numbers them, and their gradients."""

    def __init__(self, p: Program) -> None:
        self._p = p
        self._made: list[tuple[int, str, bool]] = []

    def takes(self, name: str, *shapes: str, again: bool = False, values: str = "[]") -> None:
        """An operator of the forward pass; `again`: what it takes is taken later, too."""
        number = self._p.launched + 1
        columns = {"shapes": f"[{','.join(shapes)}]", "concrete": self._p.code(values)}
        self._launched(f"aten::{name}", sequence=number, **columns)
        self._made.append((number, name, again))

    def learns(self, *parameters: str) -> None:
        """The backward pass."""
        for number, name, again in reversed(self._made):
            gradient = {"sequence": number, "forward_thread": 1}
            within(self._p, f"{NODE}{name}", partial(self._added, again=again), **gradient)
        for shape in parameters:
            gradient = partial(self._accumulated, shape=shape)
            within(self._p, f"{NODE}{ACCUMULATE}", gradient)

    def _added(self, p: Program, *, again: bool) -> None:
        p.spend(15).launch(ADD, 3)
        if again:
            self._launched("aten::add", shapes=f"[{ROWS},{ROWS}]")

    def _accumulated(self, p: Program, shape: str) -> None:
        p.spend(5)
        self._launched(ACCUMULATE, shapes=f"[{shape}]")

    def _launched(self, name: str, **columns: object) -> None:
        within(self._p, name, lambda p: p.spend(15).launch(ADD, 3), **columns)


def counted(step: Callable[[Network], None]) -> tuple[float, float]:
    """Casts of a step, forward and backward."""
    casts = autocasts(program(lambda p: step(Network(p)), STEPS).rated)
    return casts.forward.sum() / STEPS, casts.backward.sum() / STEPS


def perceptron(net: Network) -> None:
    for _ in range(2):
        net.takes("linear", ROWS, WEIGHT, BIAS)
        net.takes("layer_norm", ROWS, BIAS, BIAS)
        net.takes("silu", ROWS)


def test_a_perceptron_casts_what_it_takes_its_parameters_and_for_norms() -> None:
    def step(net: Network) -> None:
        perceptron(net)
        net.learns(*[WEIGHT, BIAS, BIAS, BIAS] * 2)

    # Two linears with input, weight and bias, two norms; the first input has no gradient.
    assert counted(step) == (8, 7)


def test_without_a_backward_pass_nothing_is_cast_back() -> None:
    assert counted(perceptron) == (8, 0)


def test_what_convolutions_and_batch_norms_pass_on_is_cast_once() -> None:
    maps = "[2,64,8,8]"
    kernel = "[64,64,3,3]"

    def step(net: Network) -> None:
        for _ in range(3):
            net.takes("conv2d", maps, kernel)
            net.takes("batch_norm", maps, *[BIAS] * 4)
            net.takes("relu_", maps)
        net.learns(*[kernel, BIAS, BIAS] * 3)

    assert counted(step) == (1 + 3, 3)


def encoder(net: Network, *, residual: bool) -> None:
    """An encoder's layer, and the norm before it."""
    net.takes("layer_norm", TOKENS, BIAS, BIAS)
    for number in range(3):
        net.takes("linear", TOKENS, WEIGHT, BIAS, again=residual or number < 2)
        net.takes("view", TOKENS)
        net.takes("transpose", "[8,16,4,16]")
    net.takes("scaled_dot_product_attention", HEADS, HEADS, HEADS)
    net.takes("transpose", HEADS)
    net.takes("reshape", "[8,16,4,16]")
    net.takes("linear", TOKENS, WEIGHT, BIAS)
    net.takes("dropout", TOKENS)


def test_each_product_casts_what_a_norm_gave_and_a_sum_with_it_is_wide() -> None:
    def step(net: Network) -> None:
        encoder(net, residual=True)
        net.takes("add", TOKENS, TOKENS)
        net.takes("layer_norm", TOKENS, BIAS, BIAS)
        net.learns(*[WEIGHT, BIAS] * 4, *[BIAS] * 4)

    # Eight parameters and three inputs; what the sum adds to fp32 has a gradient that is cast.
    assert counted(step) == (11, 12)


def test_a_product_after_others_takes_what_is_still_needed() -> None:
    def step(net: Network) -> None:
        net.takes("layer_norm", TOKENS, BIAS, BIAS)
        net.takes("linear", TOKENS, WEIGHT, again=True)
        net.takes("mul", TOKENS, "[]")
        net.takes("view", TOKENS)
        net.takes("linear", TOKENS, WEIGHT, again=True)
        net.takes("view", TOKENS)
        net.takes("linear", TOKENS, WEIGHT)
        net.learns(*[WEIGHT] * 3, *[BIAS] * 2)

    assert counted(step) == (3 + 3, 3 + 3)


def test_a_norm_of_what_a_product_gave_casts_it() -> None:
    def step(net: Network) -> None:
        encoder(net, residual=False)
        net.takes("layer_norm", TOKENS, BIAS, BIAS)
        net.learns(*[WEIGHT, BIAS] * 4, *[BIAS] * 4)

    assert counted(step) == (12, 12)


def test_a_parameter_that_is_taken_often_is_cast_once() -> None:
    def step(net: Network) -> None:
        for _ in range(5):
            net.takes("linear", ROWS, WEIGHT)
            net.takes("tanh", ROWS)
        net.learns(WEIGHT)

    assert counted(step) == pytest.approx((1 + 1, 1))


def test_a_frozen_parameter_is_cast_wherever_it_is_taken() -> None:
    def step(net: Network) -> None:
        for _ in range(5):
            net.takes("linear", ROWS, WEIGHT)
            net.takes("tanh", ROWS)
        net.takes("linear", ROWS, "[10,64]")
        net.learns("[10,64]")

    assert counted(step) == pytest.approx((1 + 5 + 1, 1))


@pytest.mark.parametrize("split", ["split", "chunk", "unbind"])
def test_parts_have_the_format_of_the_whole(split: str) -> None:
    def step(net: Network) -> None:
        net.takes("linear", TOKENS, "[192,64]")
        net.takes(split, "[8,16,192]")
        for _ in range(3):
            net.takes("view", TOKENS)
        net.takes("scaled_dot_product_attention", HEADS, HEADS, HEADS)
        net.takes("softmax", HEADS)
        net.learns("[192,64]")

    # Of three parts in 16 bits attention casts none, and the softmax of its result does.
    assert counted(step) == (1 + 1 + 1, 1 + 1)


def test_a_slice_is_what_is_left_of_the_dimension() -> None:
    def step(net: Network) -> None:
        net.takes("linear", TOKENS, WEIGHT)
        net.takes("slice", TOKENS, values='["","2","0","32","1"]')
        net.takes("gelu", "[8,16,32]")
        net.takes("exp", "[8,16,32]")
        net.learns(WEIGHT)

    assert counted(step) == (1 + 1 + 1, 1 + 1)


def test_the_loss_of_classes_casts_for_its_second_half() -> None:
    def loss(p: Program) -> None:
        within(p, "aten::log_softmax", lambda p: p.spend(9).launch(ADD, 3), shapes=f"[{ROWS}]")
        within(p, "aten::nll_loss", lambda p: p.spend(9).launch(ADD, 3), shapes=f"[{ROWS}]")

    def step(p: Program) -> None:
        net = Network(p)
        net.takes("linear", ROWS, WEIGHT)
        within(p, "aten::cross_entropy_loss", loss, shapes=f"[{ROWS}]")

    casts = autocasts(program(step, STEPS).rated)
    assert casts.forward.sum() / STEPS == 1 + 1 + 1


def test_a_programs_own_cast_to_fp32_launches_then() -> None:
    def step(net: Network) -> None:
        net.takes("linear", ROWS, WEIGHT)
        net.takes("to", ROWS, values='["","6","False","False",""]')
        net.takes("relu", ROWS)
        net.learns(WEIGHT)

    assert counted(step) == (1 + 1 + 1, 1 + 1)


def test_the_lists_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    cast = {name.partition(".")[0] for name in names if has(name, "AutocastCUDA")}
    every = {name.partition(".")[0] for name in names}
    listed = {name for name in every if rule_of(name) is not CastRule.NONE}
    # The first is refused under autocast, the other is cast where CUDA is built in.
    assert cast - listed == {"aten::binary_cross_entropy"}
    assert listed - cast <= {"aten::_cudnn_rnn"}
