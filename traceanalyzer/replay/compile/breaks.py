"""Graph breaks in plain words, and the line of code that ends them."""

from __future__ import annotations

import re

from traceanalyzer.replay.compile.model import BreakRow
from traceanalyzer.trace.compile_log import Break, Compilation, CompileLog, resumed_at

_PLAIN = (
    (
        re.compile(r"builtin (?:operator )?[`']?print|\bprint\b", re.IGNORECASE),
        "print() in compiled code",
        "remove the print, or add it to torch._dynamo.config.reorderable_logging_functions",
    ),
    (
        re.compile(r"\.item\(\)|Tensor\.item|_local_scalar_dense|\.tolist\(\)|capture_scalar_outputs", re.IGNORECASE),
        "a value is read from the GPU (.item())",
        "keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs = True",
    ),
    (
        re.compile(r"data[- ]dependent (?:branch|jump|control)|generic_jump|dynamic control flow", re.IGNORECASE),
        "Python branches on a value of a tensor",
        "use torch.where or torch.cond instead of `if`",
    ),
    (
        re.compile(r"data[- ]dependent|dynamic shape operator|nonzero|unique|masked_select", re.IGNORECASE),
        "an operator's output size depends on data",
        "set torch._dynamo.config.capture_dynamic_output_shape_ops = True, or give the output a fixed size",
    ),
    (
        re.compile(r"graph_break\(\)|function graph_break", re.IGNORECASE),
        "the program asks for it (graph_break())",
        "remove the torch._dynamo.graph_break() call",
    ),
    (
        re.compile(
            r"torch\._?dynamo\.disable|_disable|disallow|marked .*skip|skip function|skipped function", re.IGNORECASE
        ),
        "a function that dynamo is told to skip is called",
        "move the call out of the compiled function, or allow it in the graph",
    ),
    (
        re.compile(r"numpy|\.cpu\(\)|\.numpy\(\)", re.IGNORECASE),
        "data goes to NumPy or the CPU",
        "do it with torch operators, on the GPU",
    ),
    (
        re.compile(r"logg(?:er|ing)|warnings?\.warn", re.IGNORECASE),
        "logging in compiled code",
        "move the logging out, or set torch._dynamo.config.ignore_logging_functions",
    ),
    (
        re.compile(r"backward\(\)|Tensor\.backward", re.IGNORECASE),
        "backward() is called in compiled code",
        "call backward() outside of the compiled function",
    ),
    (
        re.compile(r"custom (?:op|kernel|class)|C/C\+\+|builtin function or method|extension", re.IGNORECASE),
        "compiled code that dynamo cannot look into is called",
        "register it with torch.library.custom_op",
    ),
)


def in_plain_words(reason: str, hint: str = "") -> tuple[str, str]:
    """What the break is and what ends it; dynamo's own words where they are not known."""
    for pattern, plain, remedy in _PLAIN:
        if pattern.search(reason) or (hint and pattern.search(hint)):
            return plain, remedy
    return reason.rstrip("."), hint or "move the call out of the compiled function, or write it with torch operators"


def break_rows(log: CompileLog) -> list[BreakRow]:
    """The graph breaks, those of one reason at one line together."""
    rows: dict[tuple[str, str], BreakRow] = {}
    for one, location, compilation in breaks_of(log):
        plain, remedy = in_plain_words(one.reason, one.hint)
        key = (one.reason, location)
        before = rows[key].count if key in rows else 0
        rows[key] = BreakRow(
            reason=plain,
            detail=one.reason,
            location=location,
            count=before + 1,
            function=compilation.name,
            whole_function_eager=one.skipped_frame,
            remedy=remedy,
            basis="a trace of the same program tells what it costs",
        )
    return list(rows.values())


def breaks_of(log: CompileLog) -> list[tuple[Break, str, Compilation]]:
    """Every graph break with its location and the compilation it broke, in the order in which they were met.

    Logs that do not say where name what goes on after the break by its line.
    """
    result: list[tuple[Break, str, Compilation]] = []
    resumed = [c for c in log.compilations if resumed_at(c.name) is not None]
    for compilation in log.compilations:
        for one in compilation.breaks:
            location = one.location or _next_resumption(log, compilation, resumed) or compilation.location
            result.append((one, location, compilation))
    return result


def _next_resumption(log: CompileLog, broken: Compilation, resumed: list[Compilation]) -> str:
    """`file:line` of the first function compiled later that goes on in the file of the broken one."""
    order = {id(c): index for index, c in enumerate(log.compilations)}
    file = broken.location.rpartition(":")[0]
    for later in resumed:
        if order[id(later)] > order[id(broken)] and later.location.rpartition(":")[0] == file:
            return f"{file}:{resumed_at(later.name)}"
    return ""
