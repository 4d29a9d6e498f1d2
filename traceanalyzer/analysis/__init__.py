"""Measurements: one a module, each a layer -> frozen dataclass or rows. No I/O, no verdicts."""
