"""Kineto (torch.profiler) traces: JSON, plain or gzipped."""

from traceanalyzer.ingest.kineto.reader import ABILITIES, read, recognise

__all__ = ["ABILITIES", "read", "recognise"]
