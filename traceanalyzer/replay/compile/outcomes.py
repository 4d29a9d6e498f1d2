"""What came of each compilation: compiled, recompiled, left eager, refused or failed; whether ranks did the same."""

from collections import Counter
from collections.abc import Sequence

from traceanalyzer.replay.compile.model import RankRow
from traceanalyzer.replay.compile.stages import stage_seconds
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


def by_start(log: CompileLog) -> tuple[int, int]:
    """Ranks in order, of each its starts."""
    return (-1 if log.rank is None else log.rank, log.spans[0].start_ns if log.spans else 0)


def rank_row(log: CompileLog) -> RankRow:
    """What a process compiled, and how long that took."""
    stages = stage_seconds(log)
    autotune = sum(each.get("autotune", 0.0) for each in stages)
    states = Counter(e.state for c in log.compilations for e in c.caches if e.layer == "fx_graph")
    breaks = sum(len(c.breaks) for c in log.compilations)
    return RankRow(
        rank=log.rank,
        path=log.path,
        compile_s=sum(sum(each.values()) for each in stages),
        autotune_s=autotune,
        graphs=graphs_of(log),
        graph_breaks=breaks,
        recompiles=recompilations(log),
        cache_hits=states["hit"],
        cache_misses=states["miss"],
    )


def ranks_differ(logs: Sequence[CompileLog]) -> list[str]:
    """How ranks compiled differently: a rank with other graphs or other collectives is where a run hangs."""
    ranks = {log.rank: log for log in logs if log.rank is not None}
    if len(ranks) < 2:
        return []
    first, *others = (ranks[rank] for rank in sorted(ranks))
    return [text for log in others for text in _differences(first, log)]


def _differences(a: CompileLog, b: CompileLog) -> list[str]:
    result = []
    here, there = (Counter((c.compile_id, c.operators) for c in log.compilations if c.graphs) for log in (a, b))
    for compile_id, _ in sorted((here - there) | (there - here)):
        name = next((c.name for log in (a, b) for c in log.compilations if c.compile_id == compile_id), "")
        result.append(f"rank {b.rank} compiled {compile_id} ({name}) differently from rank {a.rank}.")
    schedules = [[c.collectives for c in log.compilations if c.collectives] for log in (a, b)]
    if schedules[0] != schedules[1]:
        result.append(f"rank {b.rank} runs other collectives, or in another order, than rank {a.rank}: this can hang.")
    return list(dict.fromkeys(result))
