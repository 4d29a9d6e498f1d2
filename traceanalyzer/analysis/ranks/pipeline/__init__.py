"""Slowdown of pipelined jobs by their operations, as arXiv 2505.05713 defines it."""
