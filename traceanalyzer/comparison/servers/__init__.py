"""Two servers under load compared: by summaries of benchmarks, or by their logs."""
