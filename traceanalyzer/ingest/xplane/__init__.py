"""Recordings of JAX and XLA: `.xplane.pb`, and the `trace.json.gz` that is written beside it."""

from traceanalyzer.ingest.xplane.reader import ABILITIES, read, recognise, repeats

__all__ = ["ABILITIES", "read", "recognise", "repeats"]
