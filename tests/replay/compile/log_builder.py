"""Structured logs of torch.compile by hand."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class LogBuilder:
    """Lines of a log. Every record is of the compile id last set."""

    lines: list[str] = field(default_factory=list)
    frame: int | None = 0
    number: int | None = 0
    attempt: int = 0
    prefix: str = ""

    def record(self, kind: str, body: Any, payload: str | None = None, **more: Any) -> None:
        """A record, with its payload."""
        values: dict[str, Any] = {kind: body, **more}
        if self.frame is not None:
            values |= {
                "frame_id": self.frame,
                "frame_compile_id": self.number,
                "attempt": self.attempt,
            }
        if payload is not None:
            values["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        self.lines.append(
            f"{self.prefix}V1121 21:38:16.518000 979 torch/x.py:1] {json.dumps(values)}"
        )
        if payload is not None:
            self.lines += [f"{self.prefix}\t{line}" for line in payload.split("\n")]

    def artifact(self, name: str, payload: str) -> None:
        """An artifact."""
        self.record("artifact", {"name": name, "encoding": "string"}, payload)

    def event(self, name: str, phase: str, ts_us: float, **args: Any) -> None:
        """A begin or end of compile work, in microseconds of the epoch."""
        values = {"name": name, "ph": phase, "ts": ts_us, "pid": 0, "tid": 0, "args": args}
        self.record("chromium_event", {}, json.dumps(values))

    def span(self, name: str, begin_us: float, end_us: float) -> None:
        """A stretch of compile work with nothing in it."""
        self.event(name, "B", begin_us)
        self.event(name, "E", end_us)

    def start(self, file: str = "/p/train.py", line: int = 7, name: str = "forward") -> None:
        """Dynamo begins with a frame."""
        self.record("dynamo_start", {"stack": [{"line": line, "name": name, "filename": file}]})

    def metrics(self, seconds: float, **more: Any) -> None:
        """Dynamo's own summary."""
        named = {"co_filename": "/p/train.py", "co_firstlineno": 7, "co_name": "forward"}
        self.record(
            "compilation_metrics", {**named, "entire_frame_compile_time_s": seconds, **more}
        )

    def bytes(self) -> bytes:
        """The file."""
        return ("\n".join(self.lines) + "\n").encode()
