"""Step times of many ranks over days."""
