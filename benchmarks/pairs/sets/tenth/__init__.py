"""Programs written from the names of the remedies alone: measured once, by
`benchmarks.first_sight`."""
