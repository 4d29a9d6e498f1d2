"""The structured log of torch.compile (`TORCH_TRACE`): what was compiled, how long it took, and what went wrong."""

from __future__ import annotations

from traceanalyzer.ingest.torch_log.read import is_torch_log, read_logs

__all__ = ["is_torch_log", "read_logs"]
