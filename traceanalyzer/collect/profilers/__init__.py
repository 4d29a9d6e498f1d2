"""What records: the profilers beside `torch_profiler.py`, and how they share a process."""
