"""Remedies for what the host does between launches: waits for the device, allocations, Python, first launches."""
