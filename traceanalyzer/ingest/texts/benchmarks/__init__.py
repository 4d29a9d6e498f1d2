"""What benchmarks print: tables of times, bandwidths, speeds of generation, a report of a run."""
