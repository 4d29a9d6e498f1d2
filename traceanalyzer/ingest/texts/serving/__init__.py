"""Summaries of serving benchmarks, and what servers expose of themselves."""
