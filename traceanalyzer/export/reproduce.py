"""A script that makes one operator's call again, with its recorded shapes, types, strides and
numbers, and times it."""

import ast
import json
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from traceanalyzer.analysis.tables.ops import OpStats, op_stats
from traceanalyzer.base import TraceAnalyzerError, regex
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.report.format import plain

TORCH_TYPES = {
    "double": "float64",
    "float": "float32",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
"""How `torch` spells the types of recorded inputs."""
_DEVICE_MS = attrgetter("device_total_ms")
_QUALIFIED = regex(r"\w{1,80}+::\w{1,200}+")
_BARE = regex(r"\b(?!inf\b|nan\b|True\b|False\b|None\b)[A-Za-z_][\w:.]{0,200}+")
LISTS = {"TensorList": "tensors", "GenericList": "numbers (a stride, a padding) or tensors"}
"""What inputs that are lists hold, by the type that the recorder gave them."""
UNRECORDED = (
    "{operator} takes a list of {what}, and the recorder left out what is in it; an operator "
    "around it or inside it may have all of its inputs"
)


def reproduction(m: Measurements, operator: str) -> str:
    """The script for the call of an operator on which most device time is spent, of all its shapes.
    Raises TraceAnalyzerError where the recording has no such operator, or not the inputs that a
    call needs."""
    rows = [row for row in op_stats(m.rated, by_shape=True) if row.shapes is not None]
    chosen = max((row for row in rows if row.name == operator), key=_DEVICE_MS, default=None)
    if chosen is None:
        raise TraceAnalyzerError(
            f"{m.trace.path}: {operator} was not recorded with its shapes; {_with_shapes(rows)}"
        )
    if not _QUALIFIED.fullmatch(operator):
        raise TraceAnalyzerError(
            f"{operator} is no operator of PyTorch's (they are called as aten::mm is)"
        )
    namespace, _, name = operator.partition("::")
    each_us = chosen.device_total_ms / chosen.calls * 1e3 if chosen.calls else 0.0
    gpu = next((device.name for device in m.trace.devices if device.name), None) or "the GPU"
    shapes = (
        plain(str(chosen.shapes)).replace("\\", "/").replace('"', "'")
    )  # stands in a string of the script
    script = Path(__file__).with_name("reproduce.py.txt").read_text(encoding="utf-8")
    return Template(script).substitute(
        name=operator,
        calls=f"{chosen.calls:g}",
        took=f", {each_us:.1f} us of device time each" if each_us else "",
        recorded=repr(f"; recorded {each_us:.1f} us on {gpu}" if each_us else ""),
        shapes=f"Inputs {shapes}.",
        inputs="\n".join(f"    {one}," for one in _inputs(m, operator, str(chosen.shapes))),
        namespace=namespace,
        operator=name,
    )


def _with_shapes(rows: Iterable[OpStats]) -> str:
    """Which operators were recorded with their shapes, those with most device time first."""
    heaviest = sorted(rows, key=_DEVICE_MS, reverse=True)
    names = list(dict.fromkeys(row.name for row in heaviest if "::" in row.name))
    if not names:
        return "no operator has shapes in it"
    return f"operators with shapes: {', '.join(names[:8])}"


def _inputs(m: Measurements, operator: str, shapes: str) -> list[str]:
    """Python expressions of the inputs of the first such call."""
    ranges = m.trace.host_ranges
    strings = m.trace.strings
    named = np.flatnonzero((ranges.shapes >= 0) & (ranges.dtypes >= 0))
    rows = (
        i
        for i in named.tolist()
        if strings[ranges.name[i]] == operator and strings[ranges.shapes[i]] == shapes
    )
    row = next(rows, None)
    if row is None:
        raise TraceAnalyzerError(
            f"{m.trace.path}: the types of {operator}'s inputs were not recorded"
        )
    texts = [
        strings[code] if code >= 0 else "[]" for code in (ranges.strides[row], ranges.concrete[row])
    ]
    try:
        sizes = json.loads(shapes)
        types = json.loads(strings[ranges.dtypes[row]])
        strides, numbers = (json.loads(text) or [None] * len(sizes) for text in texts)
        return [
            _expression(operator, *one) for one in zip(sizes, types, strides, numbers, strict=True)
        ]
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceAnalyzerError(
            f"{m.trace.path}: the inputs of {operator} are damaged ({error})"
        ) from error


def _expression(operator: str, size: Any, kind: str, stride: Any, number: Any) -> str:
    if kind in TORCH_TYPES:
        return (
            f"tensor({_whole(size)}, {_whole(stride or contiguous(size))}, "
            f"torch.{TORCH_TYPES[kind]})"
        )
    if kind in LISTS and not number:
        raise TraceAnalyzerError(UNRECORDED.format(operator=operator, what=LISTS[kind]))
    if not number:
        return "None"
    try:
        return repr(ast.literal_eval(number))
    except (ValueError, SyntaxError):
        return repr(_BARE.search(number)[0]) if _BARE.fullmatch(number) else "None"  # type: ignore[index]


def _whole(numbers: Any) -> list[int]:
    """The list of integers: what stands in a recording becomes no code. Raises TypeError."""
    if not isinstance(numbers, list) or any(type(one) is not int for one in numbers):
        raise TypeError("sizes are no integers")
    return numbers


def contiguous(size: list[int]) -> list[int]:
    """Strides of a tensor whose elements lie side by side."""
    inner = [size[axis + 1 :] for axis in range(len(size))]
    return [int(np.prod(sizes, dtype=np.int64)) for sizes in inner]
