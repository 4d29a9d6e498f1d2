"""Nsight Systems exports: SQLite, plain or gzipped, and `.nsys-rep` where `nsys` is installed."""

from traceanalyzer.ingest.nsys.reader import ABILITIES, read, recognise

__all__ = ["ABILITIES", "read", "recognise"]
