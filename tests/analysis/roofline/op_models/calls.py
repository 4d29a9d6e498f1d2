"""Calls written out by hand, and traces of recorded operators."""

from __future__ import annotations

import json
from typing import Any

from traceanalyzer.analysis.roofline.op_models import MODELS
from traceanalyzer.analysis.roofline.op_models.call import Call, CollectivePayload, Work
from traceanalyzer.analysis.roofline.op_models.tensors import parse_inputs
from traceanalyzer.trace import RangeKind

BF16 = "c10::BFloat16"


def contiguous(shape: list[int]) -> list[int]:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def call(
    name: str, *inputs: Any, dtype: str = "float", link: CollectivePayload | None = None
) -> Call:
    """A call: a list is a contiguous tensor, `(shape, dtype)` or `(shape, dtype, strides)` another,
    text a value."""
    shapes = []
    types = []
    strides = []
    values = []
    for given in inputs:
        value = given if isinstance(given, str) else ""
        given = (
            given
            if not isinstance(given, list) or (given and isinstance(given[0], list))
            else (given, dtype)
        )
        shape, kind, steps = (
            (*given, None)[:3]
            if isinstance(given, tuple)
            else ([], "Scalar" if value else "", None)
        )
        if isinstance(given, list):
            shape = given
            kind = "TensorList"
            steps = [contiguous(s) for s in given]
        shapes.append(shape)
        types.append(kind)
        strides.append(contiguous(shape) if steps is None else steps)
        values.append(value)
    parsed = parse_inputs(json.dumps(shapes), json.dumps(types), json.dumps(strides))
    assert parsed is not None
    return Call(name, parsed, tuple(values), link)


def work(
    name: str, *inputs: Any, dtype: str = "float", link: CollectivePayload | None = None
) -> Work:
    """What the operator's model says of the call."""
    model, _ = MODELS.find(name)
    assert model is not None, name
    return model(call(name, *inputs, dtype=dtype, link=link))


def columns(
    shapes: Any, dtypes: list[str], code: Any, concrete: list[str] | None = None
) -> dict[str, int]:
    """Columns of a host range with these inputs; `code` makes codes of texts."""
    made = {"kind": RangeKind.OP, "shapes": json.dumps(shapes), "dtypes": code(json.dumps(dtypes))}
    return made | ({"concrete": code(json.dumps(concrete))} if concrete else {})
