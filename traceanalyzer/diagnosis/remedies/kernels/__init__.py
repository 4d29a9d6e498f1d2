"""Remedies for kernels: less work, fewer bytes, faster units."""
