"""A generated server of known timing: the same requests with the profiler (a trace) and without it
(a log)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.serving.logged import COLUMNS
from traceanalyzer.trace import CopyKind, DeviceOpKind, StepTimings, Trace

MARK = "execute_{0}_context_{1}(sq{2}sk{2}sqsq1sqsk1)_generation_{3}(sq{3}sk{4}sqsq{3}sqsk{4})"
PROFILED = 2
"""What a profiler makes of the host's dispatch, as `replay/host_speed.py` takes it of captures."""


@dataclass
class Server:
    """Times in us. An iteration is scheduled, launched and waited for; its tokens are made text."""

    graphs: bool = True
    overlap: bool = False
    a: float = 2000
    b: float = 10
    c: float = 0.02
    """GPU time of a decode: a + b x requests + c x KV tokens; of a prompt token in any iteration 1
    us."""
    kernels: int = 40
    dispatch: float = 45
    scheduling: float = 150
    text: float = 4
    """For each request, behind the wait."""
    noise: float = 0.0
    log: list[tuple[int, int, int, int, float]] = field(default_factory=list)

    def gpu(self, context: int, requests: int, kv: int) -> float:
        return self.a + self.b * requests + self.c * kv + context

    def run(self, work: list[tuple[int, int, int]], *, profiled: bool = True) -> TraceBuilder:
        """Iterations of (prompt tokens, decodes, KV tokens)."""
        b = TraceBuilder()
        slow = PROFILED if profiled else 1.0
        random = np.random.default_rng(3)
        now = gpu = last = 0.0
        number = 0
        pending = []
        self.log = []
        for context, requests, kv in work:
            b.annotation("scheduler: schedule", now, now + self.scheduling)
            now += self.scheduling
            number += 1
            b.call("cudaMemcpyAsync", now, now + 3 * slow, number)
            gpu = max(now + 5, gpu + 1) + 2
            b.kernel(
                "Memcpy HtoD",
                gpu - 2,
                gpu,
                number,
                kind=DeviceOpKind.MEMCPY,
                copy_kind=CopyKind.HOST_TO_DEVICE,
            )
            now += 5 * slow
            mark = now
            one = (
                self.gpu(context, requests, kv)
                * (1 + self.noise * random.standard_normal())
                / self.kernels
            )
            whole = self.graphs and not context
            for i in range(self.kernels):
                if i == 0 or not whole:
                    number += 1
                    at = now + self.dispatch * slow - 5
                    b.op(f"aten::op{i}", now + 1, at + 5)
                    b.call("cudaGraphLaunch" if whole else "cudaLaunchKernel", at, at + 4, number)
                    now = at + 5
                start = max(at + 6, gpu + 1)
                gpu = start + one
                b.kernel(f"kernel_{i}", start, gpu, number)
            name = MARK.format(context + requests, int(context > 0), context, requests, kv)
            b.annotation(name, mark, now)
            number += 1
            b.call("cudaMemcpyAsync", now, now + 3, number)
            gpu = max(now + 5, gpu + 1) + 2
            b.kernel(
                "Memcpy DtoH",
                gpu - 2,
                gpu,
                number,
                kind=DeviceOpKind.MEMCPY,
                copy_kind=CopyKind.DEVICE_TO_HOST,
            )
            now += 4
            pending.append((gpu, requests))
            if len(pending) > self.overlap:
                ended, texts = pending.pop(0)
                b.call("cudaEventSynchronize", now, max(now + 1, ended + 2))
                now = max(now + 1, ended + 2)
                b.annotation("detokenizer: process_outputs", now, now + texts * self.text)
                now += texts * self.text
            self.log.append((int(context > 0), context, requests, requests, (now - last) / 1e3))
            last = now
        return b

    def timings(self) -> StepTimings:
        """The log of the last run."""
        columns = dict(
            zip(COLUMNS, zip(*(line[:4] for line in self.log), strict=True), strict=True)
        )
        return StepTimings.from_columns(
            {**columns, "duration": [round(line[4] * 1e6) for line in self.log]}
        )

    def recorded(self, work: list[tuple[int, int, int]], **fields: object) -> Trace:
        return self.run(work).build(**fields)


def waves(batches: tuple[int, ...], decodes: int = 6, seed: int = 0) -> list[tuple[int, int, int]]:
    """For each batch a mixed iteration, then decodes whose KV grows, of lengths that do not follow
    the batch."""
    random = np.random.default_rng(seed)
    work = []
    for batch in batches:
        kv = int(batch * random.integers(100, 4000))
        work.append((int(random.integers(500, 3000)), max(batch - 2, 1), kv))
        work += [(0, batch, kv + i * batch) for i in range(decodes)]
    return work
