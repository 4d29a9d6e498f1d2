"""Logs of step times, written by `StepTimer` or by training programs."""

from traceanalyzer.ingest.timing.log import ABILITIES, PatternLog, read, recognise

__all__ = ["ABILITIES", "PatternLog", "read", "recognise"]
