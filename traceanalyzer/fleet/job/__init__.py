"""A job of many ranks from their digests: who holds it up, since when, and what it would gain
without."""
