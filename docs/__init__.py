"""The documentation, and what keeps it true (`generate.py`)."""
