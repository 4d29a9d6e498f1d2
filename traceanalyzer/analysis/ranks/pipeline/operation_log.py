"""A pipeline's operations from a log with a row an operation, as ByteDance's StragglerAnalysis
publishes them (arXiv 2505.05713)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traceanalyzer.analysis.ranks.pipeline.operations import KINDS, Operations
from traceanalyzer.base import TraceAnalyzerError, dataclass
from traceanalyzer.trace import I64, Bool

IDS = ("optype", "seq_id", "stage")
COLUMNS = (*IDS, "dp_rank", "step", "rank", "mc", "gmc", "mb_id", "start_ts", "duration")
USUAL_SHARE = 0.5  # an operation that fewer steps have is no part of the pipeline
MOST_HOLES = 8  # times that a regular log would hold, for each that it holds: more is no pipeline


@dataclass(frozen=True, eq=False)
class _Cells:
    """Which row of a log each operation is, of each data-parallel rank and step."""

    ids: I64  # [operation, `IDS`]
    dps: I64  # the data-parallel ranks
    steps: I64
    dp: I64  # of each row of the log, index in `dps`
    rows: I64  # [operation, data-parallel rank, step], -1 where the log has none
    twice: int  # rows of the log that another one stands for

    @property
    def usual(self) -> Bool:
        """Which operations belong to the pipeline."""
        share: Bool = (self.rows >= 0).mean(axis=(1, 2)) >= USUAL_SHARE
        return share

    @property
    def whole(self) -> Bool:
        """Which steps have them all."""
        complete: Bool = np.all(self.rows[self.usual] >= 0, axis=(0, 1))
        return complete


def operations(log: Mapping[str, Any]) -> Operations:
    """From a log's columns (`COLUMNS`; `optype` is the index in `KINDS`, -1 for one that is not
    known).

    Steps that lack an operation on any rank are left out, and counted. Raises TraceAnalyzerError
    where none is whole.
    """
    valid = _valid(log)
    read = {name: log[name][valid] for name in COLUMNS}
    cells = _cells(read)
    _check_whole(cells)
    rows = cells.rows[cells.usual][:, :, cells.whole]
    first = {name: values[rows[:, 0, 0]] for name, values in read.items()}
    return Operations(
        kind=first["optype"],
        seq=first["seq_id"],
        stage=first["stage"],
        chunk=first["mc"],
        place=first["gmc"],
        microbatch=first["mb_id"],
        start=read["start_ts"][rows],
        end=(read["start_ts"] + read["duration"])[rows],
        worker=_workers(read, cells, rows[:, :, 0]),
        step=cells.steps[cells.whole],
        notes=_repairs(int((~valid).sum()), cells),
    )


def _valid(log: Mapping[str, Any]) -> Bool:
    """Rows of a known type and stage, with a time."""
    stage = log["stage"]
    known = (log["optype"] >= 0) & (stage >= 0) & (stage < len(stage))
    timed = np.isfinite(log["start_ts"] + log["duration"]) & (log["duration"] >= 0)
    valid: Bool = known & timed
    return valid


def _cells(log: Mapping[str, Any]) -> _Cells:
    """Raises TraceAnalyzerError where ranks and steps have hardly an operation in common."""
    keys = np.stack([log[name] for name in IDS], axis=1)
    ids, operation = np.unique(keys, axis=0, return_inverse=True)
    dps, dp = np.unique(log["dp_rank"], return_inverse=True)
    steps, step = np.unique(log["step"], return_inverse=True)
    shape = (len(ids), len(dps), len(steps))
    if not len(operation) or np.prod(shape, dtype=float) > MOST_HOLES * len(operation):
        raise TraceAnalyzerError(
            "its ranks and steps have no operations in common; log whole steps of all ranks"
        )
    places = np.ravel_multi_index((operation.ravel(), dp, step), shape)
    cell, row = np.unique(places, return_index=True)
    rows = np.full(shape, -1, np.int64)
    rows.flat[cell] = row
    return _Cells(ids, dps, steps, dp, rows, twice=len(operation) - len(cell))


def _check_whole(cells: _Cells) -> None:
    """Raises TraceAnalyzerError where no step has all operations, naming one that is missing."""
    if not cells.usual.any():
        raise TraceAnalyzerError(
            "no operation is there on most ranks and steps; log whole steps of all ranks"
        )
    if cells.whole.any():
        return
    present = (cells.rows[cells.usual] >= 0).mean(axis=2)
    where, lacking = divmod(int(present.argmin()), len(cells.dps))
    kind, seq, stage = cells.ids[cells.usual][where].tolist()
    raise TraceAnalyzerError(
        f"no step is whole: data-parallel rank {cells.dps[lacking]} lacks "
        f"{KINDS[kind]} {seq} of stage {stage}"
    )


def _workers(log: Mapping[str, Any], cells: _Cells, rows: I64) -> I64:
    """[data-parallel rank, stage]: ranks in the job. Raises TraceAnalyzerError where a stage is
    missing."""
    stages = log["stage"][rows[:, 0]]
    empty = np.flatnonzero(np.bincount(stages) == 0)
    if len(empty):
        raise TraceAnalyzerError(
            f"no operation of stage {empty[0]} is there on all ranks; log all stages, from 0 on"
        )
    shape = (len(cells.dps), int(stages.max()) + 1)
    worker = np.full(shape, -1, np.int64)
    worker[cells.dp[rows], log["stage"][rows]] = log["rank"][rows]
    return worker


def _repairs(skipped: int, cells: _Cells) -> tuple[str, ...]:
    """What was left out, in words."""
    notes = []
    if skipped:
        notes.append(
            f"{skipped:,} operations of unknown type or stage, or without a time, were skipped."
        )
    if cells.twice:
        notes.append(f"{cells.twice:,} operations stand in the log twice; the first counts.")
    partial = int((~cells.whole).sum())
    if partial:
        notes.append(
            f"{partial:,} of {len(cells.steps):,} steps lack operations, and are left out."
        )
    return tuple(notes)
