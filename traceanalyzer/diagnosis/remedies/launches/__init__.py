"""Remedies for launches: the same work of the device with fewer of them."""
