"""Readers: one format, one file, each `path -> Trace`s. Nothing else knows a file format."""
