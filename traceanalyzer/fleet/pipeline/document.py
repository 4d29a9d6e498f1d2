"""The slowdown of a pipelined job as a document."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.operation_log import COLUMNS, operations
from traceanalyzer.analysis.ranks.pipeline.operations import KINDS, Operations
from traceanalyzer.analysis.ranks.pipeline.slowdown import (
    PipelineSlowdown,
    PipelineStep,
    WorkerRow,
    pipeline,
    slowdown,
)
from traceanalyzer.base import TraceAnalyzerError, UnreadableInputError, definitions
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.base.limits import limits
from traceanalyzer.fleet.parquet_pages import made_bytes
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Fact,
    Facts,
    Section,
    Table,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import figure, number
from traceanalyzer.report.printed import Printed
from traceanalyzer.trace import F64, I64

if TYPE_CHECKING:
    import pandas as pd

PARQUET = b"PAR1"
LEAST_SLOWDOWN = 1.02  # below, no step is worth a search for who is to blame
EXPLAINS = 0.5
"""Share of the slowdown from which on workers or a stage are named: the paper's threshold."""
CORRELATED = 0.9
"""From here on forward and backward time vary by the same cause, the length of the sequences: the
paper's threshold."""
SHOWN = 5
ALONE = "slowdown with one as logged, all others ideal"
KIND = "optype"  # the column of texts: one that is named in every row is held once
BEYOND_INTEGERS = 2.0**63
ROW_BYTES = 8  # of the shortest row: `limits().size` has so many


def recognise(path: Path) -> bool:
    """Whether this is a log of operations."""
    try:
        with path.open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET and set(COLUMNS) <= set(
                opened_log(path).schema_arrow.names
            )
    except (OSError, TraceAnalyzerError):
        return False


def page(
    paths: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
) -> Printed:
    """The answer about a log of operations. Raises TraceAnalyzerError."""
    if len(paths) > 1:
        raise TraceAnalyzerError(f"{paths[1]}: a log of operations holds a whole job; give one")
    try:
        job = pipeline(read_operations(paths[0]))
    except TraceAnalyzerError as error:
        raise UnreadableInputError(f"{paths[0]}: {error}") from error
    ops = job.ops
    (slow, workers, steps) = slowdown(job)
    causes = list(_causes(slow))
    headline = (
        f"{number(slow.s)}x slower than if operations of one type took equally long: "
        f"{'; '.join(causes)}."
    )
    if not causes:
        headline = (
            f"No straggler: a step takes {number(slow.s)}x what it would if operations of one "
            "type took equally long."
        )
    # The workers that explain the slowdown: what they gain is the gain of all of them together.
    gain = dict(zip(("gain_ms", "low_ms", "high_ms"), slow.without_worst_ms, strict=True))
    ranks = slow.s_worst_ranks if _explained_by(slow)[0] else ()
    values = {
        "ranks": {
            "expected": ops.worker.size,
            "read": ops.worker.size,
            "unreadable": [],
            "missing": [],
        },
        "summary": {"headline": headline, "step_ms": slow.recorded_ms, "basis": "recorded"},
        "culprits": [{"rank": rank, "host": None, "cause": None, **gain} for rank in ranks],
        "slowdown": slow,
        "pipeline": {
            "dp": len(ops.worker),
            "pp": ops.stages,
            "vpp": int(ops.chunk.max()) + 1,
            "steps": len(steps),
        },
        "workers": workers,
        "steps": steps,
        "notes": ops.notes,
    }
    return Printed(Document(headline, _sections(headline, ops, slow, workers, steps)), values)


def _explained_by(found: PipelineSlowdown) -> tuple[bool, bool, bool]:
    """Whether the worst workers, the last stage, the work of microbatches explain a slowdown worth
    a search."""
    slow = found.s >= LEAST_SLOWDOWN
    shares = (
        (found.m_w, EXPLAINS),
        (found.m_s, EXPLAINS),
        (found.forward_backward_correlation, CORRELATED),
    )
    workers, stage, work = (
        slow and share is not None and share >= least for share, least in shares
    )
    return workers, stage, work


def _causes(found: PipelineSlowdown) -> Iterator[str]:
    workers, stage, work = _explained_by(found)
    if workers:
        ranks = ", ".join(map(str, found.s_worst_ranks[:SHOWN]))
        label = "ranks" if len(found.s_worst_ranks) > 1 else "rank"
        yield f"{label} {ranks}, {_of_step(found.without_worst_ms, found)}"
    if stage:
        yield f"the last stage is too heavy, {_of_step(found.without_last_stage_ms, found)}"
    if work:
        yield "microbatches differ in work, as sequences of different length do"
    if found.s >= LEAST_SLOWDOWN and not (workers or stage or work):
        kind, s_t = next(iter(found.s_t.items()))
        yield f"no worker and no stage stands out; {kind} alone makes {number(s_t)}x"


def _of_step(gain: tuple[float, float, float], found: PipelineSlowdown) -> str:
    return f"{figure(gain[0], 'ms')} of each {figure(found.simulated_ms, 'ms')} step"


def _sections(
    headline: str,
    ops: Operations,
    found: PipelineSlowdown,
    workers: list[WorkerRow],
    steps: list[PipelineStep],
) -> list[Section]:
    size = f"{len(ops.worker)} data-parallel ranks, {ops.stages} stages, {len(steps)} steps"
    do = (
        (
            f"Look at the GPU and host of rank {found.s_worst_ranks[0]}: clocks, throttling, "
            "other processes."
        ),
        "Move layers from the last stage to others: it has the loss and the output layer as well.",
        (
            "Pack or sort sequences so that every microbatch has equal work (the sum of "
            "squared lengths)."
        ),
    )
    advice = [text for text, holds in zip(do, _explained_by(found), strict=True) if holds]
    slowest = sorted(steps, key=lambda one: -one.s)
    return [
        Section("Pipeline", [Verdict(headline, [size]), slowdown_facts(found)], untitled=True),
        *([Section("Next", [Bullets(advice, ">")])] if advice else []),
        Section(f"Workers: {ALONE}", [Table(workers, limit=SHOWN, defined=True)]),
        Section(
            f"Types and stages: {ALONE}",
            [_ratios("operations", found.s_t), _ratios("stage", found.s_stage)],
        ),
        Section("Slowest steps", [Table(slowest, limit=SHOWN, defined=True, folded=True)]),
        *([Section("Notes", [Bullets(ops.notes)])] if ops.notes else []),
    ]


def slowdown_facts(found: PipelineSlowdown) -> Facts:
    """The slowdown and what explains it, under the names of the paper and in words."""
    meaning = {one.name: one for one in definitions(PipelineSlowdown)}
    figures = (
        ("slowdown (S)", "s", number(found.s)),
        ("due to worst 3% (M_W)", "m_w", _part_of_slowdown(found, found.m_w)),
        ("due to last stage (M_S)", "m_s", _part_of_slowdown(found, found.m_s)),
        ("simulated step", "simulated_ms", figure(found.simulated_ms, "ms")),
        ("ideal step", "ideal_ms", figure(found.ideal_ms, "ms")),
    )
    return Facts([Fact(label, text, meaning[field].definition) for label, field, text in figures])


def _part_of_slowdown(found: PipelineSlowdown, share: float | None) -> str:
    """A share of the slowdown. Stages that are lighter than the mean make it exceed the whole, or
    fall below nothing: then it is all, or none, of it."""
    if share is None or found.s < LEAST_SLOWDOWN:
        return figure(None, "share")
    if share >= 1:
        return "all of it"
    return figure(share, "share") if share > 0 else "none of it"


def _ratios(name: str, slowdowns: Mapping[str, float]) -> TextTable:
    rows = [(one, number(value)) for one, value in slowdowns.items()][:SHOWN]
    return TextTable((name, "slowdown"), (False, True), rows, noun="types")


def opened_log(path: Path) -> Any:
    """A Parquet file. Raises UnreadableInputError, TraceAnalyzerError where pyarrow is not
    installed."""
    try:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException
    except ImportError as error:
        raise TraceAnalyzerError(
            f"logs of operations need pyarrow: {how_to_install('parquet')}"
        ) from error
    try:
        # Opened here: Arrow takes names in UTF-8 alone.
        file = io.BufferedReader(io.FileIO(path))
        found = pq.ParquetFile(file)
        # a column of lists has another path than its name
        paths = [found.schema.column(i).path for i in range(len(found.schema.names))]
        if KIND not in paths:
            return found
        return pq.ParquetFile(file, metadata=found.metadata, read_dictionary=[KIND])
    except (ArrowException, OSError, ValueError) as error:
        raise UnreadableInputError(f"no Parquet file ({str(error).splitlines()[0]})") from error


def read_operations(path: Path) -> Operations:
    """The operations that a log holds. Raises UnreadableInputError, TraceAnalyzerError."""
    file = opened_log(path)
    from pyarrow import ArrowException

    lacks = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if lacks:
        raise UnreadableInputError(f"no log of operations, it lacks {', '.join(lacks)}")
    if file.metadata.num_rows > limits().size // ROW_BYTES:
        raise UnreadableInputError(
            f"{file.metadata.num_rows:,} operations are too many; raise it with --limit size=N"
        )
    try:
        _check_columns(file, path)
        frame = file.read(list(COLUMNS)).to_pandas(ignore_metadata=True)
        # A text that is named in every row is held once.
        kind = frame["optype"].map({one: i for i, one in enumerate(KINDS)}).astype(float)
        log = {name: _numbers(frame[name] if name != "optype" else kind, name) for name in COLUMNS}
    except (ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        raise UnreadableInputError(
            f"damaged ({str(error).splitlines()[0]}); copy it again"
        ) from error
    return operations(log)


def _check_columns(file: Any, path: Path) -> None:
    """Columns are numbers, and texts whose size the file tells: lists, and texts that share letters,
    may be of any size. Raises ValueError, UnreadableInputError."""
    from pyarrow import types

    for name in COLUMNS:
        kind = file.schema_arrow.field(name).type
        if name != KIND and not (types.is_integer(kind) or types.is_floating(kind)):
            raise ValueError(f"{name} is {kind}")
    with path.open("rb") as opened:
        full_size = made_bytes(opened)
    if full_size > max(limits().size, limits().ratio * path.stat().st_size):
        raise UnreadableInputError(
            f"{full_size:,} bytes of operations are too many; raise it with --limit size=N"
        )


def _numbers(column: "pd.Series[Any]", name: str) -> I64 | F64:
    """A column's values, s or whole numbers; -1 for a number that is missing, or that no whole number
    of 64 bits is."""
    values: F64 = column.to_numpy(np.float64)
    if name in ("start_ts", "duration"):
        return values
    fitting = np.abs(values) < BEYOND_INTEGERS
    return np.where(fitting, values, -1).astype(np.int64)
