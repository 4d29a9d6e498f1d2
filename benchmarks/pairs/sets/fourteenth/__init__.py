"""Programs of faults that the earlier sets lack, written by somebody who has not read the tool:
measured once, by `benchmarks.first_sight`."""
