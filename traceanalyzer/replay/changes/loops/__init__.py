"""Loops of a program whose turns need not each other: over tensors, tables, networks, calls of a
model."""
