"""Tables on torch.compile as people read them: one row for what has one cause. JSON has every
compilation and every kernel of its own."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from traceanalyzer.base import dataclass, metric
from traceanalyzer.replay.compile.model import (
    BreakRow,
    CompilationRow,
    EagerRow,
    FirstStepPart,
    KernelRow,
    NotFusedRow,
    RankRow,
    RecompileRow,
)

SHOWN_VALUES = 5  # that a guard met: more do not tell more


@dataclass(frozen=True)
class ShownStage:
    """A stage of compilation."""

    stage: str = metric("what was done")
    compile_s: float = metric("time in it", "s")
    share: float = metric("share of all compilation", "share")


@dataclass(frozen=True)
class ShownBreak:
    """Graph breaks of one reason at one line."""

    graph_break: str = metric("why dynamo left compiled code")
    where: str = metric("line of the program")
    met: int = metric("how often dynamo met it while it compiled")
    per_step: float | None = metric("how often a steady step goes through it")
    gpu_idle_ms: float | None = metric("GPU idle time that it causes in a steady step as recorded")


@dataclass(frozen=True)
class ShownRecompilation:
    """Recompilations because of one guard."""

    guard: str = metric("what was checked and failed")
    values: str = metric("values that it met, in order")
    where: str = metric("line of the program")
    times: int = metric("how often the function was compiled again")
    refused: int = metric("further ones that the recompile limit refused")


@dataclass(frozen=True)
class ShownCompilation:
    """One compilation of a function."""

    compile_id: str = metric("dynamo's name of it")
    function: str = metric("the function of the program")
    where: str = metric("its line")
    compile_s: float = metric("time in it", "s")
    operators: int = metric("operators in its graphs")
    cache: str = metric("what inductor's cache gave")
    outcome: str = metric("compiled, recompiled, eager (nothing to compile), refused or failed")


@dataclass(frozen=True)
class ShownKernel:
    """A kernel that inductor wrote, in all the graphs that have it."""

    kernel: str = metric("its name")
    line: str = metric("first line of the program that it computes")
    graphs: int = metric("graphs that have it")
    nodes: int = metric("operations fused into it, in the largest of them")
    per_step: float | None = metric("launches in a steady step")
    time_ms: float | None = metric("its time in a steady step", "ms")
    estimate_ms: float | None = metric("inductor's own estimate of that", "ms")
    roofline_ms: float | None = metric("what its work needs at the GPU's limits", "ms")
    compile_ms: float | None = metric("time in which Triton compiled it, over all graphs", "ms")


@dataclass(frozen=True)
class ShownEager:
    """An operator that runs outside of compiled code."""

    still_eager: str = metric("the operator")
    per_step: float = metric("calls in a steady step")
    gpu_ms: float = metric("GPU time in a steady step", "ms")
    part_of: str = metric("what it is part of")


@dataclass(frozen=True)
class ShownStart:
    """A part of the first step."""

    first_step: str = metric("what was done")
    time_ms: float = metric("time of it in the first step", "ms")
    steady_ms: float = metric("time of it in a steady step", "ms")


@dataclass(frozen=True)
class ShownApart:
    """Operations that inductor did not fuse."""

    why_not_fused: str = metric("inductor's reason")
    pairs: int = metric("pairs of operations that it kept apart")
    such_as: str = metric("one of such a pair")
    and_: str = metric("the other")


@dataclass(frozen=True)
class ShownRank:
    """One process: a rank, or one start of it."""

    rank: int | None = metric("rank; null where the log does not say")
    compile_s: float = metric("time in compilations", "s")
    autotune_s: float = metric("time in autotuning", "s")
    graphs: int = metric("graphs compiled")
    graph_breaks: int = metric("graph breaks met")
    recompiles: int = metric("functions compiled again")
    cache_hits: int = metric("graphs found in inductor's cache")
    cache_misses: int = metric("graphs not found in it")


def rows_of_breaks(rows: Sequence[BreakRow]) -> list[ShownBreak]:
    """Graph breaks, in the order of the log."""
    return [
        ShownBreak(row.reason, short_place(row.location), row.count, row.per_step, row.idle_ms)
        for row in rows
    ]


def rows_of_recompilations(rows: Sequence[RecompileRow]) -> list[ShownRecompilation]:
    """Recompilations by their guard."""
    return [
        ShownRecompilation(
            row.guard, _values(row.values), short_place(row.location), row.count, row.refused
        )
        for row in rows
    ]


def _values(values: Sequence[str]) -> str:
    """The first of them; how many are left."""
    shown = ", ".join(values[:SHOWN_VALUES])
    left = len(values) - SHOWN_VALUES
    return f"{shown} and {left} more" if left > 0 else shown


def rows_of_compilations(rows: Sequence[CompilationRow]) -> list[ShownCompilation]:
    """Compilations, the longest first."""
    longest_first = sorted(rows, key=lambda row: -row.seconds)
    return [
        ShownCompilation(
            row.id,
            row.function,
            short_place(row.location),
            row.seconds,
            row.operators,
            row.cache,
            row.outcome,
        )
        for row in longest_first
    ]


def rows_of_kernels(rows: Sequence[KernelRow]) -> list[ShownKernel]:
    """Kernels by name, those with the most time in a step first, then those that took longest to
    compile."""
    by_name = defaultdict[str, list[KernelRow]](list)
    for row in rows:
        by_name[row.name].append(row)
    shown = [_kernel(name, same) for name, same in by_name.items()]
    return sorted(shown, key=lambda row: (-(row.time_ms or 0.0), -(row.compile_ms or 0.0)))


def _kernel(name: str, same: Sequence[KernelRow]) -> ShownKernel:
    lines = [line for row in same for line in row.lines]
    return ShownKernel(
        kernel=name,
        line=short_place(lines[0]) if lines else "",
        graphs=len({row.graph for row in same}),
        nodes=max(row.nodes for row in same),
        per_step=_sum([row.per_step for row in same]),
        time_ms=_sum([row.measured_ms for row in same]),
        estimate_ms=_sum([row.estimated_ms for row in same]),
        roofline_ms=_sum([row.attainable_ms for row in same]),
        compile_ms=_sum([row.compile_ms for row in same]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def rows_still_eager(rows: Sequence[EagerRow]) -> list[ShownEager]:
    """Operators outside of compiled code."""
    return [ShownEager(row.name, row.per_step, row.gpu_ms, row.where) for row in rows]


def rows_of_first_step(
    parts: Sequence[FirstStepPart], total_ms: float | None, steady_ms: float | None
) -> list[ShownStart]:
    """The parts of the first step, and their sum."""
    shown = [ShownStart(part.what, part.ms, part.steady_ms) for part in parts if part.ms]
    return [*shown, ShownStart("total", total_ms or 0.0, steady_ms or 0.0)] if shown else []


def rows_not_fused(rows: Sequence[NotFusedRow]) -> list[ShownApart]:
    """Why inductor kept operations apart."""
    return [ShownApart(row.reason, row.pairs, row.first, row.second) for row in rows]


def rows_of_ranks(rows: Sequence[RankRow]) -> list[ShownRank]:
    """Ranks side by side."""
    return [
        ShownRank(
            row.rank,
            row.compile_s,
            row.autotune_s,
            row.graphs,
            row.graph_breaks,
            row.recompiles,
            row.cache_hits,
            row.cache_misses,
        )
        for row in rows
    ]


def short_place(place: str) -> str:
    """`file:line`, and the code that may stand behind it, without the folders of the file."""
    file, colon, rest = place.partition(":")
    return f"{PurePath(file).name}{colon}{rest}"
