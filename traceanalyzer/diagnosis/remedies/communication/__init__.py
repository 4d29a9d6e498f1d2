"""Remedies for communication: fewer bytes, fewer messages, beside other work, between ranks that keep step."""
