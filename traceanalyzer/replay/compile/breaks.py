"""What came of each compilation, and why: graph breaks, recompilations and what inductor did not fuse, in plain words,
with the line of code that ends them; whether ranks did the same."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from traceanalyzer.replay.compile.guards import Guard, key_of, read_guard, remedy_of
from traceanalyzer.replay.compile.model import BreakRow, NotFusedRow, RankRow, RecompileRow
from traceanalyzer.replay.compile.stages import cache_states, stage_seconds
from traceanalyzer.trace.compile_log import LIMIT, Break, Compilation, CompileLog, NotFused, resumed_at

_PLAIN = (
    (re.compile(r"(?i)builtin (?:operator )?[`']?print|\bprint\b"), "print() in compiled code",
     "remove the print, or add it to torch._dynamo.config.reorderable_logging_functions"),
    (re.compile(r"(?i)\.item\(\)|Tensor\.item|_local_scalar_dense|\.tolist\(\)|capture_scalar_outputs"),
     "a value is read from the GPU (.item())",
     "keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs = True"),
    (re.compile(r"(?i)data[- ]dependent (?:branch|jump|control)|generic_jump|dynamic control flow"),
     "Python branches on a value of a tensor", "use torch.where or torch.cond instead of `if`"),
    (re.compile(r"(?i)data[- ]dependent|dynamic shape operator|nonzero|unique|masked_select"),
     "an operator's output size depends on data",
     "set torch._dynamo.config.capture_dynamic_output_shape_ops = True, or give the output a fixed size"),
    (re.compile(r"(?i)graph_break\(\)|function graph_break"),
     "the program asks for it (graph_break())", "remove the torch._dynamo.graph_break() call"),
    (re.compile(r"(?i)torch\._?dynamo\.disable|_disable|disallow|marked .*skip|skip function|skipped function"),
     "a function that dynamo is told to skip is called",
     "move the call out of the compiled function, or allow it in the graph"),
    (re.compile(r"(?i)numpy|\.cpu\(\)|\.numpy\(\)"),
     "data goes to NumPy or the CPU", "do it with torch operators, on the GPU"),
    (re.compile(r"(?i)logg(?:er|ing)|warnings?\.warn"), "logging in compiled code",
     "move the logging out, or set torch._dynamo.config.ignore_logging_functions"),
    (re.compile(r"(?i)backward\(\)|Tensor\.backward"),
     "backward() is called in compiled code", "call backward() outside of the compiled function"),
    (re.compile(r"(?i)custom (?:op|kernel|class)|C/C\+\+|builtin function or method|extension"),
     "compiled code that dynamo cannot look into is called", "register it with torch.library.custom_op"),
)  # fmt: skip


def in_plain_words(reason: str, hint: str = "") -> tuple[str, str]:
    """What the break is and what ends it; dynamo's own words where they are not known."""
    known = ((plain, remedy) for pattern, plain, remedy in _PLAIN if pattern.search(reason) or pattern.search(hint))
    other = hint or "move the call out of the compiled function, or write it with torch operators"
    return next(known, (reason.rstrip("."), other))


def break_rows(log: CompileLog) -> list[BreakRow]:
    """The graph breaks, those of one reason at one line together."""
    met = breaks_of(log)
    count = Counter((one.reason, location) for one, location, _ in met)
    rows = {}
    for one, location, compilation in met:
        plain, remedy = in_plain_words(one.reason, one.hint)
        met_at = (location, count[one.reason, location], compilation.name, one.skipped_frame)
        basis = "a trace of the same program tells what it costs"
        rows[one.reason, location] = BreakRow(plain, one.reason, *met_at, remedy, basis=basis)
    return list(rows.values())


def breaks_of(log: CompileLog) -> list[tuple[Break, str, Compilation]]:
    """Every graph break with its location and the compilation it broke, in the order in which they were met. Logs that
    do not say where name what goes on after the break by its line."""
    resumed = [(i, one) for i, one in enumerate(log.compilations) if resumed_at(one.name) is not None]
    result = []
    for i, compilation in enumerate(log.compilations):
        file = compilation.location.rpartition(":")[0]
        later = (one for after, one in resumed if after > i and one.location.rpartition(":")[0] == file)
        goes_on = next((f"{file}:{resumed_at(one.name)}" for one in later), "") if compilation.breaks else ""
        result += [(one, one.location or goes_on or compilation.location, compilation) for one in compilation.breaks]
    return result


MAX_VALUES = 16  # values of a guard that are listed


def recompile_rows(log: CompileLog) -> list[RecompileRow]:
    """Recompilations by the guard that failed, most frequent first."""
    found: dict[tuple[str, str], list[tuple[Compilation, Guard]]] = defaultdict(list)
    for one in filter(lambda one: one.is_recompilation, log.compilations):
        guard = read_guard(one.recompile_reasons[0] if one.recompile_reasons else "")
        location = guard.location if guard.location.startswith("/") else named(log, one).location
        found[key_of(guard), location].append((one, guard))
    rows = []
    for (_, location), met in found.items():
        first, guard = met[0]
        text, refused = guard.text or "the log does not say which", sum(was_refused(one) for one, _ in met)
        values = list(dict.fromkeys(value for _, of in met for value in (of.old, of.new) if value))[:MAX_VALUES]
        function, remedy = function_of(log, first), remedy_of(guard)
        rows.append(RecompileRow(text, location, len(met) - refused, refused, function, values, remedy))
    return sorted(rows, key=lambda row: -row.count)


NOTHING_IN_COMMON = "no shared data"  # fusing these would save a launch and no memory traffic


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
    texts = [f"{m.fail_type} {(m.fail_reason.splitlines() or [''])[0]}" for m in compilation.metrics]
    return any(map(LIMIT.search, (*texts, compilation.error)))


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


def by_start(log: CompileLog) -> tuple[int, int]:
    """Ranks in order, of each its starts."""
    return (-1 if log.rank is None else log.rank, log.spans[0].start_ns if log.spans else 0)


def rank_row(log: CompileLog) -> RankRow:
    """What a process compiled, and how long that took."""
    stages, states = stage_seconds(log), cache_states(*log.compilations)
    compile_s = sum(sum(each.values()) for each in stages)
    autotune_s = sum(each.get("autotune", 0.0) for each in stages)
    counts = (graphs_of(log), sum(len(c.breaks) for c in log.compilations), recompilations(log))
    return RankRow(log.rank, log.path, compile_s, autotune_s, *counts, states["hit"], states["miss"])


def ranks_differ(logs: Sequence[CompileLog]) -> list[str]:
    """How ranks compiled differently: a rank with other graphs or other collectives is where a run hangs."""
    ranks = [log for _, log in sorted({log.rank: log for log in logs if log.rank is not None}.items())]
    return [text for log in ranks[1:] for text in _differences(ranks[0], log)]


def _differences(a: CompileLog, b: CompileLog) -> list[str]:
    names = {c.compile_id: c.name for log in (b, a) for c in reversed(log.compilations)}
    here, there = (Counter((c.compile_id, c.operators) for c in log.compilations if c.graphs) for log in (a, b))
    apart = sorted((here - there) | (there - here))
    result = [f"rank {b.rank} compiled {one} ({names[one]}) differently from rank {a.rank}." for one, _ in apart]
    schedules = [list(filter(None, (c.collectives for c in log.compilations))) for log in (a, b)]
    if schedules[0] != schedules[1]:
        result.append(f"rank {b.rank} runs other collectives, or in another order, than rank {a.rank}: this can hang.")
    return list(dict.fromkeys(result))
