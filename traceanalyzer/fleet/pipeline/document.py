"""The slowdown of a pipelined job as a document."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from traceanalyzer.base.figures import definitions
from traceanalyzer.fleet.pipeline.log import read_pipeline
from traceanalyzer.fleet.pipeline.operations import Operations
from traceanalyzer.fleet.pipeline.slowdown import Range, Slowdown, StepRow, WorkerRow, slowdown
from traceanalyzer.report.document import Bullets, Document, Fact, Facts, Section, Table, TextTable, Verdict
from traceanalyzer.report.format import figure, number
from traceanalyzer.report.printed import Printed

TITLE = "Pipeline"
LEAST_SLOWDOWN = 1.02
"""Below, no step is worth a search for who is to blame."""
EXPLAINS = 0.5
"""Share of the slowdown from which on workers or a stage are named: the paper's threshold."""
CORRELATED = 0.9
"""From here on forward and backward time vary by the same cause, the length of the sequences: the paper's threshold."""
SHOWN = 5


def pipeline_page(path: Path) -> Printed:
    """The answer about a log of operations. Raises TraceAnalyzerError."""
    job = read_pipeline(path)
    ops, (found, workers, steps) = job.ops, slowdown(job)
    values = {
        "ranks": {"expected": ops.worker.size, "read": ops.worker.size, "unreadable": [], "missing": []},
        "summary": {"headline": headline(found), "step_ms": found.recorded_ms, "basis": "recorded"},
        "culprits": _culprits(found),
        "slowdown": found,
        "pipeline": {"dp": len(ops.worker), "pp": ops.stages, "vpp": int(ops.chunk.max()) + 1, "steps": len(steps)},
        "workers": workers,
        "steps": steps,
        "notes": ops.notes,
    }
    return Printed(Document(headline(found), _sections(ops, found, workers, steps)), values)


def headline(found: Slowdown) -> str:
    """The answer in a sentence."""
    if found.s < LEAST_SLOWDOWN:
        return f"No straggler: a step takes {number(found.s)}x what it would with all operations of a type alike."
    return f"{number(found.s)}x slower than with all operations of a type alike: {'; '.join(_causes(found))}."


def _causes(found: Slowdown) -> Iterator[str]:
    named = False
    if (found.m_w or 0) >= EXPLAINS:
        named = True
        ranks = ", ".join(map(str, found.s_worst_ranks[:SHOWN]))
        yield f"rank{'s' * (len(found.s_worst_ranks) > 1)} {ranks}, {_of_step(found.without_worst, found)}"
    if (found.m_s or 0) >= EXPLAINS:
        named = True
        yield f"the last stage is too heavy, {_of_step(found.without_last_stage, found)}"
    if (found.forward_backward_correlation or 0) >= CORRELATED:
        named = True
        yield "microbatches differ in work, as sequences of different length do"
    if not named:
        kind, s_t = next(iter(found.s_t.items()))
        yield f"no worker and no stage stands out; {kind} alone makes {number(s_t)}x"


def _of_step(gain: Range, found: Slowdown) -> str:
    return f"{figure(gain.gain_ms, 'ms')} of each {figure(found.simulated_ms, 'ms')} step"


def _culprits(found: Slowdown) -> list[dict[str, Any]]:
    """The workers that explain the slowdown. What they gain is the gain of all of them together."""
    if found.s < LEAST_SLOWDOWN or (found.m_w or 0) < EXPLAINS:
        return []
    return [{"rank": rank, "host": None, "cause": None, **vars(found.without_worst)} for rank in found.s_worst_ranks]


def _next(found: Slowdown) -> Iterator[str]:
    if found.s < LEAST_SLOWDOWN:
        return
    if (found.m_w or 0) >= EXPLAINS:
        yield f"Look at the GPU and host of rank {found.s_worst_ranks[0]}: clocks, throttling, other processes."
    if (found.m_s or 0) >= EXPLAINS:
        yield "Move layers from the last stage to others: it has the loss and the output layer as well."
    if (found.forward_backward_correlation or 0) >= CORRELATED:
        yield "Pack or sort sequences so that every microbatch has equal work (the sum of squared lengths)."


def _sections(ops: Operations, found: Slowdown, workers: list[WorkerRow], steps: list[StepRow]) -> list[Section]:
    meaning = {one.name: one for one in definitions(Slowdown)}
    figures = (("S", "s"), ("M_W", "m_w"), ("M_S", "m_s"), *((f"{n} step", f"{n}_ms") for n in ("simulated", "ideal")))
    facts = [Fact(name, figure(getattr(found, of), meaning[of].unit), meaning[of].definition) for name, of in figures]
    size = f"{len(ops.worker)} data-parallel ranks, {ops.stages} stages, {len(steps)} steps"
    advice = list(_next(found))
    return [
        Section(TITLE, [Verdict(headline(found), [size]), Facts(facts)], untitled=True),
        *([Section("Next", [Bullets(advice, ">")])] if advice else []),
        Section("Workers", [Table(workers, limit=SHOWN, defined=True)]),
        Section("By type and stage", [_ratios("S_t", found.s_t), _ratios("stage", found.s_stage)]),
        Section(
            "Slowest steps", [Table(sorted(steps, key=lambda one: -one.s), limit=SHOWN, defined=True, folded=True)]
        ),
        *([Section("Notes", [Bullets(ops.notes)])] if ops.notes else []),
    ]


def _ratios(name: str, of: Mapping[str, float]) -> TextTable:
    rows = [(one, f"{value:.4f}") for one, value in of.items()][:SHOWN]
    return TextTable((name, "slowdown"), (False, True), rows, noun="types")
