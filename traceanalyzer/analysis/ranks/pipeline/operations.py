"""Operations of a pipelined job: those of a step of one data-parallel rank, with their times on all
ranks and steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traceanalyzer.base import TraceAnalyzerError, dataclass
from traceanalyzer.trace import F64, I64, Bool

FORWARD = "forward-compute"
BACKWARD = "backward-compute"
PEERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
PARAMETERS = "params-all-gather"
GRADIENTS = "grads-reduce-scatter"
SEPARATE = "separate-grads-all-reduce"
LAYERNORM = "layernorm-grads-all-reduce"
EMBEDDING = "embedding-grads-all-reduce"
COLLECT = "gc"
CLIP = "optimizer-clip-main-grad"
OPTIMIZER = "optimizer"
COMPUTE = (FORWARD, BACKWARD, COLLECT, OPTIMIZER)
KINDS = (*COMPUTE, *PEERS, PARAMETERS, GRADIENTS, SEPARATE, LAYERNORM, EMBEDDING, CLIP)
"""Types of operations, by their published names."""
IDS = ("optype", "seq_id", "stage")
COLUMNS = (*IDS, "dp_rank", "step", "rank", "mc", "gmc", "mb_id", "start_ts", "duration")
USUAL_SHARE = 0.5  # an operation that fewer steps have is no part of the pipeline
MOST_HOLES = 8  # times that a regular log would hold, for each that it holds: more is no pipeline


@dataclass(frozen=True, eq=False)
class Operations:
    """A row an operation of a step, the same on every data-parallel rank."""

    kind: I64  # index in `KINDS`
    seq: I64  # which of its type it is on its stage
    stage: I64
    chunk: I64  # model chunk in its stage, and in the model; -1 where it has none
    place: I64
    microbatch: I64
    start: F64  # [operation, data-parallel rank, step], s
    end: F64
    worker: I64  # [data-parallel rank, stage]: the worker's rank in the job
    step: I64
    after: I64 | None = None
    """[operation]: the computation of its stage that was launched last before it, -1 for none;
    None: not known."""
    busy: F64 | None = None
    """As `start`: how long the device computes in it, s; the rest its host is late. None: not
    known."""
    notes: tuple[str, ...] = ()

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.worker.shape[1]

    def of(self, *kinds: str) -> Bool:
        """Which operations are of these types."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in kinds])


def operations(log: Mapping[str, Any]) -> Operations:
    """From a log's columns (`COLUMNS`; `optype` is the index in `KINDS`, -1 for one that is not
    known).

    Steps that lack an operation on any rank are left out, and counted. Raises TraceAnalyzerError
    where none is whole.
    """
    stage = log["stage"]
    valid = (
        (log["optype"] >= 0)
        & np.isfinite(log["start_ts"] + log["duration"])
        & (log["duration"] >= 0)
    )
    valid &= (stage >= 0) & (stage < len(stage))
    log = {name: log[name][valid] for name in COLUMNS}
    ids, node = np.unique(np.stack([*map(log.__getitem__, IDS)], 1), axis=0, return_inverse=True)
    dps, dp = np.unique(log["dp_rank"], return_inverse=True)
    steps, step = np.unique(log["step"], return_inverse=True)
    shape = (len(ids), len(dps), len(steps))
    if not len(node) or np.prod(shape, dtype=float) > MOST_HOLES * len(node):
        raise TraceAnalyzerError(
            "its ranks and steps have no operations in common; log whole steps of all ranks"
        )
    cell, row = np.unique(np.ravel_multi_index((node.ravel(), dp, step), shape), return_index=True)
    rows = np.full(shape, -1, np.int64)
    rows.flat[cell] = row
    usual = (rows >= 0).mean(axis=(1, 2)) >= USUAL_SHARE
    whole = (rows[usual] >= 0).all(axis=(0, 1))
    if not usual.any():
        raise TraceAnalyzerError(
            "no operation is there on most ranks and steps; log whole steps of all ranks"
        )
    if not whole.any():
        where, lacking = divmod(int((rows[usual] >= 0).mean(axis=2).argmin()), len(dps))
        kind, seq, stage = ids[usual][where].tolist()
        lacks = f"{KINDS[kind]} {seq} of stage {stage}"
        raise TraceAnalyzerError(
            f"no step is whole: data-parallel rank {dps[lacking]} lacks {lacks}"
        )
    rows = rows[usual][:, :, whole]
    one = {name: values[rows[:, 0, 0]] for name, values in log.items()}
    workers = rows[:, :, 0]
    empty = np.flatnonzero(np.bincount(one["stage"]) == 0)
    if len(empty):
        raise TraceAnalyzerError(
            f"no operation of stage {empty[0]} is there on all ranks; log all stages, from 0 on"
        )
    worker = np.full((len(dps), int(one["stage"].max()) + 1), -1, np.int64)
    worker[dp[workers], log["stage"][workers]] = log["rank"][workers]
    repairs = (
        ((~valid).sum(), "operations of unknown type or stage, or without a time, were skipped."),
        (len(node) - len(cell), "operations stand in the log twice; the first counts."),
        ((~whole).sum(), f"of {len(steps):,} steps lack operations, and are left out."),
    )
    return Operations(
        one["optype"],
        one["seq_id"],
        one["stage"],
        one["mc"],
        one["gmc"],
        one["mb_id"],
        log["start_ts"][rows],
        (log["start_ts"] + log["duration"])[rows],
        worker,
        steps[whole],
        notes=tuple(f"{count:,} {words}" for count, words in repairs if count),
    )
