"""Inference serving: the iterations of an engine."""
