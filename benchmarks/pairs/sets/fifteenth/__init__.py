"""Programs of what people train and serve today, written by somebody who has not read the tool:
measured once, by `benchmarks.first_sight`."""
