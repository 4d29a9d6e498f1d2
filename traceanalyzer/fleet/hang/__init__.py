"""Hangs: which rank, which collective, why."""
