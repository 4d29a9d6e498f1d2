"""Nsight Systems exports: SQLite, plain or gzipped, and `.nsys-rep` where `nsys` is installed."""

from traceanalyzer.ingest.nsys.reader import read, recognise

__all__ = ["read", "recognise"]
