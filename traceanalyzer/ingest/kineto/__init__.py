"""Kineto (torch.profiler) traces: JSON, plain or gzipped."""

from traceanalyzer.ingest.kineto.reader import read, recognise

__all__ = ["read", "recognise"]
