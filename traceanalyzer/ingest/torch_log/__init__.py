"""The structured log of torch.compile (`TORCH_TRACE`): what was compiled, how long it took, and what went wrong."""

from __future__ import annotations

from traceanalyzer.ingest.torch_log.read import is_log, logs_beside, read_logs

__all__ = ["is_log", "logs_beside", "read_logs"]
