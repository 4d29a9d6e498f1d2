"""What is reported where there is no log: nothing that a trace cannot say."""

from __future__ import annotations

from traceanalyzer.replay.compile.model import Compiled, StepsUse

EMPTY = Compiled(
    source="trace",
    graphs=None,
    graph_breaks=[],
    recompiles=None,
    recompile_reasons=[],
    recompile_limit_hit=False,
    runs_eager_since=[],
    compile_s=None,
    stages_s={},
    cache=None,
    cudagraphs=None,
    kernels=[],
    not_fused=None,
    compilations=[],
    errors=[],
    ranks=[],
    ranks_differ=[],
    steps=StepsUse(),
    trace=None,
    versions={},
    log={},
)
"""No log was read: what is not known is null or empty."""
