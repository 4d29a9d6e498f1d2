"""Recordings of AMD's profilers: rocpd databases, rocprofv3's JSON and CSV, RPD."""

from traceanalyzer.ingest.rocm.reader import read, recognise

__all__ = ["read", "recognise"]
