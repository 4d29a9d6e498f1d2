"""Hand-built traces with collectives: times in microseconds, each launched inside its
`record_param_comms`."""

from __future__ import annotations

from typing import Any

from tests.analysis.build import TraceBuilder
from traceanalyzer.trace import Collectives, Process, Trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
GEMM = "ampere_sgemm_128x64"


class Ranked(TraceBuilder):
    """A builder that knows collectives and makes its launches right before the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: list[dict[str, Any]] = []
        self.correlation = 0

    def described(
        self, name: str, elements: int, *, ranks: int = 2, group: str = "pg", out: int | None = None
    ) -> int:
        row = {
            "name": self.code(name),
            "in_elements": elements,
            "out_elements": elements if out is None else out,
            "dtype": self.code("Float"),
            "group": self.code(group),
            "group_size": ranks,
            "ranks": self.code(str(list(range(ranks)))),
        }
        if row not in self.metadata:
            self.metadata.append(row)
        return self.metadata.index(row)

    def launched(
        self, name: str, start: float, end: float, at: float, thread: int = 0, **columns: Any
    ) -> Ranked:
        self.correlation += 1
        self.call("cudaLaunchKernel", at, at + 1, self.correlation, thread)
        self.kernel(name, start, end, self.correlation, **({"stream": 7} | columns))
        return self

    def collective(
        self,
        start: float,
        end: float,
        at: float,
        *,
        name: str = "allreduce",
        kernel: str = ALL_REDUCE,
        elements: int = 1000,
        ranks: int = 2,
        group: str = "pg",
        stream: int = 7,
        **columns: Any,
    ) -> Ranked:
        row = self.described(name, elements, ranks=ranks, group=group)
        self.op("record_param_comms", at - 1, at + 3, collective=row)
        return self.launched(kernel, start, end, at, stream=stream, **columns)

    def trace(self, rank: int | None = 0, world: int | None = None, **fields: Any) -> Trace:
        table = Collectives.from_columns(
            {
                name: [row[name] for row in self.metadata]
                for name in (self.metadata[0] if self.metadata else {})
            },
            rows=len(self.metadata),
        )
        return self.build(collectives=table, process=Process(rank=rank, world_size=world), **fields)
