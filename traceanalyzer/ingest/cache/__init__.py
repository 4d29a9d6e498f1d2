"""Models of recordings that were read before, and what was worked out from them and printed, in one
store."""
