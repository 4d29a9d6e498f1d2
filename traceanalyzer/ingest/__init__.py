"""Readers: one format, one file, each `path -> Trace`s. Nothing else knows a file format."""

from __future__ import annotations

from traceanalyzer.ingest.run import load

__all__ = ["load"]
