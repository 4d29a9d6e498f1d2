"""Hostile input, by the promise that it tests: see "What is promised" in SECURITY.md."""
