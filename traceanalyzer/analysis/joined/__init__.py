"""Rows of a trace that know each other: launches, host tree, classes."""
