"""Programs of today's laboratories and services, each with a fault that its author did not see, written by somebody
who has not read the tool: half as its advice says, half as forums and reviews find them. Measured once, by
`benchmarks.first_sight`."""
