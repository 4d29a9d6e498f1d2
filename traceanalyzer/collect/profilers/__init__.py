"""What records: the profilers of `torch_recording.py` and others, and how they share a process."""
