"""Kineto traces by hand: events in microseconds as the profiler writes them, and files in its
layouts."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PID = 100
MAIN = 100
CUDA_RUNTIME = "cuda_runtime"

Row = dict[str, Any]


def span(
    cat: str, name: str, ts: Any, dur: Any, pid: Any = PID, tid: Any = MAIN, **args: Any
) -> Row:
    """A complete event; argument names are written with spaces where the profiler does
    (`External_id`)."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {
            key.replace("_", " ") if key[0].isupper() else key: value for key, value in args.items()
        },
    }


@dataclass
class KinetoTrace:
    """Rows and metadata of a trace. Methods return the row, so that a test can spoil it."""

    rows: list[Row] = field(default_factory=list)
    metadata: Row = field(default_factory=lambda: {"schemaVersion": 1})
    correlation: int = 0

    def add(self, row: Row) -> Row:
        """Add any row."""
        self.rows.append(row)
        return row

    def op(self, name: str, ts: Any, dur: Any, **args: Any) -> Row:
        """A framework operator."""
        return self.add(span("cpu_op", name, ts, dur, **args))

    def annotation(self, name: str, ts: Any, dur: Any, **args: Any) -> Row:
        """A range that the user named."""
        return self.add(span("user_annotation", name, ts, dur, **args))

    def step(self, number: int, ts: Any, dur: Any) -> Row:
        """A profiler step."""
        return self.annotation(f"ProfilerStep#{number}", ts, dur)

    def python(self, name: str, ts: Any, dur: Any, **args: Any) -> Row:
        """A Python function call."""
        return self.add(span("python_function", name, ts, dur, **args))

    def api(
        self, name: str, ts: Any, dur: Any, correlation: int = 0, cat: str = CUDA_RUNTIME
    ) -> Row:
        """A call into the runtime or driver."""
        return self.add(span(cat, name, ts, dur, correlation=correlation))

    def device_op(
        self,
        cat: str,
        name: str,
        ts: Any,
        dur: Any,
        *,
        stream: int = 7,
        device: int = 0,
        **args: Any,
    ) -> Row:
        """A row of device work, or one that lies beside it."""
        placed = {"device": device, "context": 1, "stream": stream, **args}
        return self.add(span(cat, name, ts, dur, device, stream, **placed))

    def kernel(self, name: str, ts: Any, dur: Any, **args: Any) -> Row:
        """A kernel."""
        return self.device_op("kernel", name, ts, dur, **args)

    def launched(
        self, name: str, at: float, ts: Any, dur: Any, *, launch_us: float = 5.0, **args: Any
    ) -> Row:
        """A kernel and the call that launched it at `at`."""
        self.correlation += 1
        self.api("cudaLaunchKernel", at, launch_us, self.correlation)
        return self.kernel(name, ts, dur, correlation=self.correlation, **args)

    def copy(self, ends: str, ts: Any, dur: Any, **args: Any) -> Row:
        """A memory copy, `ends` as in `HtoD (Pinned -> Device)`."""
        return self.device_op("gpu_memcpy", f"Memcpy {ends}", ts, dur, **args)

    def name_process(self, name: str, pid: Any = PID) -> Row:
        """The metadata row that names a process."""
        return self.add(
            {
                "name": "process_name",
                "ph": "M",
                "ts": 0,
                "pid": pid,
                "tid": 0,
                "args": {"name": name},
            }
        )

    def name_thread(self, name: str, pid: Any = PID, tid: Any = MAIN) -> Row:
        """The metadata row that names a thread."""
        return self.add(
            {
                "name": "thread_name",
                "ph": "M",
                "ts": 0,
                "pid": pid,
                "tid": tid,
                "args": {"name": name},
            }
        )

    def window(self, ts: Any, dur: Any) -> Row:
        """The recorder's own span."""
        row = span("Trace", "PyTorch Profiler (0)", ts, dur, "Spans", "PyTorch Profiler")
        return self.add(row)

    def rank(self, rank: int, world_size: int = 2) -> KinetoTrace:
        """Say which rank it is."""
        self.metadata["distributedInfo"] = {
            "backend": "nccl",
            "rank": rank,
            "world_size": world_size,
        }
        return self

    def json(self, indent: int | None = None) -> bytes:
        """The file's content."""
        return json.dumps(self.metadata | {"traceEvents": self.rows}, indent=indent).encode()

    def write(self, path: Path, *, indent: int | None = None) -> Path:
        """Write the file, gzipped if its name says so."""
        content = self.json(indent)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path
