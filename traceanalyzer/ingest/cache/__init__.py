"""Models of recordings that were read before, kept in the user's cache folder: the second question costs no reading."""

from traceanalyzer.ingest.cache.kept import kept_traces, read_once

__all__ = ["kept_traces", "read_once"]
