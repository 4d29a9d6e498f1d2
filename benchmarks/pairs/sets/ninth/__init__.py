"""Programs written before anything of this round was tuned: measured once, by
`benchmarks.first_sight`."""
