"""Models of recordings that were read before, kept in the user's cache folder: the second question costs no reading."""

from traceanalyzer.ingest.cache.kept import read_once

__all__ = ["read_once"]
