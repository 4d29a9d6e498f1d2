"""Operators of a forward pass that run again in the backward pass: by autograd's numbers, else by
their names."""

from __future__ import annotations

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.joined.joined import HostAttribution
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.linked import TraceJoins

NODE = "autograd::engine::evaluate_function: AddmmBackward0"


def again(builder: TraceBuilder) -> list[str]:
    trace = builder.build()
    tree = TraceJoins(trace, Knowledge()).tree
    chosen = HostAttribution(TraceJoins(trace, Knowledge())).run_again[:-1]
    return [trace.strings[code] for code in tree.names(chosen.nonzero()[0])]


def backward(builder: TraceBuilder, *, numbered: bool = True) -> TraceBuilder:
    """A forward operator, and an autograd node that runs it and an elementwise one again before its
    own two."""
    number = {"sequence": 7} if numbered else {}
    builder.op("aten::addmm", 0, 10, **number)
    builder.op(NODE, 100, 200, thread=1, forward_thread=1, sequence=7)
    builder.op("aten::addmm", 110, 120, thread=1, **number)
    builder.op("aten::expand", 112, 114, thread=1)
    builder.op("aten::mul", 125, 130, thread=1, **number)
    return builder.op("aten::mm", 150, 160, thread=1).op("aten::mm", 170, 180, thread=1)


def test_numbered_operators_of_the_backward_pass_are_a_forward_pass() -> None:
    assert again(backward(TraceBuilder())) == ["aten::addmm", "aten::expand", "aten::mul"]


def test_a_formula_of_the_programs_own_is_no_forward_pass() -> None:
    """A function's `backward` that uses operators of forward passes: it makes no graph."""
    builder = TraceBuilder().op("aten::addmm", 0, 10, sequence=7)
    builder.op(NODE, 100, 200, thread=1, forward_thread=1, sequence=7)
    assert again(builder.op("aten::addmm", 110, 120, thread=1)) == []


def test_without_numbers_names_tell() -> None:
    assert again(backward(TraceBuilder(), numbered=False)) == ["aten::addmm", "aten::expand"]


@pytest.mark.parametrize("name", ["aten::mm", "aten::tanh_backward"])
def test_the_graph_of_a_second_derivative_is_no_forward_pass(name: str) -> None:
    builder = TraceBuilder().op("aten::addmm", 0, 10, sequence=7)
    builder.op(NODE, 100, 200, thread=1, forward_thread=1, sequence=7)
    assert again(builder.op(name, 110, 120, thread=1, sequence=8)) == []
