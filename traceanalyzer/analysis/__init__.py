"""Measurements: one a module, each `Context -> frozen dataclass or rows`. No I/O, no verdicts."""
