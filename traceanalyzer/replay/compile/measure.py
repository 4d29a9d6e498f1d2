"""From the log of one process to what is reported of it."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from traceanalyzer.base import MinorNote, digits
from traceanalyzer.replay.compile import breaks
from traceanalyzer.replay.compile.kernels import kernel_rows
from traceanalyzer.replay.compile.model import CompilationRow, Compiled
from traceanalyzer.replay.compile.stages import (
    STAGES,
    cache_states,
    cache_use,
    outside_seconds,
    stage_seconds,
)
from traceanalyzer.replay.compile.windows import cudagraph_use
from traceanalyzer.trace.compile_log import Compilation, CompileLog

MAX_ERRORS = 20
COUNTS = (
    "records",
    "lines",
    "payload_bytes",
    "unreadable",
    "stray_lines",
    "damaged_payloads",
    "shortened",
)
NO_ESTIMATES = MinorNote(
    "Inductor's own estimates of its kernels are not in the log: set LOG_TLPARSE=1 as well. Graphs compiled with it "
    "have a cache of their own, so the next start compiles again."
)
OUTSIDE = (
    "{:.2f} s of compile work belong to no compilation (a compiler tried out) and are not in "
    "the total."
)
DAMAGED = "{} payloads are damaged or cut off: figures from them may be missing."
SEVERAL = (
    "The folder holds {} logs; the figures are of the last start of the rank that compiled "
    "longest: {}."
)
MUCH_LOGGING = 0.1  # share of the compile time that writing the log makes up: less changes nothing
LEAST_OUTSIDE_S = 0.05  # less work outside of compilations is not worth a note


def measure_logs(logs: Sequence[CompileLog], chosen: CompileLog | None = None) -> Compiled:
    """What the process compiled that took longest (or the chosen one), with the others beside
    it."""
    log = chosen or headline_log(logs)
    stages = stage_seconds(log)
    by_stage = {stage: sum(each.get(stage, 0.0) for each in stages) for stage in STAGES}
    refused = [breaks.function_of(log, c) for c in log.compilations if breaks.was_refused(c)]
    counts = {name: getattr(log.counts, name) for name in COUNTS}
    counts |= {
        "unfinished_spans": log.unfinished,
        "other_records": sum(log.counts.unknown.values()),
    }
    return Compiled(
        source="log",
        graphs=breaks.graphs_of(log),
        graph_breaks=breaks.break_rows(log),
        recompiles=breaks.recompilations(log),
        recompile_reasons=breaks.recompile_rows(log),
        recompile_limit_hit=bool(refused),
        runs_eager_since=list(dict.fromkeys(refused)),
        compile_s=sum(by_stage.values()),
        stages_s=by_stage,
        cache=cache_use(log, stages),
        cudagraphs=cudagraph_use(log),
        kernels=kernel_rows(log),
        not_fused=breaks.not_fused_rows(log),
        compilations=list(map(_row, log.compilations, stages)),
        errors=_errors(log),
        ranks=[breaks.rank_row(each) for each in sorted(logs, key=breaks.by_start)],
        ranks_differ=breaks.ranks_differ(logs),
        versions=log.versions,
        log=counts,
        notes=_notes(logs, log, sum(by_stage.values())),
    )


def headline_log(logs: Sequence[CompileLog]) -> CompileLog:
    """The log that compiled longest among the last starts of each rank; starts that compiled
    nothing are none."""
    seconds = [sum(sum(each.values()) for each in stage_seconds(log)) for log in logs]
    began = [log.spans[0].start_ns if log.spans else 0 for log in logs]
    last: dict[int | None, int] = {}
    for index in sorted(range(len(logs)), key=began.__getitem__):
        if logs[index].compilations or logs[index].rank not in last:
            last[logs[index].rank] = index
    return logs[max(last.values(), key=seconds.__getitem__)]


def _row(compilation: Compilation, stages: dict[str, float]) -> CompilationRow:
    cache = ", ".join(f"{n} {state}" for state, n in cache_states(compilation).items())
    error = compilation.error or next(
        (m.fail_reason for m in compilation.metrics if m.fail_reason), ""
    )
    return CompilationRow(
        id=compilation.compile_id,
        function=compilation.name,
        location=compilation.location,
        seconds=sum(stages.values()),
        stages_s=stages,
        graphs=compilation.graphs,
        operators=compilation.operators,
        cache=cache,
        outcome=breaks.outcome_of(compilation),
        error=error,
        restarts=len(compilation.restarts),
        dynamic=compilation.dynamic,
    )


def _errors(log: CompileLog) -> list[str]:
    failed = [c for c in log.compilations if breaks.outcome_of(c) == "failed"]
    reasons = [
        next((m.fail_reason.splitlines()[0] for m in c.metrics if m.fail_reason), "unknown")
        for c in failed
    ]
    texts = Counter(
        f"{c.name} ({c.location}): {c.error or why}" for c, why in zip(failed, reasons, strict=True)
    )
    return [text if n == 1 else f"{text} ({n} times)" for text, n in texts.most_common(MAX_ERRORS)]


def _cost_of_the_log(seconds: float, compile_s: float) -> str:
    """What writing the log took, by dynamo's own clock."""
    text = f"Writing the log took {seconds:.2f} of {digits(compile_s)} s of compilation."
    return text if seconds > MUCH_LOGGING * compile_s else MinorNote(text)


def _notes(logs: Sequence[CompileLog], log: CompileLog, compile_s: float) -> list[str]:
    counts = log.counts
    outside = outside_seconds(log)
    codes = list(chain.from_iterable(one.codes for one in log.compilations))
    several_starts = len({each.rank for each in logs}) < len(logs)
    lacks_estimates = any(code.launches for code in codes) and not any(
        code.estimates for code in codes
    )
    logging = sum(filter(None, (m.logging_s for c in log.compilations for m in c.metrics)))
    possible = (
        (logging, _cost_of_the_log(logging, compile_s)),
        (lacks_estimates, NO_ESTIMATES),
        (outside >= LEAST_OUTSIDE_S, OUTSIDE.format(outside)),
        (counts.unreadable, f"{counts.unreadable} records cannot be read and were left out."),
        (counts.damaged_payloads, DAMAGED.format(counts.damaged_payloads)),
        (
            log.unfinished,
            (
                f"{log.unfinished} pieces of compile work do not end in the log: they count "
                "up to its end."
            ),
        ),
        (several_starts, SEVERAL.format(len(logs), log.path)),
    )
    return [*log.notes, *(text for applies, text in possible if applies)]
