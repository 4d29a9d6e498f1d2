"""Changes of a tape, host and device together: pure functions that scenarios and remedies are made
of."""
