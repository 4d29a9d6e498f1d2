"""Logs of step times, written by `StepTimer` or by training programs."""

from traceanalyzer.ingest.timing.log import PatternLog, read, recognise

__all__ = ["PatternLog", "read", "recognise"]
