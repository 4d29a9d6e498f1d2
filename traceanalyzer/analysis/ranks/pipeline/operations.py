"""Operations of a pipelined job: those of a step of one data-parallel rank, with their times on all
ranks and steps."""

import numpy as np

from traceanalyzer.base import dataclass
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

    @property
    def recorded_s(self) -> F64:
        """[step]: from the first start to the last end, as recorded."""
        first: F64 = self.start.min(axis=(0, 1))
        last: F64 = self.end.max(axis=(0, 1))
        return last - first

    def of(self, *kinds: str) -> Bool:
        """Which operations are of these types."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
