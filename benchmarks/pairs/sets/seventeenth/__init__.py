"""Programs with the faults that are found most often, of people who do not tune their programs, written
by somebody who has not read the tool: measured once, by `benchmarks.first_sight`."""
