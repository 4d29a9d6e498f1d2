"""Recordings of JAX and XLA: `.xplane.pb`, and the `trace.json.gz` that is written beside it."""

from traceanalyzer.ingest.xplane.reader import read, recognise, repeats

__all__ = ["read", "recognise", "repeats"]
