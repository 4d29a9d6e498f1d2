"""Chrome traces of Intel's unitrace (`--chrome-call-logging`, `--chrome-kernel-logging`)."""

from traceanalyzer.ingest.unitrace.reader import ABILITIES, read, recognise

__all__ = ["ABILITIES", "read", "recognise"]
