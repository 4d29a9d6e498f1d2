"""What came of each compilation: compiled, recompiled, left eager, refused or failed."""

from __future__ import annotations

from traceanalyzer.trace.compile_log import LIMIT, Compilation, CompileLog


def outcome_of(compilation: Compilation) -> str:
    """What came of a compilation."""
    if was_refused(compilation):
        return "refused"
    if any(b.skipped_frame for b in compilation.breaks):
        return "eager"
    if compilation.error or any(m.fail_type for m in compilation.metrics):
        return "failed"
    if not compilation.graphs:
        return "eager"
    return "recompiled" if compilation.is_recompilation else "compiled"


def was_refused(compilation: Compilation) -> bool:
    """Whether the recompile limit kept it from being compiled."""
    said = [f"{m.fail_type} {m.fail_reason.splitlines()[0] if m.fail_reason else ''}" for m in compilation.metrics]
    return any(LIMIT.search(text) for text in (*said, compilation.error) if text)


def recompilations(log: CompileLog) -> int:
    """Compilations of what had been compiled, without those that the limit refused."""
    return sum(c.is_recompilation and not was_refused(c) for c in log.compilations)


def graphs_of(log: CompileLog) -> int:
    """Graphs that were compiled."""
    return sum(c.graphs for c in log.compilations if outcome_of(c) != "failed")


def function_of(log: CompileLog, compilation: Compilation) -> str:
    """Name and place of a function; of a refused compilation those of the one before it."""
    one = named(log, compilation)
    return f"{one.name} ({one.location})" if one.location else one.name or one.compile_id


def named(log: CompileLog, compilation: Compilation) -> Compilation:
    """The compilation, or the last one of the same frame that names its function."""
    same = [c for c in log.compilations if c.frame == compilation.frame and c.name]
    return compilation if compilation.name or not same else same[-1]
