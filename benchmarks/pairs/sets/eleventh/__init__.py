"""Programs of 2025 and 2026, written before anybody looked at what the tool says of them: measured
once, by `benchmarks.first_sight`."""
