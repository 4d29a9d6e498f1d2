"""The machine and the process that is recorded: GPUs, settings, ranks, files."""
