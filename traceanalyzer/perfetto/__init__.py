"""Overlays for Perfetto."""
