"""Readers: one format, one file, each `path -> Trace`s. Nothing else knows a file format."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceanalyzer.ingest.run import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """`load`, when it is asked for: a memory snapshot needs none of the other readers, and they
    take 10 MB."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from traceanalyzer.ingest.run import load

    return load
