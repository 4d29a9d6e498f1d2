"""Programs with the mistakes that people make every day, written by somebody who has not read the
tool: measured once, by `benchmarks.first_sight`."""
