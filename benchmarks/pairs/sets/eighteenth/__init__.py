"""Programs that somebody wrote well once, each with a fault that is met most often in the field, written by
somebody who has not read the tool: measured once, by `benchmarks.first_sight`."""
