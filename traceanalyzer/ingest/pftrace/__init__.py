"""Perfetto protobuf traces as torch.profiler writes them (`.pftrace`, PyTorch 2.14 and later),
gzipped or not."""

from traceanalyzer.ingest.pftrace.reader import read, recognise

__all__ = ["read", "recognise"]
