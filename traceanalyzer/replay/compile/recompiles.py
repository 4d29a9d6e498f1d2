"""Recompilations by the guard that failed."""

from __future__ import annotations

from collections import defaultdict

from traceanalyzer.replay.compile.guards import key_of, read_guard, remedy_of
from traceanalyzer.replay.compile.model import RecompileRow
from traceanalyzer.replay.compile.outcomes import function_of, named, was_refused
from traceanalyzer.trace.compile_log import Compilation, CompileLog

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
