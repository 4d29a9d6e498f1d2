"""Operations of a pipelined job: those of a step of one data-parallel rank, with their times on all ranks and steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import F64, I64, Bool

FORWARD, BACKWARD = "forward-compute", "backward-compute"
SENDS_RECEIVES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
PARAMETERS, GRADIENTS, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
COLLECT, CLIP, OPTIMIZER = "gc", "optimizer-clip-main-grad", "optimizer"
COMPUTE = (FORWARD, BACKWARD, COLLECT, OPTIMIZER)
KINDS = (*COMPUTE, *SENDS_RECEIVES, PARAMETERS, GRADIENTS, SEPARATE, LAYERNORM, EMBEDDING, CLIP)
"""Types of operations, by their published names."""

USUAL_SHARE = 0.5
"""An operation that fewer steps have is no part of the pipeline."""
MOST_HOLES = 8
"""Times that a regular log would hold, for each that it holds: more is no pipeline."""
COLUMNS = ("kind", "seq", "stage", "dp", "step", "rank", "chunk", "place", "microbatch", "start", "duration")


@dataclass(frozen=True, eq=False)
class Operations:
    """A row an operation of a step, the same on every data-parallel rank."""

    kind: I64
    """Index in `KINDS`."""
    seq: I64
    """Which of its type it is on its stage."""
    stage: I64
    chunk: I64
    """Model chunk in its stage; -1 where it has none."""
    place: I64
    """Model chunk in the model; -1 where it has none."""
    microbatch: I64
    start: F64
    """[operation, data-parallel rank, step], s."""
    end: F64
    worker: I64
    """[data-parallel rank, stage]: the worker's rank in the job."""
    step: I64
    notes: tuple[str, ...] = ()

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.worker.shape[1]

    def of(self, *kinds: str) -> Bool:
        """Which operations are of these types."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in kinds])

    def name(self, one: int) -> str:
        """An operation in words."""
        return f"{KINDS[self.kind[one]]} {self.seq[one]} of stage {self.stage[one]}"


def operations(log: Mapping[str, Any], notes: tuple[str, ...] = ()) -> Operations:
    """From a log with a row each time that an operation ran (columns `COLUMNS`; `kind` -1 for one that is not known).

    Steps that lack an operation on any rank are left out, and counted. Raises TraceAnalyzerError where none is whole.
    """
    valid = (log["kind"] >= 0) & np.isfinite(log["start"] + log["duration"]) & (log["duration"] >= 0)
    log = {name: log[name][valid] for name in COLUMNS}
    ids, node = np.unique(np.stack([log[n] for n in ("kind", "seq", "stage")], 1), axis=0, return_inverse=True)
    dps, dp = np.unique(log["dp"], return_inverse=True)
    steps, step = np.unique(log["step"], return_inverse=True)
    shape = (len(ids), len(dps), len(steps))
    if not len(node) or np.prod([float(n) for n in shape]) > MOST_HOLES * len(node):
        raise TraceAnalyzerError("its ranks and steps have no operations in common; log whole steps of all ranks")
    cell, row = np.unique(np.ravel_multi_index((node.ravel(), dp, step), shape), return_index=True)
    filled = np.zeros(shape, bool)
    filled.flat[cell] = True
    usual = filled.mean(axis=(1, 2)) >= USUAL_SHARE
    whole = filled[usual].all(axis=(0, 1))
    if not whole.any():
        raise TraceAnalyzerError(f"no step is whole: {_lacking(filled[usual], ids[usual], dps)}")
    first = np.full(shape, -1, np.int64)
    first.flat[cell] = row
    first = first[usual][:, :, whole]
    one = first[:, 0, 0]
    worker = np.full((len(dps), int(ids[usual, 2].max()) + 1), -1, np.int64)
    worker[dp[first[:, :, 0]], log["stage"][first[:, :, 0]]] = log["rank"][first[:, :, 0]]
    return Operations(
        **{name: log[name][one].astype(np.int64) for name in ("kind", "seq", "stage", "chunk", "place", "microbatch")},
        start=log["start"][first],
        end=(log["start"] + log["duration"])[first],
        worker=worker,
        step=steps[whole],
        notes=(*notes, *_repairs(int((~valid).sum()), len(node) - len(cell), int((~whole).sum()), len(steps))),
    )


def _repairs(damaged: int, twice: int, broken: int, steps: int) -> tuple[str, ...]:
    found = (
        (damaged, f"{damaged:,} operations of unknown type or without a time were skipped."),
        (twice, f"{twice:,} operations stand in the log twice; the first counts."),
        (broken, f"{broken:,} of {steps:,} steps lack operations, and are left out."),
    )
    return tuple(words for count, words in found if count)


def _lacking(filled: Bool, ids: I64, dps: I64) -> str:
    """The worker and the operation that most steps lack."""
    where, dp = np.unravel_index(filled.mean(axis=2).argmin(), filled.shape[:2])
    kind, seq, stage = ids[where].tolist()
    return f"data-parallel rank {dps[dp]} lacks {KINDS[kind]} {seq} of stage {stage}"
