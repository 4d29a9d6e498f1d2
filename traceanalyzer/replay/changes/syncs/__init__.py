"""Waits of the host for the device, and what is calculated only to be read."""
