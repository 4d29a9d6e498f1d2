"""The ranks of one run compared: matched collectives, clocks, skew."""
