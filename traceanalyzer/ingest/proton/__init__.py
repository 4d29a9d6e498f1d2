"""What Triton's profiler writes: trees of sums by scope and kernel."""

from traceanalyzer.ingest.proton.reader import ABILITIES, read, recognise

__all__ = ["ABILITIES", "read", "recognise"]
