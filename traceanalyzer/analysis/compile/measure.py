"""From the log of one process to what is reported of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from traceanalyzer.analysis.compile.breaks import breaks_of, in_plain_words
from traceanalyzer.analysis.compile.caches import cache_use
from traceanalyzer.analysis.compile.guards import key_of, read_guard, remedy_of
from traceanalyzer.analysis.compile.model import (
    BreakRow,
    CompilationRow,
    Compiled,
    CudaGraphUse,
    KernelRow,
    RankRow,
    RecompileRow,
    StepsUse,
)
from traceanalyzer.analysis.compile.stages import STAGES, outside_seconds, stage_seconds
from traceanalyzer.compile_log import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.compile_log import Compilation, CompileLog

MAX_VALUES = 16
"""Values of a guard that are listed."""
MAX_ERRORS = 20
LEAST_OUTSIDE_S = 0.05
"""Less work outside of compilations is not worth a note."""


def measure_logs(logs: Sequence[CompileLog], chosen: CompileLog | None = None) -> Compiled:
    """What the process compiled that took longest (or the chosen one), with the others beside it."""
    seconds = [sum(map(_total, stage_seconds(log))) for log in logs]
    log = chosen or _headline(logs, seconds)
    stages = stage_seconds(log)
    by_stage = {stage: sum(each.get(stage, 0.0) for each in stages) for stage in STAGES}
    compilations = [_row(c, each) for c, each in zip(log.compilations, stages, strict=True)]
    refused = [c for c in log.compilations if _refused(c)]
    return Compiled(
        source="log",
        graphs=_graphs(log),
        graph_breaks=break_rows(log),
        recompiles=_recompiles(log),
        recompile_reasons=recompile_rows(log),
        recompile_limit_hit=bool(refused),
        runs_eager_since=list(dict.fromkeys(_function_of(log, c) for c in refused)),
        compile_s=sum(by_stage.values()),
        stages_s=by_stage,
        cache=cache_use(log, stages),
        cudagraphs=cudagraph_use(log),
        kernels=kernel_rows(log),
        compilations=compilations,
        errors=_errors(log),
        ranks=[_rank(each, s) for each, s in sorted(zip(logs, seconds, strict=True), key=_when)],
        ranks_differ=ranks_differ(logs),
        steps=StepsUse(),
        trace=None,
        versions=log.versions,
        log=_counts(log),
        notes=_notes(logs, log),
    )


def _headline(logs: Sequence[CompileLog], seconds: Sequence[float]) -> CompileLog:
    """Of the last start of each rank the one that compiled longest; starts that compiled nothing are none."""
    began = [log.spans[0].start_ns if log.spans else 0 for log in logs]
    last: dict[int | None, int] = {}
    for index in sorted(range(len(logs)), key=began.__getitem__):
        if logs[index].compilations or logs[index].rank not in last:
            last[logs[index].rank] = index
    return logs[max(last.values(), key=seconds.__getitem__)]


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


def recompile_rows(log: CompileLog) -> list[RecompileRow]:
    """Recompilations by the guard that failed, most frequent first."""
    found: dict[tuple[str, str], list[tuple[Compilation, str, str]]] = defaultdict(list)
    texts: dict[tuple[str, str], tuple[str, str, str]] = {}
    for compilation in log.compilations:
        if not compilation.is_recompilation:
            continue
        guard = read_guard(compilation.recompile_reasons[0] if compilation.recompile_reasons else "")
        location = guard.location if guard.location.startswith("/") else _named(log, compilation).location
        key = (key_of(guard), location)
        texts.setdefault(
            key, (guard.text or "the log does not say which", remedy_of(guard), _function_of(log, compilation))
        )
        found[key].append((compilation, guard.old, guard.new))
    rows = []
    for (_, location), each in found.items():
        text, remedy, function = texts[_, location]
        refused = sum(_refused(c) for c, *_ in each)
        values = list(dict.fromkeys(v for _, old, new in each for v in (old, new) if v))
        rows.append(RecompileRow(text, location, len(each) - refused, refused, function, values[:MAX_VALUES], remedy))
    return sorted(rows, key=lambda row: -row.count)


def cudagraph_use(log: CompileLog) -> CudaGraphUse:
    """CUDA graphs recorded and left out."""
    recorded = Counter(s.compile_id for s in log.spans if s.name == "CUDAGraphNode.record")
    skipped = [m.cudagraph_skip for c in log.compilations for m in c.metrics if m.cudagraph_skip]
    asked = [e.cudagraphs for c in log.compilations for e in c.caches if e.cudagraphs is not None]
    asked += [m.wants_cudagraphs for c in log.compilations for m in c.metrics if m.wants_cudagraphs]
    used, wanted = bool(recorded), bool(skipped) or any(asked)
    if wanted and not used and not skipped:
        skipped = [_why_not_recorded(log)]
    return CudaGraphUse(
        used=used,
        wanted=True if used or wanted else False if asked else None,
        recorded=sum(recorded.values()),
        rerecorded=sum(n - 1 for n in recorded.values()),
        skipped=list(dict.fromkeys(skipped)),
        skipped_graphs=len(skipped),
    )


def _why_not_recorded(log: CompileLog) -> str:
    changed = sum(c.inputs_changed for c in log.compilations)
    if changed:
        return f"mutated inputs: the graphs change {changed} of their inputs in place (concluded from the graphs)"
    return "asked for and never recorded; the log does not say why (TORCH_LOGS=cudagraphs does)"


def kernel_rows(log: CompileLog) -> list[KernelRow]:
    """The kernels inductor wrote, in the order in which it did."""
    rows = []
    for compilation in log.compilations:
        noted = {kernel.name: kernel for kernel in compilation.triton}
        for code in compilation.codes:
            for kernel in code.kernels:
                about = noted.get(kernel.name)
                rows.append(
                    KernelRow(
                        name=kernel.name,
                        compile_id=compilation.compile_id,
                        graph=code.key,
                        direction=code.direction,
                        lines=list(kernel.lines),
                        operators=list(kernel.operators),
                        nodes=len(kernel.nodes),
                        compile_ms=about.compile_us / 1e3 if about else None,
                        configurations=about.configurations if about else None,
                        autotune_cache=about.autotune_cache if about else "",
                    )
                )
    return rows


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
        result.append(f"rank {b.rank} compiled {compile_id} ({name}) otherwise than rank {a.rank}.")
    schedules = [[c.collectives for c in log.compilations if c.collectives] for log in (a, b)]
    if schedules[0] != schedules[1]:
        result.append(f"rank {b.rank} runs other collectives, or in another order, than rank {a.rank}: this can hang.")
    return list(dict.fromkeys(result))


def _row(compilation: Compilation, stages: dict[str, float]) -> CompilationRow:
    states = Counter(e.state for e in compilation.caches if e.layer == "fx_graph")
    return CompilationRow(
        id=compilation.compile_id,
        function=compilation.name,
        location=compilation.location,
        seconds=_total(stages),
        stages_s=stages,
        graphs=compilation.graphs,
        operators=compilation.operators,
        cache=", ".join(f"{n} {state}" for state, n in states.items()),
        outcome=outcome_of(compilation),
        error=compilation.error or next((m.fail_reason for m in compilation.metrics if m.fail_reason), ""),
        restarts=len(compilation.restarts),
        dynamic=compilation.dynamic,
    )


def outcome_of(compilation: Compilation) -> str:
    """What came of a compilation."""
    if _refused(compilation):
        return "refused"
    if any(b.skipped_frame for b in compilation.breaks):
        return "eager"
    if compilation.error or any(m.fail_type for m in compilation.metrics):
        return "failed"
    if not compilation.graphs:
        return "eager"
    return "recompiled" if compilation.is_recompilation else "compiled"


def _total(stages: dict[str, float]) -> float:
    return sum(stages.values())


def _refused(compilation: Compilation) -> bool:
    """Whether the recompile limit kept it from being compiled."""
    said = [f"{m.fail_type} {m.fail_reason.splitlines()[0] if m.fail_reason else ''}" for m in compilation.metrics]
    return any(LIMIT.search(text) for text in (*said, compilation.error) if text)


def _recompiles(log: CompileLog) -> int:
    return sum(c.is_recompilation and not _refused(c) for c in log.compilations)


def _graphs(log: CompileLog) -> int:
    return sum(c.graphs for c in log.compilations if outcome_of(c) != "failed")


def _function_of(log: CompileLog, compilation: Compilation) -> str:
    """Name and place of a function; of a refused compilation those of the one before it."""
    named = _named(log, compilation)
    return f"{named.name} ({named.location})" if named.location else named.name or named.compile_id


def _named(log: CompileLog, compilation: Compilation) -> Compilation:
    """The compilation, or the last one of the same frame that names its function."""
    same = [c for c in log.compilations if c.frame == compilation.frame and c.name]
    return compilation if compilation.name or not same else same[-1]


def _errors(log: CompileLog) -> list[str]:
    failed = [c for c in log.compilations if outcome_of(c) == "failed"]
    texts = Counter(f"{c.name} ({c.location}): {_first(c)}" for c in failed)
    return [text if n == 1 else f"{text} ({n} times)" for text, n in texts.most_common(MAX_ERRORS)]


def _first(compilation: Compilation) -> str:
    reasons = [m.fail_reason.splitlines()[0] for m in compilation.metrics if m.fail_reason]
    return compilation.error or (reasons[0] if reasons else "unknown")


def _when(one: tuple[CompileLog, float]) -> tuple[int, int]:
    log = one[0]
    return (-1 if log.rank is None else log.rank, log.spans[0].start_ns if log.spans else 0)


def _rank(log: CompileLog, seconds: float) -> RankRow:
    autotune = sum(each.get("autotune", 0.0) for each in stage_seconds(log))
    states = Counter(e.state for c in log.compilations for e in c.caches if e.layer == "fx_graph")
    breaks = sum(len(c.breaks) for c in log.compilations)
    return RankRow(
        log.rank, log.path, seconds, autotune, _graphs(log), breaks, _recompiles(log), states["hit"], states["miss"]
    )


def _counts(log: CompileLog) -> dict[str, int]:
    counts = log.counts
    return {
        "records": counts.records,
        "lines": counts.lines,
        "payload_bytes": counts.payload_bytes,
        "unreadable": counts.unreadable,
        "stray_lines": counts.stray_lines,
        "damaged_payloads": counts.damaged_payloads,
        "shortened": counts.shortened,
        "unfinished_spans": log.unfinished,
        "other_records": sum(counts.unknown.values()),
    }


def _notes(logs: Sequence[CompileLog], log: CompileLog) -> list[str]:
    notes = list(log.notes)
    counts = log.counts
    logging = sum(m.logging_s or 0.0 for c in log.compilations for m in c.metrics)
    if logging:
        notes.append(f"Writing the log took {logging:.2f} s of the compile time, by dynamo's own clock.")
    outside = outside_seconds(log)
    if outside >= LEAST_OUTSIDE_S:
        notes.append(
            f"{outside:.2f} s of compile work belong to no compilation (a compiler tried out) and are not in the total."
        )
    if counts.unreadable:
        notes.append(f"{counts.unreadable} records cannot be read and were left out.")
    if counts.damaged_payloads:
        notes.append(f"{counts.damaged_payloads} payloads are damaged or cut off: figures from them may be missing.")
    if log.unfinished:
        notes.append(f"{log.unfinished} pieces of compile work do not end in the log: they count up to its end.")
    if len(logs) > 1 and len({each.rank for each in logs}) < len(logs):
        notes.append(
            f"The folder holds {len(logs)} logs; the figures are of the last start of the rank that compiled longest: "
            f"{log.path}."
        )
    return notes
