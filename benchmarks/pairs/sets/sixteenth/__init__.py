"""Programs with mistakes of forums, code reviews and copied recipes, written by somebody who has not
read the tool: measured once, by `benchmarks.first_sight`."""
