"""Graph breaks, recompilations and what inductor did not fuse, in plain words, with the line of code that ends them."""

import re
from collections import defaultdict

from traceanalyzer.replay.compile.guards import key_of, read_guard, remedy_of
from traceanalyzer.replay.compile.model import BreakRow, NotFusedRow, RecompileRow
from traceanalyzer.replay.compile.outcomes import function_of, named, was_refused
from traceanalyzer.trace.compile_log import Break, Compilation, CompileLog, NotFused, resumed_at

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


MAX_VALUES = 16
"""Values of a guard that are listed."""


def recompile_rows(log: CompileLog) -> list[RecompileRow]:
    """Recompilations by the guard that failed, most frequent first."""
    found: dict[tuple[str, str], list[tuple[Compilation, str, str]]] = defaultdict(list)
    texts: dict[tuple[str, str], tuple[str, str, str]] = {}
    for compilation in log.compilations:
        if not compilation.is_recompilation:
            continue
        guard = read_guard(compilation.recompile_reasons[0] if compilation.recompile_reasons else "")
        location = guard.location if guard.location.startswith("/") else named(log, compilation).location
        key = (key_of(guard), location)
        texts.setdefault(
            key, (guard.text or "the log does not say which", remedy_of(guard), function_of(log, compilation))
        )
        found[key].append((compilation, guard.old, guard.new))
    rows = []
    for (_, location), each in found.items():
        text, remedy, function = texts[_, location]
        refused = sum(was_refused(c) for c, *_ in each)
        values = list(dict.fromkeys(v for _, old, new in each for v in (old, new) if v))
        rows.append(RecompileRow(text, location, len(each) - refused, refused, function, values[:MAX_VALUES], remedy))
    return sorted(rows, key=lambda row: -row.count)


NOTHING_IN_COMMON = "no shared data"
"""Fusing these would save a launch and no memory traffic."""


def not_fused_rows(log: CompileLog) -> list[NotFusedRow] | None:
    """The pairs left apart by reason, most frequent first and those with nothing in common last; None where the log
    does not say."""
    if log.not_fused is None:
        return None
    found: dict[str, list[NotFused]] = defaultdict(list)
    for pair in log.not_fused:
        found[pair.reason].append(pair)
    rows = [
        NotFusedRow(reason, len(pairs), pairs[0].first, pairs[0].second, sorted({p.compile_id for p in pairs}))
        for reason, pairs in found.items()
    ]
    return sorted(rows, key=lambda row: (row.reason == NOTHING_IN_COMMON, -row.pairs))
