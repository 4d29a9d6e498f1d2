"""Programs of kinds that the earlier sets lack, written before anybody looked at what the tool says
of them: measured once, by `benchmarks.first_sight`."""
