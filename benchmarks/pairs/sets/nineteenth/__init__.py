"""Programs that somebody wrote well once, each with a fault that people in the field meet, written by somebody
who has not read the tool: measured once, by `benchmarks.first_sight`."""
