"""Everything that is found about torch.compile, with a headline."""

from traceanalyzer.diagnosis.compile.at_start import autotune, cache, failures, ranks, recompiled_regions, recompiles
from traceanalyzer.diagnosis.compile.in_step import breaks, cudagraphs
from traceanalyzer.diagnosis.compile.pairs import CompileDiagnosis, count
from traceanalyzer.replay.compile.model import Compiled

FINDINGS = (
    "graph-break",
    "recompilation",
    "cudagraphs-skipped",
    "compile-cache",
    "autotune",
    "compile-failed",
    "ranks-compile-differently",
)
"""Ids of the findings made here; the second of its kind goes on with its number. Each has a page for `explain`."""


def diagnose_compile(compiled: Compiled, step_ms: float | None) -> CompileDiagnosis:
    """Judge what was measured; `step_ms` is the step without the profiler, where a trace tells."""
    pairs = [
        *breaks(compiled, step_ms),
        *recompiles(compiled),
        *recompiled_regions(compiled),
        *cudagraphs(compiled, step_ms),
        *cache(compiled),
        *autotune(compiled),
        *failures(compiled),
        *ranks(compiled),
    ]
    pairs.sort(key=lambda pair: -(pair[0].headroom_ms or 0.0))
    findings = [finding for finding, _ in pairs]
    advice = [advice for _, given in pairs for advice in given]
    advice.sort(key=lambda one: float("inf") if one.predicted_step_ms is None else one.predicted_step_ms)
    return CompileDiagnosis(headline(compiled), findings, advice)


def headline(compiled: Compiled) -> str:
    """The answer in two sentences."""
    said = []
    if compiled.compile_s is not None:
        most = max(compiled.stages_s, key=lambda stage: compiled.stages_s[stage], default="")
        said.append(
            f"{compiled.compile_s:.3g} s of compilation for {count(compiled.graphs or 0, 'graph')}"
            + (f", most of it {most} ({compiled.stages_s[most]:.3g} s)." if compiled.compile_s else ".")
        )
        counts = [
            count(sum(row.count for row in compiled.graph_breaks), "graph break"),
            count(compiled.recompiles or 0, "recompilation"),
        ]
        said.append(" and ".join(counts) + (", the recompile limit was hit." if compiled.recompile_limit_hit else "."))
    use = compiled.trace
    if use is not None and use.compiled_share is not None:
        said.append(f"{use.compiled_share:.0%} of the step's GPU time is compiled.")
    return " ".join(said)
