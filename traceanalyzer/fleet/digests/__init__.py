"""Digests as files: one rank, one small Parquet file, wherever the ranks' recordings lie."""
