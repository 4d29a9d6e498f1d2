"""Operators by hand."""

from __future__ import annotations

import json

from traceanalyzer.replay.patterns.operators import Operator


def op(name: str, *shapes: object, values: list[str] | None = None) -> Operator:
    """An operator with operands of these shapes; a list of shapes is a list of tensors."""
    return Operator(
        f"aten::{name}",
        (json.dumps(shapes), None, json.dumps(values) if values is not None else None),
    )


def linear(rows: int, before: int, after: int) -> Operator:
    """A layer that gives `after` features of `before`."""
    return op("linear", [rows, before], [after, before])
