"""Remedies for input: loading it and copying it to the device."""
